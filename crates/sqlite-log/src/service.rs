//! The service "database": the logs of databases in the process that owns the pool, and their check.

use std::sync::Arc;

use ferrite_memory::{Scheme, Span};
use ferrite_owner::services::parse;
use ferrite_owner::{Metric, Removal, RunningService, Service, ServiceCall, ServicePool, ServiceReply, lease_metrics};
use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::grant::{GrantId, GrantRequest, GrantRights, Process, StandingGrant};
use ferrite_pool::holding::TagCounts;
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::Generation;
use ferrite_pool::{
    Caller, Error as PoolError, Extent, Failure, NewTag, Pool, Role, SpaceNeed, StorePass, Stream, Tag, TagChange,
    TagKind, Zone,
};
use parking_lot::Mutex;
use serde_json::json;

use super::counted::LOG_OPS;
use super::database_identity::log_of;
use super::journal_files::JournalFiles;
use super::request::LogLease;
use super::tied::{begin_generation, copy_text};
use super::{DATABASE, DatabaseEntry, DatabaseIdentity, DatabaseMark, DatabaseRequest, Forgotten, JournalFile};
use crate::{Error, Result};

/// Bytes of space that a new log gets.
const WAL_BYTES: u64 = 512 << 10;
const JOURNAL_BYTES: u64 = 64 << 10;
/// A log that must grow doubles its space, but adds no more than these bytes unless it needs more.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// The service of databases' logs, which a program links. A check judges the words of a log; only the database can judge its
/// content.
pub struct DatabaseService;

impl TagOwner for DatabaseService {
    fn kind(&self) -> TagKind {
        TagKind::DATABASE
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        let at = tag.extents.first().map(|extent| extent.span().at);
        let Some(files) = JournalFiles::new(pool.memory_handle(), &tag.extents, tag.generation) else {
            return findings.error("it has no page for its words: restore a backup", at);
        };
        for error in [files.mark().err(), files.tie().err()].into_iter().flatten() {
            findings.error(error.to_string(), at);
        }
        for file in JournalFile::ALL {
            match files.length(file) {
                Ok(length) if length.unwrap_or(0) > files.space(file) => {
                    findings.error(format!("its {file:?} is longer than its space: restore a backup"), at);
                }
                Ok(_) => {}
                Err(error) => findings.error(error.to_string(), at),
            }
        }
    }
}

impl Service for DatabaseService {
    fn name(&self) -> &'static str {
        DATABASE
    }

    fn removal(&self) -> Removal {
        // Without the log the file of the database could not be opened.
        Removal::Refused("the log of a database: `ferrite wal drain` gives it back, `ferrite wal forget` gives it up")
    }

    fn start(&self, pool: &ServicePool<'_>) -> std::result::Result<Arc<dyn RunningService>, Failure> {
        Ok(Arc::new(DatabaseLogs::new(Arc::clone(pool.pool), pool.boot_id)))
    }
}

impl RunningService for DatabaseLogs {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        Ok(self.answer(call.caller, parse(DATABASE, call.request)?)?)
    }

    fn metrics(&self) -> Vec<Metric> {
        lease_metrics(&self.pool, TagKind::DATABASE, DATABASE, "programs to the log of a SQLite database", LOG_OPS)
    }
}

/// The logs of databases in one open pool, in the process that owns the pool.
pub struct DatabaseLogs {
    pool: Arc<Pool>,
    boot_id: [u8; 16],
    /// Locked while a request is served.
    turn: Mutex<()>,
}

impl DatabaseLogs {
    /// Serves the logs in `pool`, in the boot `boot_id`.
    pub fn new(pool: Arc<Pool>, boot_id: [u8; 16]) -> Self {
        Self { pool, boot_id, turn: Mutex::default() }
    }

