//! Logging: a structure in DRAM whose every change is a small record in persistent memory; checkpoints shorten the log.
//!
//! ```text
//!   change ---> record in the log, one fence ---> applied in DRAM ---> visible to readers
//!                  after some records or bytes: checkpoint of all, then the log before it is cut
//!   open:  named checkpoint, then every record of the log from its position on
//! ```
//!
//! - LG1. A change is in the log, durable, before it is applied; so readers see durable content only.
//! - LG2. A change is one record, with any number of steps: after a crash all of it is there or none.
//! - LG3. Opening returns the last visible state, or that state with the one change that had not returned.
//! - LG4. A record behind one that does not verify was durable, so the unverified one was damaged: opening reports it
//!   by name. A salvage reads the rest and stores it as a new checkpoint.
//! - LG5. After a failed persist nothing is changed until the object is opened again.

use std::fmt;
use std::sync::Arc;

use ferrite_memory::Memory;
use ferrite_pool::holding::TagLease;
use ferrite_pool::{ChangeGate, Error as PoolError, Freeze, LogPosition, LogView, StrandedRecord, Tag, TagLog};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::checkpoint::{self, Checkpoint, CheckpointReader};
use crate::object_counts::ObjectOp;
use crate::object_label::{ObjectForm, ObjectLabel};
use crate::{Error, Result, object_word};

/// A structure that is stored by logging its changes.
pub trait LoggedStructure: Default + Send + Sync + 'static {
    /// The name of its type, at most 32 bytes.
    const TYPE: &'static str;

    /// Applies a change. Returns false if this type never makes such bytes.
    #[must_use]
    fn apply(&mut self, change: &[u8]) -> bool;

    /// Passes all content as items, each in parts.
    fn save(&self, item: &mut dyn FnMut(&[&[u8]]));

    /// Returns by how many bytes `change` lengthens the output of [`LoggedStructure::save`] at most, with 4 more for
    /// each item. The object makes this room before the change (CK5). A change with growth 0, because it only removes,
    /// is never refused for lack of space.
    fn growth(change: &[u8]) -> u64 {
        change.len() as u64
    }

    /// Returns the most bytes of content after `change`. The object asks if there may be no room for
    /// [`LoggedStructure::growth`]; unless a type knows better, all its content is passed.
    fn content_after(&self, change: &[u8]) -> u64 {
        checkpoint::content_bytes(&|item| self.save(item)) + Self::growth(change)
    }

    /// Restores an item that [`LoggedStructure::save`] passed, in the same order. Returns false if the item is invalid.
    #[must_use]
    fn restore(&mut self, item: &[u8]) -> bool;
}

/// The options of a logged structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Bytes of the log of a new object; no change is larger.
    pub log_bytes: u64,
    /// Changes after which a checkpoint is stored; 0 for never.
    pub checkpoint_records: u64,
    /// Bytes of changes after which a checkpoint is stored, also when the log is full; 0 for never.
    pub checkpoint_bytes: u64,
    /// True to read the rest of a damaged object, and continue with it.
    pub salvage: bool,
}

impl Default for Logging {
    /// Returns a log of 4 MiB, and a checkpoint after 3 MiB of changes: opening replays them in milliseconds.
    fn default() -> Self {
        Self { log_bytes: 4 << 20, checkpoint_records: 0, checkpoint_bytes: 3 << 20, salvage: false }
    }
}

/// A damaged part that a salvage dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageLoss {
    /// The name of the part.
    pub what: String,
    /// The offset in the pool, in bytes.
    pub at: u64,
}

struct LogWriter {
    log: TagLog,
    /// The sequence of the last checkpoint.
    sequence: u64,
    /// Changes since the last checkpoint.
    records: u64,
    /// The most bytes of content of a checkpoint.
    content_bytes: u64,
    /// The bytes that a checkpoint has room for.
    room_bytes: u64,
}

/// A structure in DRAM, stored by logging its changes. Readers wait for no fence; changes are made one at a time.
pub struct Logged<S> {
    holding: Arc<TagLease>,
    logging: Logging,
    /// The capacity of its log.
    capacity_bytes: u64,
    writer: Mutex<LogWriter>,
    gate: ChangeGate,
    state: RwLock<S>,
    losses: Vec<SalvageLoss>,
}

