//! Counters of what the holders of tags do without the owner.
//!
//! ```text
//!   own lease    counters of the tag, in this process          lent lease    slot of its grant, in the shared words
//!          +-----------------------> totals of a tag <---------------+ added up when another grant gets the slot
//! ```
//!
//! A client can store wrong counts; nothing but metrics depends on them.

use std::array;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use ferrite_memory::{REQUEST_WORDS, RequestTotals, RequestWords, SharedWords};

use crate::layout::GRANT_SLOTS;

/// The number of operations that are counted apart. The service of the tag says which they are.
pub const LEASE_OPS: usize = 4;
/// The number of figures that the holder of a lent tag can publish.
pub const LEASE_FIGURES: usize = 15;

/// The first word of the counters of slot 0, on a page of its own.
const COUNTERS_AT: usize = 512;
/// Words of a slot: the counters of its operations, a word that is not 0 if figures were published, and the figures.
const SLOT_WORDS: usize = LEASE_OPS * REQUEST_WORDS + 1 + LEASE_FIGURES;
/// The word with the wish for the holder of the grant in slot 0.
const WISHES_AT: usize = COUNTERS_AT + GRANT_SLOTS as usize * SLOT_WORDS;
/// Words that an owner shares.
pub(super) const SHARED: usize = WISHES_AT + GRANT_SLOTS as usize;

/// The counters of a tag that this process leases as the owner, each made at its first use.
#[derive(Debug, Default)]
pub(super) struct OwnCounters([OnceLock<Box<RequestWords>>; LEASE_OPS]);

impl OwnCounters {
    #[inline]
    pub fn of(&self, op: usize) -> Option<&RequestWords> {
        self.0.get(op).map(|counters| &**counters.get_or_init(Box::default))
    }

    fn totals(&self) -> [RequestTotals; LEASE_OPS] {
        self.0.each_ref().map(|counters| counters.get().map(|counters| counters.totals()).unwrap_or_default())
    }
}

/// The owner's list of counters, by the generation of the tag.
#[derive(Debug, Default)]
pub(crate) struct TagCounters {
    own: BTreeMap<u64, Arc<OwnCounters>>,
    /// The tag of the last grant in each slot.
    slots: BTreeMap<usize, u64>,
    /// The counts of grants whose slots other grants got.
    past: BTreeMap<u64, [RequestTotals; LEASE_OPS]>,
}

fn add(totals: &mut [RequestTotals; LEASE_OPS], more: &[RequestTotals; LEASE_OPS]) {
    totals.iter_mut().zip(more).for_each(|(total, more)| total.add(more));
}

impl TagCounters {
    /// Returns the counters of the tag of `generation`, which this process leases.
    pub(super) fn own(&mut self, generation: u64) -> Arc<OwnCounters> {
        Arc::clone(self.own.entry(generation).or_default())
    }

    /// Begins the counts of a grant on the tag of `generation` in `slot`, whose last grant has ended.
    pub(super) fn begin(&mut self, words: &SharedWords, slot: usize, generation: u64) {
        if let Some(before) = self.slots.insert(slot, generation) {
            add(self.past.entry(before).or_default(), &slot_totals(words, slot));
        }
        (0..LEASE_OPS).filter_map(|op| counters_of(words, slot, op)).for_each(RequestWords::clear);
        words.word(figures_at(slot)).store(0, Ordering::Release);
        words.word(WISHES_AT + slot).store(0, Ordering::Relaxed);
    }

    /// Returns true if the last grant in `slot` is of this owner, and on the tag of `generation`.
    pub(super) fn is_of(&self, slot: usize, generation: u64) -> bool {
        self.slots.get(&slot) == Some(&generation)
    }

    /// Drops the counts of a tag that was removed.
    pub(crate) fn forget(&mut self, generation: u64) {
        self.own.remove(&generation);
        self.past.remove(&generation);
        self.slots.retain(|_, tag| *tag != generation);
    }