    /// Answers the request of `caller`.
    ///
    /// # Errors
    /// [`Error::Refused`] if another process has the log, if the file is not the one that the log belongs to, if its path
    /// cannot be a name, if `caller` has no such grant, or if the log to forget has content that the caller does not give up.
    /// [`Error::Pool`] if the tag is damaged or the pool is full.
    pub fn answer(&self, caller: &Caller, request: DatabaseRequest) -> Result<ServiceReply> {
        self.pool.grants().reap(&self.pool)?;
        let _turn = self.turn.lock();
        match request {
            DatabaseRequest::Open { path, identity, alone, fresh } => {
                let tag = self.tag_for(&path, identity, fresh)?;
                let (files, other) = (self.files(&tag)?, self.standing_on(tag.generation).next());
                match other {
                    Some(other) if alone || files.is_alone()? => {
                        let pid = other.process.pid;
                        return Err(Error::Refused(format!("{path} is in use by process {pid}: end that first")));
                    }
                    Some(_) => {}
                    None => {
                        let _pass = StorePass::of(&self.pool);
                        files.set_alone(alone);
                        begin_generation(&files, identity, fresh)?;
                    }
                }
                self.lend(&tag, caller)
            }
            DatabaseRequest::Extend { id, file, bytes } => {
                let tag = self.extend(&self.tag_of(id, caller)?, file, bytes)?;
                let reply = self.lend(&tag, caller)?;
                self.pool.grants().release(&self.pool, id)?;
                Ok(reply)
            }
            DatabaseRequest::Close { id } => {
                let tag = self.tag_of(id, caller)?;
                self.pool.grants().release(&self.pool, id)?;
                self.remove_if_idle(&tag)?;
                Ok(ServiceReply::default())
            }
            DatabaseRequest::List => {
                let entries: Result<Vec<DatabaseEntry>> = self.tags().map(|tag| self.entry(&tag)).collect();
                Ok(ServiceReply { value: json!(entries?), fds: Vec::new() })
            }
            DatabaseRequest::Forget { path, identity, lose } => {
                Ok(ServiceReply { value: json!(self.forget(&path, identity, lose)?), fds: Vec::new() })
            }
        }
    }

    fn tags(&self) -> impl Iterator<Item = Arc<Tag>> {
        self.pool.tags().into_iter().filter(|tag| tag.kind == TagKind::DATABASE)
    }

    fn standing_on(&self, generation: u64) -> impl Iterator<Item = StandingGrant> {
        self.pool.grants().standing().into_iter().filter(move |grant| grant.tag_generation == generation)
    }

    /// Returns the tag that `caller` has by the grant `id`.
    fn tag_of(&self, id: GrantId, caller: &Caller) -> Result<Arc<Tag>> {
        let process = Process::of(caller, self.boot_id).identity();
        let mut standing = self.pool.grants().standing().into_iter();
        let grant = standing.find(|grant| grant.id == id && grant.process == process);
        let tag = grant.and_then(|grant| self.tags().find(|tag| tag.generation == grant.tag_generation));
        tag.ok_or_else(|| Error::Refused(format!("this process has no grant {id} on a database's log")))
    }

    /// Returns the tag of the database at `path`, if it belongs to that file, or else a new tag.
    fn tag_for(&self, path: &str, identity: DatabaseIdentity, fresh: u64) -> Result<Arc<Tag>> {
        let tag = match self.pool.tag(path) {
            Ok(tag) => {
                tag.ensure_kind(TagKind::DATABASE)?;
                let is_same = DatabaseIdentity::of_attributes(&tag.attributes).is(identity);
                if is_same { tag } else { self.make_over(tag, identity, fresh)? }
            }
            Err(PoolError::NotFound(_)) => match self.tag_by_file(identity) {
                Some(tag) => self.follow(&tag, path, identity)?,
                None => {
                    self.ensure_no_copy(path, identity)?;
                    self.make(path, identity, fresh)?
                }
            },
            Err(error) => return Err(error.into()),
        };
        if log_of(&tag.attributes) != 0 || identity.stamp.is_some() {
            return Ok(tag);
        }
        // The tag is of a version without an identity, and the file has no stamp.
        let attributes = DatabaseIdentity::of_attributes(&tag.attributes).attributes(fresh.max(1));
        let change = TagChange { size: tag.size, attributes, add: &[], keep: &tag.extents };
        Ok(self.pool.change_tag(&tag, &change, |_| Ok(()))?)
    }

    /// Returns the tag of the file with this identity, under any path (WF9).
    fn tag_by_file(&self, identity: DatabaseIdentity) -> Option<Arc<Tag>> {
        let is_of_log = |tag: &Tag| identity.stamp.is_none_or(|stamp| stamp.log == log_of(&tag.attributes));
        let is_same = |tag: &Tag| DatabaseIdentity::of_attributes(&tag.attributes).is_anywhere(identity);
        self.tags().find(|tag| is_of_log(tag) && is_same(tag) && !self.is_idle(tag))
    }