impl<S> fmt::Debug for Logged<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logged").field("holding", &self.holding).finish_non_exhaustive()
    }
}

/// Refuses `what` of `bytes` bytes with `head_bytes` before them if a log of `capacity_bytes` can never hold it. The
/// check precedes any copy: a wrong size may exceed the memory.
pub(crate) fn ensure_fits(what: &'static str, head_bytes: usize, bytes: usize, capacity_bytes: u64) -> Result<()> {
    let all = head_bytes.saturating_add(bytes);
    if all <= TagLog::PAYLOAD_BYTES_MAX && TagLog::lines_for(all) * 64 <= capacity_bytes {
        return Ok(());
    }
    let largest = capacity_bytes.saturating_sub(64).min(TagLog::PAYLOAD_BYTES_MAX as u64);
    Err(Error::TooLarge { what, bytes: bytes as u64, bytes_max: largest.saturating_sub(head_bytes as u64) })
}

/// Returns the label of such an object.
pub(crate) fn label<S: LoggedStructure>() -> Result<ObjectLabel> {
    ObjectLabel::new(ObjectForm::Logged, S::TYPE, 0)
}

/// The content that opening read.
struct FoundStructure<S> {
    state: S,
    sequence: u64,
    records: u64,
    losses: Vec<SalvageLoss>,
}

impl<S: LoggedStructure> Logged<S> {
    pub(crate) fn open(holding: TagLease, logging: Logging) -> Result<Arc<Self>> {
        label::<S>()?.ensure(&holding)?;
        let _pass = holding.store_pass();
        let holding = Arc::new(holding);
        let log = TagLog::open_within(Arc::clone(&holding))?;
        let FoundStructure { state, sequence, records, losses } = read::<S>(&holding, &log, logging.salvage)?;
        if let Some(SalvageLoss { what, at }) = losses.first().filter(|_| !logging.salvage).cloned() {
            return Err(Error::Damaged { name: holding.tag().name.clone(), what, at });
        }
        let capacity_bytes = log.capacity_bytes();
        let writer = Mutex::new(LogWriter { log, sequence, records, content_bytes: 0, room_bytes: 0 });
        let (gate, state) = (ChangeGate::default(), RwLock::new(state));
        let logged = Arc::new(Self { holding, logging, capacity_bytes, writer, gate, state, losses });
        let service: Arc<dyn Freeze> = logged.clone();
        logged.holding.register_freezer(Arc::downgrade(&service));
        if !logged.losses.is_empty() {
            // The new log begins where no record ever was: records behind the damage never come back.
            let mut writer = logged.writable()?;
            let lap = writer.log.next_lap();
            logged.take_checkpoint(&mut writer, lap)?;
        }
        Ok(logged)
    }

    /// Returns the object's name.
    pub fn name(&self) -> String {
        self.holding.tag().name.clone()
    }

    /// Returns the losses of a salvage; empty if nothing was damaged.
    pub fn losses(&self) -> &[SalvageLoss] {
        &self.losses
    }

    /// Returns the bytes of changes since the last checkpoint.
    pub fn log_bytes(&self) -> u64 {
        self.writer.lock().log.used_bytes()
    }

