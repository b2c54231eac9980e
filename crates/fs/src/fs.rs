//! A file system that is open: what every operation starts from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::grant::GrantId;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};
use ferrite_pool::{Extent, Freeze, Pool, Role, Stream, Tag};
use parking_lot::Mutex;

use crate::file::ahead::Ahead;
use crate::file::superpage::Candidates;
use crate::format::inode::Inode;
use crate::format::layout::MapPages;
use crate::format::shape::Shape;
use crate::share::layout::shared_state::Board;
use crate::share::sessions::Desk;
use crate::store::gate::Gate;
use crate::store::locks::Locks;
use crate::store::orphans::Orphans;
use crate::store::space::{ChunkKind, Space, is_in_use};
use crate::view::index_reader::Index;
use crate::{Attr, DataMode, Error, FsOptions, Ino, Kind, Result, Statfs};

/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 255;

/// A file system in a pool, open. Shared between threads as it is; every call returns when its change is durable, but
/// for written data and the times of files under [`DataMode::Posix`], and times of last access.
///
/// Any call gives [`Error::Stale`] for a number that is no inode's or no longer, [`Error::Corrupt`] for what this
/// program cannot have written, and those of the pool in [`Error::Pool`]; after a failed persist every change is
/// refused until the pool is opened again. What changes something gives [`Error::ReadOnly`] where it is open to be read
/// only, and [`Error::NoSpace`] where there is none for it: then content and names are as they were, unless the host
/// had none for what was stored already, which is a failed persist.
pub struct FileSystem {
    pool: Arc<Pool>,
    memory: Arc<dyn Memory>,
    options: FsOptions,
    data: DataMode,
    /// Only a barrier makes data durable.
    waits: bool,
    pub(crate) shape: Shape,
    pub(crate) tag: Mutex<Arc<Tag>>,
    pub(crate) space: Space,
    pub(crate) locks: Locks,
    pub(crate) gate: Gate,
    pub(crate) orphans: Orphans,
    pub(crate) ahead: Ahead,
    /// Who works on it from other processes.
    pub(crate) desk: Desk,
    /// Files that may be moved to superpages.
    pub(crate) candidates: Candidates,
    /// Held while a directory moves to another one, so that no directory comes to lie within itself.
    pub(crate) moving: Mutex<()>,
    /// A listing met damaged names (FN4).
    pub(crate) has_damaged_names: AtomicBool,
}

impl FileSystem {
    /// Opens the file system called `name`. The caller sees to it that it is open once at a time. Takes no longer for
    /// many files than for few, but where a crash left thousands that were open without a name. Where a fence is not durable, [`FileSystem::flush`] it before the last handle is
    /// dropped: else sizes that wait are as after a crash.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`] and [`ferrite_pool::Error::WrongKind`] where that is no file system's name,
    /// [`ferrite_pool::Error::Limit`] for one that only a newer Ferrite knows. [`Error::NoSpace`] where the pool was
    /// made larger and has no room for what that takes; else as [`FileSystem`] says.
    pub fn open(pool: Arc<Pool>, name: &str, options: FsOptions) -> Result<Arc<Self>> {
        let tag = pool.tag(name)?;
        let shape = Shape::read(&tag)?;
        let tag = shape.fit_map(&pool, tag)?;
        let tag = if options.read_only { tag } else { shape.renew(&pool, tag)? };
        let memory = pool.memory_handle();
        let map = MapPages::new(Stream::new(&tag.extents, Role::MAP).runs(Span::new(0, u64::MAX)));
        let bases = bases(&*memory, &map, &tag.extents);
        let corrupt = |what, at| Error::Corrupt { name: name.into(), what, at };
        let orphans = Orphans::load(&*memory, &map);
        let board = Arc::new(Board::new(map.chunks())?);
        let space = Space::load(&*memory, map, &board, &bases).map_err(|at| corrupt("the kind of a chunk", at))?;
        let waits = !memory.fence_is_durable();
        let usual = if waits { DataMode::Posix } else { DataMode::Sync };
        let data = match options.data.unwrap_or(usual) {
            DataMode::Posix if !waits => DataMode::Sync,
            mode => mode,
        };
        let fs = Arc::new(Self {
            memory,
            options,
            data,
            waits,
            shape,
            locks: Locks::new(&board, &space.abroad),
            gate: Gate::new(&board, &space.abroad),
            space,
            orphans,
            ahead: Ahead::default(),
            desk: Desk::default(),
            candidates: Candidates::default(),
            moving: Mutex::new(()),
            has_damaged_names: AtomicBool::new(false),
            tag: Mutex::new(Arc::clone(&tag)),
            pool,
        });
        let weak = Arc::downgrade(&fs);
        fs.locks.calm_by(Box::new(move |stripe, forced| {
            if let Some(fs) = weak.upgrade() {
                fs.calm_forced(stripe, forced);
            }
        }));
        fs.bind_chunks(&tag)?;
        if fs.space.kind(0) != Some(ChunkKind::Inodes) || !fs.load(Ino::ROOT)?.is_directory() {
            return Err(corrupt("the root directory", fs.space.map.chunk_word(0)));
        }
        if !fs.options.read_only {
            fs.bar_forerunners()?;
            fs.find_unlisted()?;
            fs.rescue_lost()?;
        }
        let service: Arc<dyn Freeze> = fs.clone();
        fs.pool.register_freezer(Arc::downgrade(&service) as Weak<dyn Freeze>);
        Ok(fs)
    }

