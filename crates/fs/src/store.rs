//! Chunks, transactions, orphans and locks: the only part that allocates and commits.
//!
//! The layers above use the store and hold it: files hold the store, the tree holds the files.

pub(crate) mod bits;
pub(crate) mod change;
pub(crate) mod chunk_table;
pub(crate) mod clean_list;
pub(crate) mod clients;
pub(crate) mod create_fs;
pub(crate) mod deferred_frees;
pub(crate) mod fetched_pages;
pub(crate) mod gate;
pub(crate) mod growth;
pub(crate) mod inode_map;
pub(crate) mod locks;
pub(crate) mod orphans;
pub(crate) mod read_ahead;
pub(crate) mod read_ghosts;
pub(crate) mod read_streams;
pub(crate) mod reclaim;
pub(crate) mod slot_trim;
pub(crate) mod slots;
pub(crate) mod snapshots;
pub(crate) mod space;
pub(crate) mod tier_adoption;
pub(crate) mod tier_counters;
pub(crate) mod tier_joining;
pub(crate) mod tier_leaving;
pub(crate) mod tier_members;
pub(crate) mod tier_set;
pub(crate) mod write_failures;

use std::sync::{Arc, OnceLock, Weak};

use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Pool, Role, Stream, Tag};
use parking_lot::Mutex;

use crate::format::inode::Inode;
use crate::format::layout::{ChunkKind, MapPages, NODE_WORDS};
use crate::format::shape::FsShape;
use crate::format::word::AwayPage;
use crate::share::layout::shared_state::SharedState;
use crate::store::clients::Clients;
use crate::store::gate::ChangeGate;
use crate::store::locks::{Locks, Stripe};
use crate::store::orphans::Orphans;
use crate::store::read_ahead::ReadAhead;
use crate::store::reclaim::SpaceMaker;
use crate::store::slots::SlotStore;
use crate::store::space::ChunkSpace;
use crate::store::tier_members::TierOpening;
use crate::view::index_reader::IndexReader;
use crate::{Attr, DataMode, Error, FileKind, FsOptions, Ino, Result};

/// The chunks of a file system in its pool, its inodes, and their locks.
pub struct ChunkStore {
    pool: Arc<Pool>,
    memory: Arc<dyn Memory>,
    options: FsOptions,
    data: DataMode,
    /// Only a barrier makes data durable.
    waits: bool,
    pub(crate) shape: FsShape,
    pub(crate) tag: Mutex<Arc<Tag>>,
    pub(crate) space: ChunkSpace,
    pub(crate) locks: Locks,
    pub(crate) gate: ChangeGate,
    pub(crate) orphans: Orphans,
    /// The slots of the tier's SSDs, if there is a tier.
    pub(crate) slots: Option<Arc<SlotStore>>,
    /// Reads pages of sequential reads from the SSDs.
    pub(crate) read_ahead: ReadAhead,
    /// The clients that work on the files from other processes.
    pub(crate) clients: Arc<dyn Clients>,
    /// The layers above, which free space for a change that finds none.
    pub(crate) space_maker: OnceLock<Weak<dyn SpaceMaker>>,
}

impl ChunkStore {
    /// Opens the store of the file system called `name`, with its tier. `clients_on` makes the link to its clients, which
    /// share the words.
    pub(crate) fn open(
        pool: Arc<Pool>,
        name: &str,
        options: FsOptions,
        tier_opening: &TierOpening<'_>,
        clients_on: impl FnOnce(&Arc<SharedState>) -> Arc<dyn Clients>,
    ) -> Result<Self> {
        let tag = pool.tag(name)?;
        let tag = if options.read_only { tag } else { tier_members::undo_unfinished(&pool, tag)? };
        let shape = FsShape::read(&tag)?;
        let tag = create_fs::fit_map(&pool, tag)?;
        let tag = if options.read_only { tag } else { create_fs::renew(&shape, &pool, tag)? };
        let memory = pool.memory_handle();
        let map = MapPages::new(Stream::new(&tag.extents, Role::MAP).runs(Span::new(0, u64::MAX)));
        let bases = chunk_table::bases(&*memory, &map, &tag.extents);
        let corrupt = |what, at| Error::Corrupt { name: name.into(), what, at };
        let orphans = Orphans::load(&*memory, &map);
        let shared_state =
            Arc::new(SharedState::new(map.chunks(), if shape.has_tier { memory.size() / PAGE } else { 0 })?);
        let clients = clients_on(&shared_state);
        let space = ChunkSpace::load(&*memory, map, &shared_state, &clients, &bases, options.read_only)
            .map_err(|at| corrupt("the kind of a chunk", at))?;
        let slots = tier_members::load_slots(&pool, &tag, options.read_only, tier_opening, &shared_state)?;
        let waits = !memory.fence_is_durable();
        let usual = if waits { DataMode::Posix } else { DataMode::Sync };
        let data = match options.data.unwrap_or(usual) {
            DataMode::Posix if !waits => DataMode::Sync,
            mode => mode,
        };
        let store = Self {
            memory,
            options,
            data,
            waits,
            shape,
            locks: Locks::new(&shared_state, &clients),
            gate: ChangeGate::new(&shared_state, &clients),
            space,
            orphans,
            slots: slots.map(Arc::new),
            read_ahead: ReadAhead::default(),
            clients,
            space_maker: OnceLock::new(),
            tag: Mutex::new(Arc::clone(&tag)),
            pool,
        };
        store.bind_chunks(&tag)?;
        if store.space.kind(0) != Some(ChunkKind::Inodes) || !store.load(Ino::ROOT)?.is_directory() {
            return Err(corrupt("the root directory", store.space.map.chunk_word(0)));
        }
        Ok(store)
    }