    /// Calls `look` with the structure. Its content is durable (LG1).
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.state.read())
    }

    /// Applies `change`. Durable on return, and after a crash all or nothing (LG2).
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than an empty log holds. [`ferrite_pool::Error::Full`] (or, for its host,
    /// [`ferrite_memory::Error::NoSpace`]) if there is no room for a checkpoint of the new content; never for a change
    /// whose [`LoggedStructure::growth`] is 0. Also the errors of any change of an object: see [`Error`].
    ///
    /// # Panics
    /// The type does not know the change, which is durable by then: only the type itself builds changes.
    pub fn make(&self, change: &[u8]) -> Result<()> {
        let timing = ObjectOp::Change.begin(&self.holding);
        let mut writer = self.gate.pass(|| self.writer.lock());
        let done = self.holding.check_poison().map_err(Error::from).and_then(|()| self.make_by(&mut writer, change));
        timing.end(&self.holding, change.len(), done)
    }

    /// Applies the change that `plan` builds from the structure, if any, and returns the value of `plan`. No other
    /// change happens in between. `plan` must not use the store otherwise, like the plan of [`crate::Bundle::change`].
    ///
    /// # Errors
    /// The errors of [`Logged::make`].
    pub fn change<T>(&self, plan: impl FnOnce(&S) -> (Option<Vec<u8>>, T)) -> Result<T> {
        let timing = ObjectOp::Change.begin(&self.holding);
        let mut writer = self.writable()?;
        let (change, result) = plan(&self.state.read());
        if let Some(change) = change {
            let done = self.make_by(&mut writer, &change);
            timing.end(&self.holding, change.len(), done)?;
        }
        Ok(result)
    }

    /// Refuses a change of so many bytes that the log can never hold it.
    #[inline]
    pub(crate) fn ensure_fits(&self, change_bytes: usize) -> Result<()> {
        ensure_fits("a change", 0, change_bytes, self.capacity_bytes)
    }

    fn make_by(&self, writer: &mut LogWriter, change: &[u8]) -> Result<()> {
        if change.is_empty() {
            return Ok(());
        }
        self.append(writer, change)?;
        assert!(self.state.write().apply(change), "a change that its own type does not know");
        writer.records += 1;
        self.checkpoint_if_due(writer)
    }

    fn append(&self, writer: &mut LogWriter, change: &[u8]) -> Result<()> {
        self.ensure_fits(change.len())?;
        let content_bytes = self.ensure_room(writer, change)?;
        match writer.log.append_alone(change) {
            Err(PoolError::LogFull { .. }) => {
                self.take_checkpoint_now(writer)?;
                writer.log.append_alone(change)?;
            }
            other => _ = other?,
        }
        writer.content_bytes = content_bytes;
        Ok(())
    }

    /// Makes room for a checkpoint of the content after `change` (CK5). Returns the most bytes of that content.
    #[inline]
    fn ensure_room(&self, writer: &mut LogWriter, change: &[u8]) -> Result<u64> {
        let growth = S::growth(change);
        let content_bytes = writer.content_bytes + growth;
        if growth > 0 && checkpoint::slot_bytes(content_bytes) > writer.room_bytes {
            return self.make_room(writer, change);
        }
        Ok(content_bytes)
    }

    #[cold]
    fn make_room(&self, writer: &mut LogWriter, change: &[u8]) -> Result<u64> {
        let content_bytes = self.state.read().content_after(change);
        let needed = checkpoint::slot_bytes(content_bytes);
        if needed > writer.room_bytes {
            writer.room_bytes = checkpoint::make_room(&self.holding, needed)?;
        }
        Ok(content_bytes)
    }

    /// Stores a checkpoint if one is due. The change itself is durable. If there is no room for a checkpoint, because a
    /// type announced less content than it has, the next change tries again; only a full log requires one.
    fn checkpoint_if_due(&self, writer: &mut LogWriter) -> Result<()> {
        let Logging { checkpoint_records: records, checkpoint_bytes: bytes, .. } = self.logging;
        let is_due =
            (records > 0 && writer.records >= records) || (bytes > 0 && writer.log.used_bytes_alone() >= bytes);
        match if is_due { self.take_checkpoint_now(writer) } else { Ok(()) } {
            Err(_) if self.holding.check_poison().is_ok() => Ok(()),
            other => other,
        }
    }

    /// Stores a checkpoint now and cuts the log (CK1, CK2).
    ///
    /// # Errors
    /// The errors of any change of an object (see [`Error`]); then the previous checkpoint counts.
    pub fn checkpoint(&self) -> Result<()> {
        let mut writer = self.writable()?;
        self.take_checkpoint_now(&mut writer)
    }

    fn take_checkpoint_now(&self, writer: &mut LogWriter) -> Result<()> {
        let end = writer.log.end();
        self.take_checkpoint(writer, end)
    }

    /// Stores a checkpoint at which the log continues at `position`, and makes the log begin there.
    fn take_checkpoint(&self, writer: &mut LogWriter, position: LogPosition) -> Result<()> {
        let timing = ObjectOp::Checkpoint.begin(&self.holding);
        let state = self.state.read();
        let stored = checkpoint::store(&self.holding, writer.sequence + 1, position, &|item| state.save(item));
        let bytes = stored.as_ref().map_or(0, Checkpoint::bytes);
        timing.end(&self.holding, bytes, stored)?;
        (writer.sequence, writer.records) = (writer.sequence + 1, 0);
        Ok(writer.log.restart_at(position)?)
    }

    fn writable(&self) -> Result<MutexGuard<'_, LogWriter>> {
        let writer = self.gate.pass(|| self.writer.lock());
        self.holding.check_poison()?;
        Ok(writer)
    }
}

