//! A durable append-only log of entries, numbered from 0 on; old entries are cut off at the front.
//!
//! ```text
//! MAP page   | line 0: head of the log | line 1: number of the next entry, if there are no entries | zeros |
//! record     0 number u64   8 batch u64   16 the bytes of the entry
//! ```
//!
//! The batch is the number of the first entry that was appended with the same fence. The number on line 1 is a checked
//! word, durable before the last entry is cut off; it has no meaning while there are entries.
//!
//! - AL1. An entry is durable when `append` or `extend` returns. A crash before that leaves the first few entries of an
//!   `extend`, or none.
//! - AL2. Behind an entry that a crash lost there are at most others of its batch. If an entry of a later batch is
//!   there, the lost one was durable and was damaged: opening reports it by name, and a salvage returns every remaining
//!   entry.
//! - AL3. Records behind the end are wiped, durably, before the first append of an opening takes their place: the rest
//!   of a crashed batch, and entries that a salvage found behind the damage. So they never come back, even if all
//!   entries before them are cut off, and a salvaged log that continued is sound. Until then they are reported and
//!   salvaged as before.

use std::collections::VecDeque;
use std::sync::Arc;

use ferrite_memory::{Latch, Memory};
use ferrite_pool::holding::TagLease;
use ferrite_pool::{
    ChangeGate, Error as PoolError, Freeze, LogPosition, LogView, SEQUENCE_BOUND, StrandedRecord, Tag,
    TagLog as Records, out_of_bounds,
};

use crate::logged::{SalvageLoss, ensure_fits};
use crate::object_counts::ObjectOp;
use crate::object_label::{ObjectForm, ObjectLabel};
use crate::object_word::{self, Flaw};
use crate::{Error, Result, salt};

/// The bytes before an entry.
const HEADER: usize = 16;

#[derive(Debug)]
struct LogState {
    records: Records,
    /// Number of the first entry.
    first: u64,
    /// The position of each entry.
    places: VecDeque<LogPosition>,
    /// True if opening found records behind the end that are still there (AL3).
    has_stranded: bool,
}

/// A durable append-only log.
#[derive(Debug)]
pub struct ObjectLog {
    holding: Arc<TagLease>,
    state: Latch<LogState>,
    gate: ChangeGate,
    losses: Vec<SalvageLoss>,
    /// The entries that a salvage found behind the damage; they are no longer in the log.
    rescued: Vec<(u64, Vec<u8>)>,
}

/// Returns the label of such an object.
pub(crate) fn label() -> Result<ObjectLabel> {
    ObjectLabel::new(ObjectForm::Log, "log", 0)
}

/// Returns the number, the batch and the bytes of a record.
fn split(record: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (head, entry) = record.split_first_chunk::<HEADER>()?;
    let word = |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("eight bytes"));
    Some((word(0), word(8), entry))
}

/// The content of a log.
struct FoundLog {
    /// Number of the first entry.
    first: u64,
    places: VecDeque<LogPosition>,
    losses: Vec<SalvageLoss>,
    rescued: Vec<(u64, Vec<u8>)>,
    /// True if a record stands behind the last one.
    has_stranded: bool,
}

/// Finds the entries in `view` of a log with this word, the damage, and the entries behind the damage (AL2).
fn find(view: &LogView<'_>, word: Result<Option<u64>, Flaw>) -> Result<FoundLog> {
    let mut losses = Vec::new();
    let word = word.unwrap_or_else(|(what, at)| {
        losses.push(SalvageLoss { what, at });
        None
    });
    let (mut first, mut places) = (word.unwrap_or(0), VecDeque::new());
    for record in view.records() {
        let (position, record) = record?;
        match split(&record) {
            Some((number, ..)) if places.is_empty() && number >= SEQUENCE_BOUND => {
                let at = view.place(position);
                return Err(PoolError::Corrupt { what: out_of_bounds("the number of an entry", number), at }.into());
            }
            Some((number, ..)) if places.is_empty() => first = number,
            Some(_) => {}
            None => continue,
        }
        places.push_back(position);
    }
    let next = first + places.len() as u64;
    let (mut rescued, mut is_damaged, mut has_stranded) = (Vec::new(), false, false);
    for StrandedRecord { payload, is_old, .. } in view.stranded() {
        has_stranded = true;
        let found = split(&payload).filter(|(number, ..)| !is_old && (next..SEQUENCE_BOUND).contains(number));
        let Some((number, batch, entry)) = found else { continue };
        is_damaged |= batch > next;
        rescued.push((number, entry.into()));
    }
    if !is_damaged {
        rescued.clear();
    }
    if let Some((number, _)) = rescued.first() {
        // The word may be outdated if no entry is left; certain is that the entry before these is lost.
        let lost = if places.is_empty() { next.max(number.saturating_sub(1)) } else { next };
        first = lost - places.len() as u64;
        losses.push(SalvageLoss { what: format!("entry {lost}"), at: view.place(view.end()) });
    }
    Ok(FoundLog { first, places, losses, rescued, has_stranded })
}

