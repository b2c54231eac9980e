//! A durable queue with two ends.
//!
//! ```text
//! change  adjacent steps:
//!   1 len u32  bytes    push at the back     3 pop at the back
//!   2 len u32  bytes    push at the front    4 pop at the front     5 clear
//! item    the bytes of an entry
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Result;
use crate::bundle::BundleMember;
use crate::change_steps::{ChangeSteps, len_of};
use crate::logged::{Logged, LoggedStructure, SalvageLoss};

/// An end of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEnd {
    /// The end whose entries are the last when popped from the front.
    Back = 1,
    /// The end of the oldest entry, if all are pushed at the back.
    Front = 2,
}

const POP: u8 = 2;
const CLEAR: u8 = 5;

/// The content of a queue, in DRAM.
#[derive(Debug, Default)]
pub struct QueueEntries {
    entries: VecDeque<Vec<u8>>,
    /// Bytes of all entries.
    bytes: usize,
}

impl QueueEntries {
    pub(crate) const NOTHING: Self = Self { entries: VecDeque::new(), bytes: 0 };

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns entry `index`, counted from the front.
    pub fn get(&self, index: usize) -> Option<Vec<u8>> {
        self.entries.get(index).cloned()
    }

    fn push(&mut self, end: QueueEnd, entry: &[u8]) {
        self.bytes += entry.len();
        match end {
            QueueEnd::Back => self.entries.push_back(entry.into()),
            QueueEnd::Front => self.entries.push_front(entry.into()),
        }
    }

    /// Removes the entry at `end`. Returns false if the queue is empty.
    fn pop(&mut self, end: QueueEnd) -> bool {
        let entry = match end {
            QueueEnd::Back => self.entries.pop_back(),
            QueueEnd::Front => self.entries.pop_front(),
        };
        self.bytes -= entry.as_ref().map_or(0, Vec::len);
        entry.is_some()
    }
}

/// Changes of a queue that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueBatch(Vec<u8>);

impl QueueBatch {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds `entry` at `end`.
    pub fn push(&mut self, end: QueueEnd, entry: &[u8]) -> &mut Self {
        self.0.push(end as u8);
        self.0.extend_from_slice(&len_of(entry));
        self.0.extend_from_slice(entry);
        self
    }

    /// Removes the entry at `end`.
    pub fn pop(&mut self, end: QueueEnd) -> &mut Self {
        self.0.push(end as u8 + POP);
        self
    }

    /// Removes every entry.
    pub fn clear(&mut self) -> &mut Self {
        self.0.push(CLEAR);
        self
    }

    /// Returns true if a queue of `len` entries has every entry that the batch removes.
    pub(crate) fn fits(&self, len: usize) -> bool {
        let (mut steps, mut len) = (ChangeSteps(&self.0), len);
        while let Some(step) = steps.byte() {
            match step {
                1 | 2 => {
                    steps.sized();
                    len += 1;
                }
                CLEAR => len = 0,
                _ if len == 0 => return false,
                _ => len -= 1,
            }
        }
        true
    }
}

impl BundleMember for QueueEntries {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn growth_below(change: &[u8], head_bytes: usize) -> u64 {
        let (mut steps, mut bytes) = (ChangeSteps(change), 0);
        while let Some(step) = steps.byte() {
            if let 1 | 2 = step {
                bytes += steps.sized().map_or(0, |entry| 4 + head_bytes + entry.len());
            }
        }
        bytes as u64
    }

    fn bytes_after(&self, change: &[u8], head_bytes: usize) -> u64 {
        let mut bytes = self.len() * (4 + head_bytes) + self.bytes;
        // The remaining entries, between the lengths of the entries that the steps so far pushed at both ends.
        let (mut front, mut left, mut back) = (VecDeque::new(), 0..self.len(), VecDeque::new());
        let of_left = |index: usize| self.entries[index].len();
        let mut steps = ChangeSteps(change);
        while let Some(step) = steps.byte() {
            match step {
                1 | 2 => {
                    let len = steps.sized().map_or(0, <[u8]>::len);
                    if step == 1 {
                        back.push_back(len)
                    } else {
                        front.push_front(len)
                    }
                    bytes += 4 + head_bytes + len;
                }
                CLEAR => (bytes, front, left, back) = (0, VecDeque::new(), 0..0, VecDeque::new()),
                pop => {
                    let popped = match pop {
                        3 => back.pop_back().or_else(|| left.next_back().map(of_left)).or_else(|| front.pop_back()),
                        _ => front.pop_front().or_else(|| left.next().map(of_left)).or_else(|| back.pop_front()),
                    };
                    bytes -= popped.map_or(0, |len| 4 + head_bytes + len);
                }
            }
        }
        bytes as u64
    }
}