    /// Renames `tag` to `path`, the present path of its file.
    fn follow(&self, tag: &Tag, path: &str, identity: DatabaseIdentity) -> Result<Arc<Tag>> {
        if let Some(user) = self.standing_on(tag.generation).next() {
            let (name, pid) = (&tag.name, user.process.pid);
            return Err(Error::Refused(format!("{path} is in use as {name} by process {pid}: end that first")));
        }
        let renamed = self.pool.rename_tag(tag, path, identity.attributes(log_of(&tag.attributes)));
        renamed.map_err(|error| named(path, error))
    }

    /// Refuses a file with the stamp of a log in this pool that belongs to another file.
    fn ensure_no_copy(&self, path: &str, identity: DatabaseIdentity) -> Result<()> {
        let Some(stamp) = identity.stamp else { return Ok(()) };
        let Some(tag) = self.tags().find(|tag| log_of(&tag.attributes) == stamp.log) else { return Ok(()) };
        Err(Error::Refused(copy_text(path, &tag.name, self.lengths(&tag)?.iter().sum())))
    }

    /// Removes a log that is left from another file of the same path, or refuses it if it has content.
    fn make_over(&self, tag: Arc<Tag>, identity: DatabaseIdentity, fresh: u64) -> Result<Arc<Tag>> {
        let path = tag.name.clone();
        if self.files(&tag)?.is_live()? || self.standing_on(tag.generation).next().is_some() {
            return Err(Error::Refused(format!(
                "{path} is not the file whose log is in this pool: it was deleted or replaced by a copy or another file; if \
                 that file was renamed, open it once by its new name; else put it back, or give its log up with `ferrite wal \
                 forget`"
            )));
        }
        self.pool.remove_tag(&tag)?;
        self.make(&path, identity, fresh)
    }

    fn make(&self, path: &str, identity: DatabaseIdentity, fresh: u64) -> Result<Arc<Tag>> {
        let need = |role, bytes| SpaceNeed { role, zone: Zone::Normal, bytes };
        let needs = [
            need(Role::MAP, PAGE),
            need(JournalFile::Wal.role(), WAL_BYTES),
            need(JournalFile::Journal.role(), JOURNAL_BYTES),
        ];
        let attributes = identity.attributes(fresh.max(1));
        let new = NewTag { name: path, kind: TagKind::DATABASE, size: 0, attributes, needs: &needs };
        let memory = self.pool.memory();
        let prepare = |extents: &[Extent]| {
            let control = Stream::new(extents, Role::MAP).locate(0).expect("a page was asked for");
            memory.zero(Span::new(control.at, PAGE), Scheme::Nt);
            Ok(memory.drain()?)
        };
        self.pool.with_spare(|| self.pool.create_tag(&new, prepare)).map_err(|error| named(path, error))
    }