/// Returns the damage of the log in `tag`, whose records are in `view`.
pub(crate) fn check(memory: &dyn Memory, uuid: &[u8; 16], tag: &Tag, view: &LogView<'_>) -> Vec<SalvageLoss> {
    let word = object_word::read(memory, tag, salt(uuid, tag.generation));
    let found = find(view, word);
    found.map_or_else(
        |error| vec![SalvageLoss { what: error.to_string(), at: view.place(view.head()) }],
        |found| found.losses,
    )
}

impl LogState {
    /// Wipes the records behind the end, if `entries` fit in their place (AL3).
    #[cold]
    fn wipe_stranded(&mut self, entries: &[&[u8]]) -> Result<()> {
        let lines: u64 = entries.iter().map(|entry| Records::lines_for(HEADER + entry.len())).sum();
        if lines > 0 && self.records.used_bytes() + lines * 64 <= self.records.capacity_bytes() {
            self.records.wipe_stranded()?;
            self.has_stranded = false;
        }
        Ok(())
    }

    /// Refuses an entry that does not fit even in an empty log.
    fn ensure_fits(&self, entry: &[u8]) -> Result<()> {
        ensure_fits("an entry", HEADER, entry.len(), self.records.capacity_bytes())
    }

    /// Returns the number of the next entry.
    fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }
}

impl ObjectLog {
    pub(crate) fn open(holding: TagLease, salvage: bool) -> Result<Arc<Self>> {
        label()?.ensure(&holding)?;
        let _pass = holding.store_pass();
        let holding = Arc::new(holding);
        let records = Records::open_within(Arc::clone(&holding))?;
        let word = match object_word::load(&holding) {
            Err(Error::Damaged { what, at, .. }) => Err((what, at)),
            word => Ok(word?),
        };
        let is_word_lost = word.is_err();
        let FoundLog { first, places, losses, rescued, has_stranded } = find(&records.view(), word)?;
        let state = LogState { records, first, places, has_stranded };
        if is_word_lost && salvage {
            object_word::store(&holding, state.end())?;
        }
        let log = Self { holding, state: Latch::new(state), gate: ChangeGate::default(), losses, rescued };
        if let Some(SalvageLoss { what, at }) = log.losses.first().filter(|_| !salvage).cloned() {
            return Err(Error::Damaged { name: log.name(), what, at });
        }
        let log = Arc::new(log);
        let service: Arc<dyn Freeze> = log.clone();
        log.holding.register_freezer(Arc::downgrade(&service));
        Ok(log)
    }

    /// Returns the object's name.
    pub fn name(&self) -> String {
        self.holding.tag().name.clone()
    }

    /// Returns the damage; empty unless this is a salvage.
    pub fn losses(&self) -> &[SalvageLoss] {
        &self.losses
    }

    /// Returns the entries that a salvage found behind the damage, with their numbers: copy them to a safe place. The
    /// first append takes the place of all of them.
    pub fn rescued(&self) -> &[(u64, Vec<u8>)] {
        &self.rescued
    }

    /// Returns the number of the oldest entry; of the next entry if the log is empty.
    pub fn first(&self) -> u64 {
        self.state.lock().first
    }

    /// Returns the number of the next entry.
    pub fn end(&self) -> u64 {
        self.state.lock().end()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.state.lock().places.len()
    }

    /// Returns true if the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes for entries: each uses its bytes and 40 more, rounded up to 64.
    pub fn capacity_bytes(&self) -> u64 {
        self.state.lock().records.capacity_bytes()
    }

