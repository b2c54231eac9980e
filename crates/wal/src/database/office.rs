//! What a pool's owner does for processes that keep databases' logs in it.

use std::sync::Arc;

use ferrite_medium::{Memory, Scheme, Span};
use ferrite_pool::grant::{Ask, GrantId, Process, Rights, Standing};
use ferrite_pool::layout::PAGE;
use ferrite_pool::owner::{Caller, Reply};
use ferrite_pool::{Error as PoolError, Extent, Need, NewTag, Pool, Role, Stream, Tag, TagChange, TagKind, Zone};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::files::Files;
use super::{File, Forgotten, Identity, Mark};
use crate::{Error, Result};

/// Space that a new log begins with.
const WAL_BYTES: u64 = 512 << 10;
const JOURNAL_BYTES: u64 = 64 << 10;
/// A log that must grow grows by as much as it has, but by no more than this unless it needs more.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// What a process asks of the pool's owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// A lease on the log of a database, which is made where there is none.
    DatabaseOpen {
        /// The absolute path of the database file.
        path: String,
        /// Which file that is.
        identity: Identity,
        /// Refuse while anybody else has it, and refuse others from now on.
        alone: bool,
    },
    /// The lease on more space: `file` can be so long.
    DatabaseExtend {
        /// The grant there was; it ends.
        id: GrantId,
        /// Which file.
        file: File,
        /// How long.
        bytes: u64,
    },
    /// Gives a lease back; the last one removes a log that has nothing in it.
    DatabaseClose {
        /// The grant.
        id: GrantId,
    },
    /// A list of [`Entry`].
    DatabaseList,
    /// Removes the log of a database with what is in it; the answer is a [`super::Forgotten`].
    DatabaseForget {
        /// The path of the database file.
        path: String,
        /// Which file is there now; `None` where there is none.
        identity: Option<Identity>,
        /// Also a log with something in it that is not in the database.
        lose: bool,
    },
}

/// A database with a log in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path of its file.
    pub path: String,
    /// Bytes in the write-ahead log.
    pub wal_bytes: u64,
    /// Bytes in the rollback journal.
    pub journal_bytes: u64,
    /// Bytes of the pool that it takes.
    pub space_bytes: u64,
    /// The processes that have it open.
    pub processes: Vec<u32>,
    /// Its file's header says that it is not for programs that do not know of the pool.
    pub marked: bool,
}

/// What a process is told of a log that it may store into.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Lease {
    pub id: GrantId,
    pub generation: u64,
    pub extents: Vec<Extent>,
}

impl Lease {
    /// What it is a lease on, in `memory`.
    pub fn files(&self, memory: &Arc<dyn Memory>) -> Result<Files> {
        let fit = self.extents.iter().all(|it| it.is_within(memory.size() / PAGE));
        let files = Files::new(Arc::clone(memory), &self.extents, self.generation).filter(|_| fit);
        files.ok_or_else(|| Error::Refused("the pool's owner answers what this program cannot use".into()))
    }
}

/// The owner's side. One for each open pool.
pub struct Office {
    pool: Arc<Pool>,
    boot_id: [u8; 16],
    /// Had while a request is served.
    turn: Mutex<()>,
}

impl Office {
    /// That of `pool`, in the boot `boot_id`.
    pub fn new(pool: Arc<Pool>, boot_id: [u8; 16]) -> Self {
        Self { pool, boot_id, turn: Mutex::default() }
    }

    /// Its pool, where nobody else has a hand on it.
    pub(super) fn into_pool(self) -> Option<Pool> {
        Arc::into_inner(self.pool)
    }

    /// Its pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Does what `caller` asks.
    ///
    /// # Errors
    /// [`Error::Refused`] where somebody else has the log, the file is not the one whose log that is, its path can be
    /// no name, `caller` has no such grant, or what is to be forgotten is not in the database. [`Error::Pool`], with what is wrong with the tag, or for want of space.
    pub fn answer(&self, caller: &Caller, request: Request) -> Result<Reply> {
        self.pool.grants().reap(&self.pool)?;
        let _turn = self.turn.lock();
        match request {
            Request::DatabaseOpen { path, identity, alone } => {
                let tag = self.tag_for(&path, identity)?;
                let (files, other) = (self.files(&tag)?, self.standing_on(tag.generation).next());
                match other {
                    Some(other) if alone || files.is_alone()? => {
                        let pid = other.process.pid;
                        return Err(Error::Refused(format!("{path} is in use by process {pid}: end that first")));
                    }
                    Some(_) => {}
                    None => files.set_alone(alone),
                }
                self.lend(&tag, caller)
            }
            Request::DatabaseExtend { id, file, bytes } => {
                let tag = self.extend(&self.tag_of(id, caller)?, file, bytes)?;
                let reply = self.lend(&tag, caller)?;
                self.pool.grants().release(&self.pool, id)?;
                Ok(reply)
            }
            Request::DatabaseClose { id } => {
                let tag = self.tag_of(id, caller)?;
                self.pool.grants().release(&self.pool, id)?;
                self.remove_if_idle(&tag)?;
                Ok(Reply::default())
            }
            Request::DatabaseList => {
                let entries: Result<Vec<Entry>> = self.tags().map(|tag| self.entry(&tag)).collect();
                Ok(Reply { value: json!(entries?), fds: Vec::new() })
            }
            Request::DatabaseForget { path, identity, lose } => {
                Ok(Reply { value: json!(self.forget(&path, identity, lose)?), fds: Vec::new() })
            }
        }
    }