    /// Grows `tag` so that `file` has space for `bytes` bytes, and for more if the pool has it.
    fn extend(&self, tag: &Arc<Tag>, file: JournalFile, bytes: u64) -> Result<Arc<Tag>> {
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

    fn add(&self, tag: &Tag, file: JournalFile, bytes: u64) -> ferrite_pool::Result<Arc<Tag>> {
        let add = [SpaceNeed { role: file.role(), zone: Zone::Normal, bytes: bytes.next_multiple_of(PAGE) }];
        let (size, attributes) = (tag.size, tag.attributes);
        self.pool.change_tag(tag, &TagChange { size, attributes, add: &add, keep: &tag.extents }, |_| Ok(()))
    }

    fn lend(&self, tag: &Tag, caller: &Caller) -> Result<ServiceReply> {
        let process = Process::of(caller, self.boot_id);
        let ask = GrantRequest { tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process: &process };
        let (granted, memory) = self.pool.with_spare(|| self.pool.lend(&ask))?;
        let (generation, extents, log) = (tag.generation, tag.extents.clone(), log_of(&tag.attributes));
        // Without counts the log is lent all the same.
        let counters = TagCounts::of(&self.pool).share(tag, granted.id).ok();
        let slot = counters.as_ref().map(|counters| counters.slot);
        let lease = LogLease { id: granted.id, generation, extents, log, slot };
        let fds = [memory.fd, granted.notice].into_iter().chain(counters.map(|counters| counters.words));
        Ok(ServiceReply { value: json!(lease), fds: fds.collect() })
    }

    fn files(&self, tag: &Tag) -> Result<JournalFiles> {
        let files = JournalFiles::new(self.pool.memory_handle(), &tag.extents, tag.generation);
        let files = files.map(|files| files.of_log(log_of(&tag.attributes)));
        files.ok_or_else(|| Error::Refused(format!("the layout of the log of {:?} is damaged", tag.name)))
    }

    fn lengths(&self, tag: &Tag) -> Result<[u64; 2]> {
        let files = self.files(tag)?;
        Ok([files.length(JournalFile::Wal)?.unwrap_or(0), files.length(JournalFile::Journal)?.unwrap_or(0)])
    }

    fn mark(&self, tag: &Tag) -> Result<Option<DatabaseMark>> {
        self.files(tag)?.mark()
    }

    /// Returns true if the log has no content, and its file has its own versions.
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

    /// Removes the log of the database at `path`, whose identity is `identity` now. A damaged log counts as one with content.
    fn forget(&self, path: &str, identity: Option<DatabaseIdentity>, lose: Option<u64>) -> Result<Forgotten> {
        let tag = match self.pool.tag(path) {
            Err(PoolError::NotFound(_)) => identity.and_then(|identity| self.tag_by_file(identity)),
            found => Some(found?),
        };
        let Some(tag) = tag else { return Ok(Forgotten::default()) };
        tag.ensure_kind(TagKind::DATABASE)?;
        if let Some(user) = self.standing_on(tag.generation).next() {
            let pid = user.process.pid;
            return Err(Error::Refused(format!("{path} is in use by process {pid}: end that first")));
        }
        let is_live = self.files(&tag).and_then(|files| files.is_live()).unwrap_or(true);
        let lost_bytes = if is_live { self.bytes_to_lose(&tag) } else { 0 };
        if is_live && lose != Some(lost_bytes) {
            return Err(Error::Refused(format!(
                "the log of {path} is in this pool, with {lost_bytes} bytes that may be nowhere else: `ferrite wal drain` gives \
                 it back to the database; --lose {lost_bytes} gives it up with what is in it"
            )));
        }
        let versions = self.mark(&tag).ok().flatten().map(|mark| [mark.write, mark.read]);
        let log = log_of(&tag.attributes);
        let is_of_another = identity.and_then(|identity| identity.stamp).is_some_and(|stamp| stamp.log != log);
        self.pool.remove_tag(&tag)?;
        Ok(Forgotten { was_here: true, lost_bytes, versions, is_of_another })
    }

    /// Returns the bytes in a log, or the bytes of its space if its lengths are damaged.
    fn bytes_to_lose(&self, tag: &Tag) -> u64 {
        let space = || tag.extents.iter().map(|extent| extent.span().len).sum();
        self.lengths(tag).map_or_else(|_| space(), |lengths| lengths.iter().sum())
    }

    fn entry(&self, tag: &Tag) -> Result<DatabaseEntry> {
        let [wal_bytes, journal_bytes] = self.lengths(tag)?;
        let mut processes: Vec<u32> = self.standing_on(tag.generation).map(|grant| grant.process.pid).collect();
        processes.dedup();
        let (log, tie) = (log_of(&tag.attributes), self.files(tag)?.tie()?);
        let previous = tie.and_then(|tie| tie.previous);
        Ok(DatabaseEntry {
            path: tag.name.clone(),
            wal_bytes,
            journal_bytes,
            space_bytes: tag.extents.iter().map(|extent| extent.span().len).sum(),
            processes,
            marked: self.mark(tag)?.is_some(),
            log: if log == 0 { String::new() } else { format!("{log:016x}") },
            generation: tie.map_or(0, |tie| tie.current.count()),
            generations: [tie.map(|tie| tie.current), previous].map(|it| it.map_or(0, Generation::number)),
        })
    }
}

/// Returns the error of a path that cannot be the name of a tag.
fn named(path: &str, error: PoolError) -> Error {
    match error {
        PoolError::BadName(_) => Error::Refused(format!(
            "{path}: a database whose log is in a pool has a path of at most 255 bytes without control characters"
        )),
        other => other.into(),
    }
}
