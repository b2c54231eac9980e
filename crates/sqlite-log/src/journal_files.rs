//! The bytes of the log files of a database in the memory of the pool.

use std::sync::Arc;

use ferrite_memory::{Memory, Scheme, Span, planted};
use ferrite_pool::checked_word::{seal, unseal};
use ferrite_pool::tie::{Generation, PoolSide, Tie};
use ferrite_pool::{Extent, Role, Stream};
use serde::{Deserialize, Serialize};

use super::DatabaseMark;
use super::tied::log_identity;
use crate::{Error, Result};

/// A log file of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalFile {
    /// The write-ahead log.
    Wal,
    /// The rollback journal.
    Journal,
}

impl JournalFile {
    /// Both log files.
    pub const ALL: [Self; 2] = [Self::Wal, Self::Journal];

    /// Returns the suffix that the name of the file adds to the name of the database.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Wal => "-wal",
            Self::Journal => "-journal",
        }
    }

    /// Returns the database that the log file called `name` belongs to, and which log file it is.
    pub fn of(name: &str) -> Option<(&str, Self)> {
        Self::ALL.into_iter().find_map(|file| Some((name.strip_suffix(file.suffix())?, file)))
    }

    pub(super) fn role(self) -> Role {
        match self {
            Self::Wal => Role(2),
            Self::Journal => Role(3),
        }
    }

    /// Returns the offset of the length of the file in the MAP page.
    fn length_at(self) -> u64 {
        match self {
            Self::Wal => 64,
            Self::Journal => 128,
        }
    }
}

/// Offset in the MAP page of the word that says whether one process has the log alone.
const ALONE_AT: u64 = 192;
/// Offsets in the MAP page of the generations of the tie to the database file.
const CURRENT_AT: u64 = 256;
const PREVIOUS_AT: u64 = 320;

/// The parts of a database's tag, in the memory of the pool.
#[derive(Clone)]
pub(super) struct JournalFiles {
    memory: Arc<dyn Memory>,
    control_at: u64,
    streams: [Stream; 2],
    salt: u32,
    /// The identity of the log, random; 0 if the tag is of a version that had none.
    log: u64,
}

impl JournalFiles {
    /// Returns the parts of the tag of `generation` that has `extents`, or `None` if the tag has no MAP page.
    pub fn new(memory: Arc<dyn Memory>, extents: &[Extent], generation: u64) -> Option<Self> {
        let control_at = Stream::new(extents, Role::MAP).locate(0)?.at;
        let streams = JournalFile::ALL.map(|file| Stream::new(extents, file.role()));
        Some(Self { memory, control_at, streams, salt: generation as u32, log: 0 })
    }

    /// Returns the same parts, with `log` as the identity of the log.
    pub fn of_log(self, log: u64) -> Self {
        Self { log, ..self }
    }

    fn runs(&self, file: JournalFile, span: Span) -> impl Iterator<Item = Span> {
        self.streams[file as usize].runs(span)
    }

    /// Returns the bytes that `file` has space for.
    pub fn space(&self, file: JournalFile) -> u64 {
        self.streams[file as usize].len()
    }

    /// Returns the number in a word of the MAP page.
    fn number(&self, at: u64) -> Result<Option<u64>> {
        let at = self.control_at + at;
        match self.memory.load_word(at) {
            0 => Ok(None),
            word => unseal(self.salt, word).map(Some).ok_or_else(|| Error::Refused(damaged(at))),
        }
    }

    /// Stores a number in a word of the MAP page. Durable once the caller has settled.
    fn set_number(&self, at: u64, number: Option<u64>) {
        let at = self.control_at + at;
        self.memory.store_word(at, number.map_or(0, |number| seal(self.salt, number)));
        self.memory.flush(Span::new(at, 8));
    }

    pub fn length(&self, file: JournalFile) -> Result<Option<u64>> {
        Ok(self.number(file.length_at())?.and_then(|number| number.checked_sub(1)))
    }

    /// Reads up to `into.len()` bytes at `at`. The caller has made sure that the file has the space.
    pub fn read(&self, file: JournalFile, at: u64, into: &mut [u8]) -> Result<usize> {
        let length = self.length(file)?.unwrap_or(0);
        let len = (into.len() as u64).min(length.saturating_sub(at));
        let mut done = 0;
        for run in self.runs(file, Span::new(at, len)) {
            self.memory.load(run.at, &mut into[done..done + run.len as usize]);
            done += run.len as usize;
        }
        Ok(done)
    }

    /// Makes the content durable, if a fence does that: a killed process may have left content in a cache, and the recovery
    /// of the database relies on it.
    pub fn inherit(&self) {
        for file in JournalFile::ALL {
            let length = self.length(file).ok().flatten().unwrap_or(0);
            self.runs(file, Span::new(0, length.min(self.space(file)))).for_each(|run| self.memory.flush(run));
            self.memory.flush(Span::new(self.control_at + file.length_at(), 8));
        }
        [0, CURRENT_AT, PREVIOUS_AT].into_iter().for_each(|at| self.memory.flush(Span::new(self.control_at + at, 8)));
        self.memory.fence();
    }