    /// When written data is durable.
    pub fn data_mode(&self) -> DataMode {
        self.data
    }

    /// The pool it lies in.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Its tag as it stands.
    pub fn tag(&self) -> Arc<Tag> {
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

    /// Whether sizes and data wait for an fsync, because only a barrier makes them durable.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Waits until what this thread stored is durable.
    pub(crate) fn settle(&self) -> Result<()> {
        self.memory.settle().inspect_err(|error| self.pool.poison(error)).map_err(Error::from)
    }

    /// Where `page` lies in the pool.
    #[inline]
    pub(crate) fn place(&self, page: u64) -> Result<u64> {
        self.space.place(page).ok_or_else(|| self.corrupt("a page's number", 0))
    }

    #[cold]
    pub(crate) fn corrupt(&self, what: &'static str, at: u64) -> Error {
        Error::Corrupt { name: self.tag.lock().name.clone(), what, at }
    }

    /// The inode, in use or not; `None` where there is none of that number.
    pub(crate) fn load_any(&self, ino: Ino) -> Option<Inode> {
        self.space.inode_place(ino.0).map(|at| self.load_at(ino, at))
    }

    #[inline]
    fn load_at(&self, ino: Ino, at: u64) -> Inode {
        let place = |page| self.space.place(page);
        Inode::load(&*self.memory, ino, at, |inode, proof| {
            Index { memory: self.memory(), place, at }.holds(inode.head.height.into(), proof)
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
            Some(Kind::File) => Ok(inode),
            Some(Kind::Directory) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("only regular files have content")),
        }
    }

    pub(crate) fn attr_of(&self, inode: &Inode) -> Result<Attr> {
        inode.attr().ok_or_else(|| self.corrupt("the mode of an inode", inode.at))
    }

    /// Lets each chunk word name the one place that its chunk has, and adopts what none names. Where one names no place
    /// there is, or none while its chunk is in use, nothing is written: a chunk that none names may be that one's (FC3).
    fn bind_chunks(&self, tag: &Tag) -> Result<()> {
        let mut words: Vec<(u64, u64)> =
            (0..self.space.chunks()).map(|number| (self.space.map.chunk_word(number), 0)).collect();
        self.space.places().for_each(|(base, number)| words[number as usize].1 = base / CHUNK + 1);
        let is_any_spare = chunks_of(&tag.extents).count() > self.space.places().count();
        let is_lost = |(number, (at, word)): &(u64, &(u64, u64))| {
            let is_used = || *number == 0 || is_in_use(&*self.memory, self.space.map.descriptor(*number));
            *word == 0 && (self.memory.load_word(*at) != 0 || is_any_spare && is_used())
        };
        let lost = (0..).zip(&words).find(is_lost).map(|(_, (at, _))| *at);
        match lost {
            Some(_) if self.options.read_only => return Ok(()),
            Some(at) => return Err(self.corrupt("where a chunk lies", at)),
            None => {}
        }
        for (at, word) in words {
            if self.memory.load_word(at) != word {
                self.memory.store_word(at, word);
                self.memory.flush(Span::new(at, 8));
            }
        }
        self.settle()?;
        self.adopt_spare(tag)
    }

    /// Gives each chunk that the tag has and no word names a number (FC3).
    pub(crate) fn adopt_spare(&self, tag: &Tag) -> Result<()> {
        let known: BTreeSet<u64> = self.space.places().map(|(base, _)| base).collect();
        let spare = chunks_of(&tag.extents).filter(|base| !known.contains(base));
        for (base, number) in spare.zip(self.space.absent().collect::<Vec<_>>()) {
            let word = self.space.map.chunk_word(number);
            self.persist_kind_free(number)?;
            self.memory.store_word(word, base / CHUNK + 1);
            self.memory.persist(Span::new(word, 8))?;
            self.space.set_kind(number, ChunkKind::Free);
            self.space.set_base(number, base);
        }
        Ok(())
    }

    /// A number that is given to another chunk says first that nothing is in it.
    fn persist_kind_free(&self, number: u64) -> Result<()> {
        if self.memory.load_word(self.space.map.descriptor(number)) == ChunkKind::Free as u64 {
            return Ok(());
        }
        let mut transaction = self.pool.transaction();
        transaction.zero(Span::new(self.space.map.descriptor(number), crate::format::layout::DESCRIPTOR));
        Ok(transaction.commit()?)
    }

    /// How full it is, without what was removed. Free is what content can have: not what is left in chunks of names and
    /// words, nor in pages of the pool that are no whole chunk, nor what clients of an owner before may still store to (FG5).
    /// Counts inodes, which takes a while the first time where there are millions.
    pub fn statfs(&self) -> Statfs {
        self.settle_removed();
        self.space.drain_limbo();
        let pool_free = self.pool.space().idle_bytes_up_to(u64::MAX);
        let is_awaited = self.space.abroad.has_forerunners();
        let (mut free, mut awaited, mut own) = (pool_free, 0, Statfs::default());
        for chunk in 0..self.space.chunks() {
            let Some(kind) = self.space.kind(chunk) else { continue };
            own.own_bytes += CHUNK;
            let side = if is_awaited && self.space.is_barred(chunk) { &mut awaited } else { &mut free };
            match kind {
                ChunkKind::Free => *side += CHUNK,
                ChunkKind::Data => *side += self.space.free_pages(chunk) * PAGE,
                ChunkKind::Index if self.space.free_pages(chunk) == CHUNK_PAGES => *side += CHUNK,
                ChunkKind::Index => {}
                ChunkKind::Super => own.super_bytes += CHUNK,
                ChunkKind::Inodes if self.space.has_only_free_inodes(chunk) => *side += CHUNK,
                ChunkKind::Inodes => {}
            }
        }
        let (pages, chunks) = self.space.limbo.count();
        *if is_awaited { &mut awaited } else { &mut free } += pages * PAGE + chunks * CHUNK;
        (own.free_bytes, own.awaited_bytes) = (free, awaited);
        own.super_bytes = own.super_bytes.saturating_sub(chunks * CHUNK);
        own.total_bytes = own.own_bytes + pool_free;
        let (used, free) = self.space.inode_count(&*self.memory);
        (own.inodes, own.free_inodes) = (used - 1, free + self.inodes_of(own.free_bytes));
        own
    }
}

/// The chunks of the DATA stream, by where they lie.
fn chunks_of(extents: &[Extent]) -> impl Iterator<Item = u64> {
    let data = extents.iter().filter(|extent| extent.role == Role::DATA);
    data.flat_map(|extent| (extent.page..extent.end()).step_by(CHUNK_PAGES as usize).map(|page| page * PAGE))
}

/// Where each chunk lies, by its number; 0 where there is none (FC3).
fn bases(memory: &dyn Memory, map: &MapPages, extents: &[Extent]) -> Vec<u64> {
    let mut free: BTreeMap<u64, ()> = chunks_of(extents).map(|base| (base / CHUNK + 1, ())).collect();
    let mut base = |number| {
        let word = memory.load_word(map.chunk_word(number));
        let named = [word & u64::from(u32::MAX), word >> 32];
        let chunk = named.into_iter().find(|chunk| free.remove(chunk).is_some());
        chunk.map_or(0, |chunk| (chunk - 1) * CHUNK)
    };
    (0..map.chunks()).map(&mut base).collect()
}

impl Freeze for FileSystem {
    fn freeze(&self) {
        let all_stand_still = self.gate.close();
        self.desk.note_still(all_stand_still);
        if self.desk.has_writers() {
            // Who is stopped at the end of a file loses it: no size covers what a copy of the pool has not.
            self.locks.each(|_| ());
        }
        if self.waits() {
            // What waits can be loaded from the pool only when it is there.
            let _ = self.publish_all();
        }
    }

    fn thaw(&self) {
        self.desk.note_still(false);
        self.gate.open();
    }

    fn stilled(&self) -> Vec<GrantId> {
        self.desk.stilled()
    }

    fn has_files_on(&self, device: u64) -> bool {
        self.desk.device() == Some(device)
    }

    fn spare(&self) -> bool {
        if self.refuse_if_read_only().is_err() {
            return false;
        }
        // What fails is met again by a step.
        while matches!(self.step_orphans(), Ok(true)) {}
        if !self.gives_chunks() {
            return false;
        }
        self.free_all_ahead(|| Some(self.gate.pass()));
        self.free_left_ahead();
        self.when_let_go(|| {
            let mut is_any = false;
            while matches!(self.spare_space(), Ok(true)) {
                is_any = true;
            }
            is_any
        })
    }
}

/// Copies up to a page of bytes within the pool, past the cache.
pub(crate) fn copy_bytes(memory: &dyn Memory, from: u64, to: u64, len: u64) {
    let mut block = [0; PAGE as usize];
    memory.load(from, &mut block[..len as usize]);
    memory.store(to, &block[..len as usize], Scheme::Nt);
}