/// Reads the named checkpoint and the log behind it (LG3), and records the parts that do not verify (LG4).
fn read<S: LoggedStructure>(holding: &TagLease, log: &TagLog, salvage: bool) -> Result<FoundStructure<S>> {
    let (tag, uuid) = (holding.tag(), holding.uuid());
    let reader = CheckpointReader::new(holding.memory(), &uuid, &tag);
    let (mut state, mut records, mut strange) = (S::default(), 0, 0);
    let (checkpoint, unnamed) = match reader.named(log.head()) {
        Ok(checkpoint) => {
            object_word::load(holding)?;
            (checkpoint, None)
        }
        Err(flaw) if salvage => (reader.salvageable(log.head()), Some(flaw)),
        Err((what, at)) => return Err(Error::Damaged { name: tag.name.clone(), what, at }),
    };
    let flaws = reader.each_item(&checkpoint, &mut |item| strange += u64::from(!state.restore(item)));
    let mut losses: Vec<SalvageLoss> =
        unnamed.into_iter().chain(flaws).map(|(what, at)| SalvageLoss { what, at }).collect();
    if checkpoint.position > log.head() {
        // A crash came between the checkpoint and the cut (CK2).
        log.restart_at(checkpoint.position)?;
    }
    let mut apply = |change: &[u8]| {
        records += 1;
        strange += u64::from(!state.apply(change));
    };
    for record in log.records() {
        apply(&record?.1);
    }
    replay_stranded(&log.view(), &mut losses, &mut apply);
    if strange > 0 {
        let what = format!("{strange} entries that no {:?} makes", S::TYPE);
        losses.push(SalvageLoss { what, at: log.place(log.head()) });
    }
    Ok(FoundStructure { state, sequence: checkpoint.sequence, records, losses })
}

/// Passes the records behind damage in the log to `apply`, and records the damage.
fn replay_stranded(log: &LogView<'_>, losses: &mut Vec<SalvageLoss>, apply: &mut dyn FnMut(&[u8])) {
    let mut end = log.end();
    for StrandedRecord { position, payload: change, .. } in log.stranded().filter(|it| !it.is_old) {
        if position > end || losses.is_empty() {
            let what = format!("the record at position {} of its log", end.number());
            losses.push(SalvageLoss { what, at: log.place(end) });
        }
        apply(&change);
        end = log.behind(position, change.len());
    }
}

/// Returns the damage of the object in `tag` (LG4); `log` is the view of its log, if it can be read.
pub(crate) fn check(memory: &dyn Memory, uuid: &[u8; 16], tag: &Tag, log: Option<LogView<'_>>) -> Vec<SalvageLoss> {
    let reader = CheckpointReader::new(memory, uuid, tag);
    let checkpoint = match reader.named(log.as_ref().map_or(LogPosition::from_number(0), LogView::head)) {
        Ok(checkpoint) => checkpoint,
        Err((what, at)) => return vec![SalvageLoss { what, at }],
    };
    let flaws = reader.each_item(&checkpoint, &mut |_| ());
    let mut losses = flaws.into_iter().map(|(what, at)| SalvageLoss { what, at }).collect();
    if let Some(log) = log {
        replay_stranded(&log.from(checkpoint.position), &mut losses, &mut |_| ());
    }
    losses
}

impl<S: LoggedStructure> Freeze for Logged<S> {
    fn freeze(&self) {
        self.gate.close();
        drop(self.writer.lock());
    }

    fn thaw(&self) {
        self.gate.open();
    }
}

#[cfg(test)]
mod tests;