    /// When written data is durable.
    pub(crate) fn data_mode(&self) -> DataMode {
        self.data
    }

    /// The pool that the file system lies in.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns the current tag of the file system.
    pub(crate) fn tag(&self) -> Arc<Tag> {
        Arc::clone(&self.tag.lock())
    }

    #[inline]
    pub(crate) fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    pub(crate) fn now(&self) -> i64 {
        (self.options.clock)().0
    }

    #[inline]
    pub(crate) fn refuse_if_read_only(&self) -> Result<()> {
        if self.options.read_only { Err(Error::ReadOnly) } else { Ok(self.pool.check_poison()?) }
    }

    /// Returns true if sizes and data wait for an fsync, because only a barrier makes them durable.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// See [`SlotStore::fetched`].
    pub(crate) fn fetched(&self, page: AwayPage) -> Result<Option<Arc<[u8]>>> {
        match &self.slots {
            Some(slots) => slots.fetched(page),
            None => Err(self.corrupt("a word of an index", 0)),
        }
    }

    /// Waits until what this thread stored is durable.
    pub(crate) fn drain(&self) -> Result<()> {
        self.memory.drain().inspect_err(|error| self.pool.poison(error)).map_err(Error::from)
    }

    /// Returns the offset of `page` in the pool.
    #[inline]
    pub(crate) fn place(&self, page: u64) -> Result<u64> {
        self.space.place(page).ok_or_else(|| self.corrupt("a page's number", 0))
    }

    #[cold]
    pub(crate) fn corrupt(&self, what: &'static str, at: u64) -> Error {
        Error::Corrupt { name: self.tag.lock().name.clone(), what, at }
    }

    /// Returns the inode, in use or not; `None` if no inode has this number.
    pub(crate) fn load_any(&self, ino: Ino) -> Option<Inode> {
        self.space.inode_place(ino.0).map(|at| self.load_at(ino, at))
    }

    #[inline]
    fn load_at(&self, ino: Ino, at: u64) -> Inode {
        let place = |page| self.space.place(page);
        Inode::load(&*self.memory, ino, at, |inode, checksum| {
            IndexReader { memory: self.memory(), place, at }.holds(inode.head.height.into(), checksum)
        })
    }

    /// The inode, which is in use.
    #[inline]
    pub(crate) fn load(&self, ino: Ino) -> Result<Inode> {
        let at = self.space.inode_place(ino.0).ok_or(Error::Stale)?;
        let inode = self.load_at(ino, at);
        if inode.is_free() { Err(Error::Stale) } else { Ok(inode) }
    }

    pub(crate) fn load_directory(&self, ino: Ino) -> Result<Inode> {
        let inode = self.load(ino)?;
        if inode.is_directory() { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    pub(crate) fn load_regular(&self, ino: Ino) -> Result<Inode> {
        let inode = self.load(ino)?;
        match inode.kind() {
            Some(FileKind::File) => Ok(inode),
            Some(FileKind::Directory) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("only regular files have content")),
        }
    }

    pub(crate) fn attr_of(&self, inode: &Inode) -> Result<Attr> {
        inode.attr().ok_or_else(|| self.corrupt("the mode of an inode", inode.at))
    }

    /// The words of the index page at `at`.
    pub(crate) fn load_words(&self, at: u64) -> [u64; NODE_WORDS as usize] {
        let mut page = [0; PAGE as usize];
        self.memory().load(at, &mut page);
        let words: [[u8; 8]; NODE_WORDS as usize] = zerocopy::transmute!(page);
        words.map(u64::from_le_bytes)
    }

    /// Returns true if a stopped client may still store an invalid size and times to `ino`.
    pub(crate) fn is_append_stopped(&self, stripe: &Stripe, ino: Ino) -> bool {
        stripe.stopped_appends.contains_key(&ino.0) || self.clients.has_orphaned_clients()
    }

    /// Returns true if `error` means that the pool is full, and not that the host's disk lacked space for stored data,
    /// after which every change fails.
    pub(crate) fn is_full(&self, error: &Error) -> bool {
        error.is_no_space() && self.pool().check_poison().is_ok()
    }

    /// What an entry names: it must be there.
    pub(crate) fn load_child(&self, ino: Ino) -> Result<Inode> {
        self.load(ino).map_err(|_| self.corrupt("a name, whose inode is free,", 0))
    }

    /// A directory that has not been removed.
    pub(crate) fn load_living(&self, ino: Ino) -> Result<Inode> {
        let dir = self.load_directory(ino)?;
        if dir.head.links == 0 { Err(Error::NotFound) } else { Ok(dir) }
    }
}

impl Error {
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace)
    }
}

/// Copies up to a page of bytes within the pool, past the cache.
pub(crate) fn copy_bytes(memory: &dyn Memory, from: u64, to: u64, len: u64) {
    let mut block = [0; PAGE as usize];
    memory.load(from, &mut block[..len as usize]);
    memory.store(to, &block[..len as usize], Scheme::Nt);
}