impl LoggedStructure for QueueEntries {
    const TYPE: &'static str = "queue";

    fn apply(&mut self, change: &[u8]) -> bool {
        let mut steps = ChangeSteps(change);
        while let Some(step) = steps.byte() {
            let is_known = match step {
                1 => steps.sized().map(|entry| self.push(QueueEnd::Back, entry)).is_some(),
                2 => steps.sized().map(|entry| self.push(QueueEnd::Front, entry)).is_some(),
                3 => self.pop(QueueEnd::Back),
                4 => self.pop(QueueEnd::Front),
                CLEAR => {
                    *self = Self::NOTHING;
                    true
                }
                _ => false,
            };
            if !is_known {
                return false;
            }
        }
        true
    }

    fn growth(change: &[u8]) -> u64 {
        Self::growth_below(change, 0)
    }

    fn content_after(&self, change: &[u8]) -> u64 {
        self.bytes_after(change, 0)
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        self.entries.iter().for_each(|entry| item(&[entry]));
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        self.push(QueueEnd::Back, item);
        true
    }
}

/// A durable queue. Every change is durable when its call returns; readers wait for no fence.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Logged<QueueEntries>>);

impl Queue {
    pub(crate) fn new(logged: Arc<Logged<QueueEntries>>) -> Self {
        Self(logged)
    }

    /// Returns the losses of a salvage; empty if nothing was damaged.
    pub fn losses(&self) -> &[SalvageLoss] {
        self.0.losses()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.read(QueueEntries::len)
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns entry `index`, counted from the front.
    pub fn get(&self, index: usize) -> Option<Vec<u8>> {
        self.0.read(|waiting| waiting.get(index))
    }

    /// Adds `entry` at `end`.
    ///
    /// # Errors
    /// The errors of [`Logged::make`].
    pub fn push(&self, end: QueueEnd, entry: &[u8]) -> Result<()> {
        self.push_all(end, &[entry])
    }

    /// Adds all `entries` at `end`, one after another, together also in a crash.
    ///
    /// # Errors
    /// The errors of [`Logged::make`]: all are added, or none.
    pub fn push_all(&self, end: QueueEnd, entries: &[&[u8]]) -> Result<()> {
        let bytes = entries.iter().fold(0_usize, |bytes, entry| bytes.saturating_add(entry.len() + 5));
        self.0.ensure_fits(bytes)?;
        let mut batch = QueueBatch(Vec::with_capacity(bytes));
        entries.iter().for_each(|entry| _ = batch.push(end, entry));
        self.0.make(&batch.0)
    }

    /// Removes the entry at `end` and returns it; `None` if the queue is empty. After the return no crash brings it
    /// back.
    ///
    /// # Errors
    /// The errors of [`Logged::make`], except for lack of space.
    pub fn pop(&self, end: QueueEnd) -> Result<Option<Vec<u8>>> {
        self.0.change(|waiting| {
            let entry = match end {
                QueueEnd::Back => waiting.entries.back(),
                QueueEnd::Front => waiting.entries.front(),
            };
            (entry.map(|_| vec![end as u8 + POP]), entry.cloned())
        })
    }

    /// Removes every entry.
    ///
    /// # Errors
    /// The errors of [`Logged::make`], except for lack of space.
    pub fn clear(&self) -> Result<()> {
        self.0.make(&[CLEAR])
    }

    /// Stores a checkpoint now.
    ///
    /// # Errors
    /// The errors of [`Logged::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint()
    }
}
