//! Logging: a structure in DRAM whose every change is a small record in persistent memory; checkpoints shorten the log.
//!
//! ```text
//!   change ---> record in the log, one fence ---> applied in DRAM ---> seen by readers
//!                 every so many records or bytes: checkpoint of all, then the log before it is cut
//!   open:  named checkpoint, then every record of the log from its position on
//! ```
//!
//! - LG1. A change is in the log, durable, before it is applied; so readers see durable content only.
//! - LG2. A change is one record, however many steps it has: after a crash all of it is there or none.
//! - LG3. Opening gives what was seen last, or that with the one change more that had not returned.
//! - LG4. A record behind one that does not verify was durable, so that one was damaged: opening says so by name. To
//!   salvage reads what is left and makes it a new checkpoint.
//! - LG5. After a failed persist nothing is changed until the object is opened again.

use std::fmt;
use std::sync::Arc;

use ferrite_memory::Memory;
use ferrite_pool::holding::Holding;
use ferrite_pool::{ChangeGate, Error as PoolError, Freeze, LogPosition, LogView, StrandedRecord, Tag, TagLog};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::checkpoint::{self, CheckpointReader};
use crate::object_label::{ObjectForm, ObjectLabel};
use crate::{Error, Result, object_word};

/// A structure that can be kept by logging its changes.
pub trait LoggedStructure: Default + Send + Sync + 'static {
    /// The name of its type, at most 32 bytes.
    const TYPE: &'static str;

    /// Applies a change. `false` where the bytes are none that this type makes.
    #[must_use]
    fn apply(&mut self, change: &[u8]) -> bool;

    /// Gives all its content as items, each in parts.
    fn save(&self, item: &mut dyn FnMut(&[&[u8]]));

    /// By how many bytes `change` makes what [`LoggedStructure::save`] gives longer, at most, with 4 more for each item. So much
    /// room is seen to before (CK5): what says 0, for it only takes away, is never refused for want of space.
    fn growth(change: &[u8]) -> u64 {
        change.len() as u64
    }

    /// How many bytes that is after `change`, at most. Asked for where there may be no room for [`LoggedStructure::growth`]; unless
    /// a type knows better, all that it holds is looked through.
    fn content_after(&self, change: &[u8]) -> u64 {
        checkpoint::content_bytes(&|item| self.save(item)) + Self::growth(change)
    }

    /// Takes an item that [`LoggedStructure::save`] gave, in the same order. `false` where it is none.
    #[must_use]
    fn restore(&mut self, item: &[u8]) -> bool;
}

/// How a structure is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Bytes of its log where it is made now; no change is larger.
    pub log_bytes: u64,
    /// A checkpoint is taken after so many changes; never where it is 0.
    pub checkpoint_records: u64,
    /// And after so many bytes of them, and when the log is full; never where it is 0.
    pub checkpoint_bytes: u64,
    /// Read what is left of a damaged object, and go on with that.
    pub salvage: bool,
}

impl Default for Logging {
    /// A log of 4 MiB, and a checkpoint after 3 MiB of changes: opening replays that in milliseconds.
    fn default() -> Self {
        Self { log_bytes: 4 << 20, checkpoint_records: 0, checkpoint_bytes: 3 << 20, salvage: false }
    }
}

/// What was damaged and given up by a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageLoss {
    /// What.
    pub what: String,
    /// Where in the pool.
    pub at: u64,
}

struct LogWriter {
    log: TagLog,
    /// Of the last checkpoint.
    sequence: u64,
    /// Changes since.
    records: u64,
    /// What a checkpoint would have to hold, at most.
    content_bytes: u64,
    /// What one has room for.
    room_bytes: u64,
}

/// A structure in DRAM, kept by logging its changes. Readers wait for no fence; changes are made one at a time.
pub struct Logged<S> {
    holding: Arc<Holding>,
    logging: Logging,
    /// Of its log.
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

/// Refuses `what` of so many bytes, with `head_bytes` before them, where a log of `capacity_bytes` never has room for that.
/// Asked for before anything is copied: what a program passes by mistake is more than there is memory for.
pub(crate) fn ensure_fits(what: &'static str, head_bytes: usize, bytes: usize, capacity_bytes: u64) -> Result<()> {
    let all = head_bytes.saturating_add(bytes);
    if all <= TagLog::PAYLOAD_BYTES_MAX && TagLog::lines_for(all) * 64 <= capacity_bytes {
        return Ok(());
    }
    let largest = capacity_bytes.saturating_sub(64).min(TagLog::PAYLOAD_BYTES_MAX as u64);
    Err(Error::TooLarge { what, bytes: bytes as u64, bytes_max: largest.saturating_sub(head_bytes as u64) })
}

/// What the label of such an object says.
pub(crate) fn label<S: LoggedStructure>() -> Result<ObjectLabel> {
    ObjectLabel::new(ObjectForm::Logged, S::TYPE, 0)
}

/// What opening read.
struct FoundStructure<S> {
    state: S,
    sequence: u64,
    records: u64,
    losses: Vec<SalvageLoss>,
}

impl<S: LoggedStructure> Logged<S> {
    pub(crate) fn open(holding: Holding, logging: Logging) -> Result<Arc<Self>> {
        label::<S>()?.ensure(&holding)?;
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
            // Where nothing of the log was ever: what stands behind the damage never comes back.
            let mut writer = logged.writable()?;
            let lap = writer.log.next_lap();
            logged.take_checkpoint(&mut writer, lap)?;
        }
        Ok(logged)
    }