    pub(super) fn totals(&self, words: Option<&SharedWords>, generation: u64) -> [RequestTotals; LEASE_OPS] {
        let mut totals = self.past.get(&generation).cloned().unwrap_or_default();
        self.own.get(&generation).into_iter().for_each(|own| add(&mut totals, &own.totals()));
        for slot in self.slots.iter().filter(|(_, tag)| **tag == generation).map(|(slot, _)| *slot) {
            words.into_iter().for_each(|words| add(&mut totals, &slot_totals(words, slot)));
        }
        totals
    }
}

/// Shared counters of one grant, as the owner passes them.
#[derive(Debug)]
pub struct SharedCounters {
    /// The memory of the shared words.
    pub words: OwnedFd,
    /// The slot of the grant.
    pub slot: usize,
}

/// The client's side of the counters of one grant.
#[derive(Debug)]
pub struct LentCounters {
    words: SharedWords,
    slot: usize,
}

impl LentCounters {
    /// Maps the counters that the owner shares; `None` if that is impossible or they are not of this version.
    pub fn of(shared: SharedCounters) -> Option<Self> {
        let words = SharedWords::of(shared.words).ok()?;
        counters_of(&words, shared.slot, LEASE_OPS - 1)?;
        Some(Self { words, slot: shared.slot })
    }

    /// Returns the counters of operation `op`.
    pub fn of_op(&self, op: usize) -> Option<&RequestWords> {
        counters_of(&self.words, self.slot, op)
    }
}

/// Returns the counters of operation `op` of the grant in `slot`; `None` if the owner is of a version that shares none.
#[inline]
pub(super) fn counters_of(words: &SharedWords, slot: usize, op: usize) -> Option<&RequestWords> {
    if op >= LEASE_OPS || slot >= GRANT_SLOTS as usize {
        return None;
    }
    words.counters(COUNTERS_AT + slot * SLOT_WORDS + op * REQUEST_WORDS)
}

fn slot_totals(words: &SharedWords, slot: usize) -> [RequestTotals; LEASE_OPS] {
    array::from_fn(|op| counters_of(words, slot, op).map(RequestWords::totals).unwrap_or_default())
}

/// Returns the word before the figures of `slot`.
fn figures_at(slot: usize) -> usize {
    COUNTERS_AT + slot * SLOT_WORDS + LEASE_OPS * REQUEST_WORDS
}

/// Publishes `figures` for the owner, if it is of a version that shares words for them.
pub(super) fn publish(words: &SharedWords, slot: usize, figures: [u64; LEASE_FIGURES]) {
    let first = figures_at(slot) + 1;
    if slot < GRANT_SLOTS as usize && first + LEASE_FIGURES <= words.count() {
        for (word, figure) in (first..).zip(figures) {
            words.word(word).store(figure, Ordering::Relaxed);
        }
        words.word(first - 1).store(1, Ordering::Release);
    }
}

/// Returns the figures in `slot`, if they were published since the slot was cleared.
pub(super) fn figures(words: &SharedWords, slot: usize) -> Option<[u64; LEASE_FIGURES]> {
    let first = figures_at(slot) + 1;
    let is_published = words.word(first - 1).load(Ordering::Acquire) != 0;
    is_published.then(|| array::from_fn(|figure| words.word(first + figure).load(Ordering::Relaxed)))
}

/// Stores the `wish` of the owner for the holder of the grant in `slot`.
pub(super) fn set_wish(words: &SharedWords, slot: usize, wish: u64) {
    words.word(WISHES_AT + slot).store(wish, Ordering::Relaxed);
}

/// Returns the wish of the owner for the holder of the grant in `slot`; `None` if it has none, or is of a version that
/// shares none.
pub(super) fn wish(words: &SharedWords, slot: usize) -> Option<u64> {
    let at = WISHES_AT + slot;
    (slot < GRANT_SLOTS as usize && at < words.count())
        .then(|| words.word(at).load(Ordering::Relaxed))
        .filter(|it| *it > 0)
}