    /// Returns the bytes that the entries use.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().records.used_bytes()
    }

    /// Returns entry `number`; `None` if it was cut off or does not exist yet.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the entry differs from the appended one.
    pub fn get(&self, number: u64) -> Result<Option<Vec<u8>>> {
        let state = self.state.lock();
        let Some(index) = number.checked_sub(state.first).and_then(|index| usize::try_from(index).ok()) else {
            return Ok(None);
        };
        let Some(place) = state.places.get(index) else { return Ok(None) };
        let record = state.records.record_at(*place);
        match record.as_deref().and_then(split) {
            Some((found, _, entry)) if found == number => Ok(Some(entry.into())),
            _ => {
                let (what, at) = (format!("entry {number}"), state.records.place(*place));
                Err(Error::Damaged { name: self.name(), what, at })
            }
        }
    }

    /// Appends `entry`; durable on return. Returns its number. A full log refuses: cut it, then retry.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than an empty log holds, [`ferrite_pool::Error::LogFull`] until enough is cut; also
    /// the errors of any change of an object: see [`Error`].
    pub fn append(&self, entry: &[u8]) -> Result<u64> {
        let timing = ObjectOp::Append.begin(&self.holding);
        let mut state = self.gate.pass(|| self.state.lock());
        let done = self.append_locked(&mut state, entry);
        timing.end(&self.holding, entry.len(), done)
    }

    #[inline]
    fn append_locked(&self, state: &mut LogState, entry: &[u8]) -> Result<u64> {
        self.holding.check_poison()?;
        state.ensure_fits(entry)?;
        if state.has_stranded {
            state.wipe_stranded(&[entry])?;
        }
        let number = state.end();
        // An entry by itself is a batch.
        let place = state.records.append_alone_with([number, number], entry)?;
        state.places.push_back(place);
        Ok(number)
    }

    /// Appends `entries` with one fence; all are durable on return. A crash before that leaves the first few, or none
    /// (AL1). If they do not fit, none is appended. Returns the number of the first.
    ///
    /// # Errors
    /// The errors of [`ObjectLog::append`].
    pub fn extend(&self, entries: &[&[u8]]) -> Result<u64> {
        let timing = ObjectOp::Append.begin(&self.holding);
        let mut state = self.gate.pass(|| self.state.lock());
        let done = self.extend_locked(&mut state, entries);
        timing.end(&self.holding, entries.iter().map(|entry| entry.len()).sum(), done)
    }

    fn extend_locked(&self, state: &mut LogState, entries: &[&[u8]]) -> Result<u64> {
        self.holding.check_poison()?;
        entries.iter().try_for_each(|entry| state.ensure_fits(entry))?;
        if state.has_stranded {
            state.wipe_stranded(entries)?;
        }
        let batch = state.end();
        let records = entries
            .iter()
            .zip(batch..)
            .map(|(entry, number)| [&number.to_le_bytes()[..], &batch.to_le_bytes(), entry].concat());
        let records: Vec<Vec<u8>> = records.collect();
        let parts: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let places = state.records.append_many(&parts)?;
        state.places.extend(places);
        Ok(batch)
    }

    /// Cuts off every entry before `number`; durable on return.
    ///
    /// # Errors
    /// [`Error::Refused`] for a number beyond [`ObjectLog::end`]; also the errors of any change of an object: see
    /// [`Error`].
    pub fn cut(&self, number: u64) -> Result<()> {
        let timing = ObjectOp::Cut.begin(&self.holding);
        let mut state = self.gate.pass(|| self.state.lock());
        let done = self.cut_locked(&mut state, number);
        timing.end(&self.holding, 0, done)
    }

    fn cut_locked(&self, state: &mut LogState, number: u64) -> Result<()> {
        self.holding.check_poison()?;
        let end = state.end();
        if number > end {
            return Err(Error::Refused(format!("log {:?} ends before entry {number}: at {end}", self.name())));
        }
        let gone = number.saturating_sub(state.first) as usize;
        if gone == 0 {
            return Ok(());
        }
        match state.places.get(gone) {
            Some(place) => state.records.cut(*place)?,
            None => {
                object_word::store(&self.holding, number)?;
                state.records.cut(state.records.end())?;
            }
        }
        state.places.drain(..gone);
        state.first = number;
        Ok(())
    }
}

impl Freeze for ObjectLog {
    fn freeze(&self) {
        self.gate.close();
        drop(self.state.lock());
    }

    fn thaw(&self) {
        self.gate.open();
    }
}

#[cfg(test)]
mod tests;