    /// See [`super::DatabaseLog::is_live`].
    pub fn is_live(&self) -> Result<bool> {
        for file in JournalFile::ALL {
            let mut first = [0; 8];
            let bytes = self.read(file, 0, &mut first)?;
            if bytes > 0 && (file == JournalFile::Wal || first != [0; 8]) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates `file`, empty, if it does not exist. Its first line holds no bytes of an earlier file (WF2).
    pub fn create(&self, file: JournalFile) -> Result<()> {
        if self.length(file)?.is_some() {
            return Ok(());
        }
        if !planted!("sqlite-log: first line of an earlier file") {
            self.zero(file, Span::new(0, LINE));
            self.memory.drain()?;
        }
        self.set_length(file, Some(0));
        Ok(())
    }

    /// Writes `bytes` at `at` (WF1). The caller has made sure that the file has the space.
    pub fn write(&self, file: JournalFile, at: u64, bytes: &[u8]) -> Result<()> {
        let (end, length) = (at + bytes.len() as u64, self.length(file)?.unwrap_or(0));
        self.zero(file, Span::new(length.min(at), at.saturating_sub(length)));
        let mut done = 0;
        for run in self.runs(file, Span::new(at, bytes.len() as u64)) {
            self.memory.store(run.at, &bytes[done..done + run.len as usize], Scheme::Nt);
            done += run.len as usize;
        }
        match end > length {
            // The bytes and the length share the fence: a crash before the fence may leave the new length with older bytes,
            // which the checksums of the log reveal.
            true => self.set_length(file, Some(end)),
            false => self.memory.fence(),
        }
        Ok(())
    }

    fn zero(&self, file: JournalFile, span: Span) {
        for run in self.runs(file, span) {
            self.memory.zero(run, Scheme::Nt);
        }
    }

    /// Sets the length of `file`, or deletes it if `length` is `None`, by one word. Durable as a write is (WF1).
    pub fn set_length(&self, file: JournalFile, length: Option<u64>) {
        self.set_number(file.length_at(), length.map(|length| length + 1));
        self.memory.fence();
    }

    /// Makes all completed writes durable that are not durable yet.
    pub fn persist(&self) -> Result<()> {
        if self.memory.fence_is_durable() { Ok(()) } else { Ok(self.memory.barrier()?) }
    }

    /// Returns true if one process has the log alone, as long as its grant is valid.
    pub fn is_alone(&self) -> Result<bool> {
        Ok(self.number(ALONE_AT)?.is_some())
    }

    /// Stores for the next owner of the pool whether one process has the log alone. A crash of the machine ends that process,
    /// too, so this need not be durable.
    pub fn set_alone(&self, is_alone: bool) {
        self.set_number(ALONE_AT, is_alone.then_some(1));
    }

    pub fn mark(&self) -> Result<Option<DatabaseMark>> {
        Ok(self.number(0)?.map(DatabaseMark::from_number))
    }

    /// Returns the bytes in both files.
    pub fn bytes(&self) -> Result<u64> {
        JournalFile::ALL.into_iter().map(|file| Ok(self.length(file)?.unwrap_or(0))).sum()
    }

    fn generation(&self, at: u64) -> Result<Option<Generation>> {
        let Some(number) = self.number(at)? else { return Ok(None) };
        Generation::of(number).map(Some).ok_or_else(|| Error::Refused(damaged(self.control_at + at)))
    }

    /// Returns the pool's side of the tie to the database file, or `None` if the owner has not made it yet.
    pub fn tie(&self) -> Result<Option<Tie>> {
        let Some(current) = self.generation(CURRENT_AT)? else { return Ok(None) };
        Ok(Some(Tie { identity: log_identity(self.log), current, previous: self.generation(PREVIOUS_AT)? }))
    }

    /// Stores the pool's side of the tie to the database file. Durable on return.
    pub fn set_mark(&self, mark: Option<DatabaseMark>) -> Result<()> {
        self.set_number(0, mark.map(DatabaseMark::number));
        Ok(self.memory.drain()?)
    }
}

impl PoolSide for JournalFiles {
    type Error = Error;

    fn load(&self) -> Result<Tie> {
        self.tie()?.ok_or_else(|| Error::Refused(damaged(self.control_at + CURRENT_AT)))
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        self.set_number(CURRENT_AT, Some(current.number()));
        Ok(self.memory.drain()?)
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        self.set_number(PREVIOUS_AT, previous.map(Generation::number));
        Ok(self.memory.drain()?)
    }
}

/// Bytes at the beginning of a file that a new file clears: the headers of both logs are shorter.
const LINE: u64 = 64;

fn damaged(at: u64) -> String {
    format!("the word at byte {at:#x} of the pool, of a database's log, is damaged: restore a backup")
}