    fn tags(&self) -> impl Iterator<Item = Arc<Tag>> {
        self.pool.tags().into_iter().filter(|tag| tag.kind == TagKind::DATABASE)
    }

    fn standing_on(&self, generation: u64) -> impl Iterator<Item = Standing> {
        self.pool.grants().standing().into_iter().filter(move |grant| grant.tag_generation == generation)
    }

    /// The tag under grant `id` of `caller`.
    fn tag_of(&self, id: GrantId, caller: &Caller) -> Result<Arc<Tag>> {
        let process = Process::of(caller, self.boot_id).identity();
        let mut standing = self.pool.grants().standing().into_iter();
        let grant = standing.find(|grant| grant.id == id && grant.process == process);
        let tag = grant.and_then(|grant| self.tags().find(|tag| tag.generation == grant.tag_generation));
        tag.ok_or_else(|| Error::Refused(format!("this process has no grant {id} on a database's log")))
    }

    /// The tag of the database at `path`, if that is the file it was made for; a new one where there is none.
    fn tag_for(&self, path: &str, identity: Identity) -> Result<Arc<Tag>> {
        match self.pool.tag(path) {
            Ok(tag) => {
                tag.ensure_kind(TagKind::DATABASE)?;
                let is_same = Identity::of_attributes(&tag.attributes).is(identity);
                if is_same { Ok(tag) } else { self.make_over(tag, identity) }
            }
            Err(PoolError::NotFound(_)) => {
                self.ensure_not_moved(path, identity)?;
                self.make(path, identity)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses the file at `path` where its log is here by another one.
    fn ensure_not_moved(&self, path: &str, identity: Identity) -> Result<()> {
        let is_same = |tag: &Tag| Identity::of_attributes(&tag.attributes).is_anywhere(identity);
        let Some(other) = self.tags().find(|tag| is_same(tag) && !self.is_idle(tag)) else {
            return Ok(());
        };
        let was = &other.name;
        Err(Error::Refused(format!(
            "{path} was {was} when its log was put in this pool: move it back there; once `ferrite wal drain` has given \
             its log back it can be moved, with the files beside it"
        )))
    }

    /// A log that is left from another file of the same path: nothing in it that counts, or it is refused.
    fn make_over(&self, tag: Arc<Tag>, identity: Identity) -> Result<Arc<Tag>> {
        let path = tag.name.clone();
        if self.files(&tag)?.is_live()? || self.standing_on(tag.generation).next().is_some() {
            return Err(Error::Refused(format!(
                "{path} is not the file whose log is in this pool: it was deleted or replaced; put that file back, or \
                 give its log up with `ferrite wal forget`"
            )));
        }
        self.pool.remove_tag(&tag)?;
        self.make(&path, identity)
    }

    fn make(&self, path: &str, identity: Identity) -> Result<Arc<Tag>> {
        let need = |role, bytes| Need { role, zone: Zone::Normal, bytes };
        let needs =
            [need(Role::MAP, PAGE), need(File::Wal.role(), WAL_BYTES), need(File::Journal.role(), JOURNAL_BYTES)];
        let attributes = identity.attributes();
        let new = NewTag { name: path, kind: TagKind::DATABASE, size: 0, attributes, needs: &needs };
        let memory = self.pool.memory();
        let prepare = |extents: &[Extent]| {
            let control = Stream::new(extents, Role::MAP).locate(0).expect("a page was asked for");
            memory.zero(Span::new(control.at, PAGE), Scheme::Nt);
            Ok(memory.settle()?)
        };
        match self.pool.with_spare(|| self.pool.create_tag(&new, prepare)) {
            Err(PoolError::BadName(_)) => Err(Error::Refused(format!(
                "{path}: a database whose log is in a pool has a path of at most 255 bytes without control characters"
            ))),
            made => Ok(made?),
        }
    }

    /// `tag` with space for `bytes` of `file`, and more where there is.
    fn extend(&self, tag: &Arc<Tag>, file: File, bytes: u64) -> Result<Arc<Tag>> {
        let has = Stream::new(&tag.extents, file.role()).len();
        let lacks = bytes.saturating_sub(has);
        if lacks == 0 {
            return Ok(Arc::clone(tag));
        }
        let generous = lacks.max(has.min(GROWTH_BYTES_MAX));
        match self.add(tag, file, generous) {
            Err(error) if error.is_want_of_space() => Ok(self.pool.with_spare(|| self.add(tag, file, lacks))?),
            other => Ok(other?),
        }
    }

    fn add(&self, tag: &Tag, file: File, bytes: u64) -> ferrite_pool::Result<Arc<Tag>> {
        let add = [Need { role: file.role(), zone: Zone::Normal, bytes: bytes.next_multiple_of(PAGE) }];
        let (size, attributes) = (tag.size, tag.attributes);
        self.pool.change_tag(tag, &TagChange { size, attributes, add: &add, keep: &tag.extents }, |_| Ok(()))
    }

    fn lend(&self, tag: &Tag, caller: &Caller) -> Result<Reply> {
        let process = Process::of(caller, self.boot_id);
        let ask = Ask { tag, extents: &tag.extents, rights: Rights::ReadWrite, process: &process, reserve: &[] };
        let (granted, memory) = self.pool.with_spare(|| self.pool.lend(&ask))?;
        let lease = Lease { id: granted.id, generation: tag.generation, extents: tag.extents.clone() };
        Ok(Reply { value: json!(lease), fds: vec![memory.fd, granted.notice] })
    }

    fn files(&self, tag: &Tag) -> Result<Files> {
        let files = Files::new(self.pool.memory_handle(), &tag.extents, tag.generation);
        files.ok_or_else(|| Error::Refused(format!("the layout of the log of {:?} is damaged", tag.name)))
    }

    fn lengths(&self, tag: &Tag) -> Result<[u64; 2]> {
        let files = self.files(tag)?;
        Ok([files.length(File::Wal)?.unwrap_or(0), files.length(File::Journal)?.unwrap_or(0)])
    }

    fn mark(&self, tag: &Tag) -> Result<Option<Mark>> {
        self.files(tag)?.mark()
    }

    /// Whether nothing is in the log, and its file is as if there were none.
    fn is_idle(&self, tag: &Tag) -> bool {
        let words = self.lengths(tag).and_then(|lengths| Ok((lengths, self.mark(tag)?)));
        words.is_ok_and(|words| words == ([0, 0], None))
    }

    fn remove_if_idle(&self, tag: &Tag) -> Result<()> {
        if self.is_idle(tag) && self.standing_on(tag.generation).next().is_none() {
            self.pool.remove_tag(tag)?;
        }
        Ok(())
    }

    /// Removes the log of the database at `path`, which is `identity` now. What is damaged may hold something.
    fn forget(&self, path: &str, identity: Option<Identity>, lose: bool) -> Result<Forgotten> {
        let tag = match self.pool.tag(path) {
            Err(PoolError::NotFound(_)) => {
                identity.map_or(Ok(()), |identity| self.ensure_not_moved(path, identity))?;
                return Ok(Forgotten { was_here: false, lost_bytes: 0, versions: None });
            }
            found => found?,
        };
        tag.ensure_kind(TagKind::DATABASE)?;
        if let Some(user) = self.standing_on(tag.generation).next() {
            let pid = user.process.pid;
            return Err(Error::Refused(format!("{path} is in use by process {pid}: end that first")));
        }
        let is_live = self.files(&tag).and_then(|files| files.is_live()).unwrap_or(true);
        if is_live && !lose {
            return Err(Error::Refused(format!(
                "the log of {path} is in this pool, with what may be nowhere else: `ferrite wal drain` gives it back to the \
                 database; --lose gives it up with what is in it"
            )));
        }
        let lost_bytes = if is_live { self.lengths(&tag).map_or(0, |lengths| lengths.iter().sum()) } else { 0 };
        let versions = self.mark(&tag).ok().flatten().map(|mark| [mark.write, mark.read]);
        self.pool.remove_tag(&tag)?;
        Ok(Forgotten { was_here: true, lost_bytes, versions })
    }

    fn entry(&self, tag: &Tag) -> Result<Entry> {
        let [wal_bytes, journal_bytes] = self.lengths(tag)?;
        let mut processes: Vec<u32> = self.standing_on(tag.generation).map(|grant| grant.process.pid).collect();
        processes.dedup();
        Ok(Entry {
            path: tag.name.clone(),
            wal_bytes,
            journal_bytes,
            space_bytes: tag.extents.iter().map(|extent| extent.span().len).sum(),
            processes,
            marked: self.mark(tag)?.is_some(),
        })
    }
}