    /// The object's name.
    pub fn name(&self) -> String {
        self.holding.tag().name.clone()
    }

    /// What a salvage had to give up; empty where nothing was damaged.
    pub fn losses(&self) -> &[SalvageLoss] {
        &self.losses
    }

    /// Bytes of changes since the last checkpoint.
    pub fn log_bytes(&self) -> u64 {
        self.writer.lock().log.used_bytes()
    }

    #[cfg(test)]
    pub(crate) fn log_end(&self) -> LogPosition {
        self.writer.lock().log.end()
    }

    /// Looks at the structure. What is seen is durable (LG1).
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.state.read())
    }

    /// Makes `change`. Durable on return, and after a crash all or nothing (LG2).
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than an empty log has room for. [`ferrite_pool::Error::Full`] (or, of its host,
    /// [`ferrite_memory::Error::NoSpace`]) where a checkpoint of what there would be has no room; not for a change
    /// whose [`LoggedStructure::growth`] is 0. Else as any change of an object: see [`Error`].
    ///
    ///
    /// # Panics
    /// Where its type does not know the change, which is durable by then: changes are put together by the type itself.
    pub fn make(&self, change: &[u8]) -> Result<()> {
        let mut writer = self.writable()?;
        self.make_by(&mut writer, change)
    }

    /// Makes the change that `plan` makes of what it sees, if it makes one; what it says. Nothing changes in between.
    /// The plan does nothing else with the store, as that of [`crate::Bundle::change`].
    ///
    /// # Errors
    /// As [`Logged::make`].
    pub fn change<T>(&self, plan: impl FnOnce(&S) -> (Option<Vec<u8>>, T)) -> Result<T> {
        let mut writer = self.writable()?;
        let (change, told) = plan(&self.state.read());
        change.map_or(Ok(()), |change| self.make_by(&mut writer, &change))?;
        Ok(told)
    }

    /// Refuses a change of so many bytes where no log has room for it.
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

    /// Sees to room for a checkpoint of what is there after `change` (CK5); how many bytes that has at most.
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

    /// The change itself is durable: a checkpoint that cannot be taken, for want of room (a type said less than it gives), is
    /// tried again with the next one, and only when the log is full there is none without.
    fn checkpoint_if_due(&self, writer: &mut LogWriter) -> Result<()> {
        let Logging { checkpoint_records: records, checkpoint_bytes: bytes, .. } = self.logging;
        let is_due =
            (records > 0 && writer.records >= records) || (bytes > 0 && writer.log.used_bytes_alone() >= bytes);
        match if is_due { self.take_checkpoint_now(writer) } else { Ok(()) } {
            Err(_) if self.holding.check_poison().is_ok() => Ok(()),
            other => other,
        }
    }

    /// Takes a checkpoint now and cuts the log (CK1, CK2).
    ///
    /// # Errors
    /// As any change of an object (see [`Error`]); the one before counts then.
    pub fn checkpoint(&self) -> Result<()> {
        let mut writer = self.writable()?;
        self.take_checkpoint_now(&mut writer)
    }

    fn take_checkpoint_now(&self, writer: &mut LogWriter) -> Result<()> {
        let end = writer.log.end();
        self.take_checkpoint(writer, end)
    }

    /// Takes a checkpoint from which the log goes on at `position`, and lets it begin there.
    fn take_checkpoint(&self, writer: &mut LogWriter, position: LogPosition) -> Result<()> {
        let state = self.state.read();
        checkpoint::take(&self.holding, writer.sequence + 1, position, &|item| state.save(item))?;
        (writer.sequence, writer.records) = (writer.sequence + 1, 0);
        Ok(writer.log.restart_at(position)?)
    }

    fn writable(&self) -> Result<MutexGuard<'_, LogWriter>> {
        let writer = self.gate.pass(|| self.writer.lock());
        self.holding.check_poison()?;
        Ok(writer)
    }
}

/// Reads the named checkpoint and the log behind it (LG3), and notes what does not verify (LG4).
fn read<S: LoggedStructure>(holding: &Holding, log: &TagLog, salvage: bool) -> Result<FoundStructure<S>> {
    let (tag, uuid) = (holding.tag(), holding.uuid());
    let reader = CheckpointReader::new(holding.memory(), &uuid, &tag);
    let (mut state, mut records, mut strange) = (S::default(), 0, 0);
    let (checkpoint, unnamed) = match reader.named(log.head()) {
        Ok(checkpoint) => {
            object_word::load(holding)?;
            (checkpoint, None)
        }
        Err(flaw) if salvage => (reader.rest(log.head()), Some(flaw)),
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

/// Gives what stands behind damage in the log to `apply`, and notes the damage.
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

/// What is wrong with the object in `tag` (LG4), of whose log this is the view, where there is one.
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
