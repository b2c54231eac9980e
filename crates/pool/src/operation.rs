//! The operations in the payload of a transaction, and how they are applied.
//!
//! ```text
//! payload  = operation*
//! write    at | 1 << 56   len        bytes, padded to 8
//! set      at | 2 << 56   mask       word |= mask
//! clear    at | 3 << 56   mask       word &= !mask
//! fill     at | 4 << 56   len | byte << 56   bytes = byte
//! ```
//!
//! Each operation gives the same result when it is applied again after itself and later ones in order, so replay from
//! the oldest unretired record is idempotent (lane L5).

use ferrite_memory::{Memory, Scheme, Span};
use parking_lot::Mutex;

use crate::layout::{CHUNK, CHUNK_PAGES, LANES, MEMBERS, REGION_CHUNKS, RETIRED, TAGS};
use crate::{Error, Result};

pub(crate) const WRITE: u64 = 1;
pub(crate) const SET: u64 = 2;
pub(crate) const CLEAR: u64 = 3;
pub(crate) const FILL: u64 = 4;
pub(crate) const KIND_SHIFT: u32 = 56;
/// Bytes of an operation without the bytes to write.
pub(crate) const OPERATION: usize = 16;
const PLACE: u64 = (1 << KIND_SHIFT) - 1;
/// The largest fill in bytes: the bitmaps of a region.
pub(crate) const FILL_BYTES_MAX: u64 = REGION_CHUNKS * CHUNK_PAGES / 8;

/// Locks for the words that `set` and `clear` read and change, because two threads may change bits of one word at once.
static WORDS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// Applies a committed payload to its homes, in the cache, and reports each range to flush to `note` (lane L8). A
/// payload that no transaction writes is refused as a whole.
pub fn apply(memory: &dyn Memory, payload: &[u8], mut note: impl FnMut(Span)) -> Result<()> {
    let operations = || parse(payload, memory.size());
    if operations().any(|operation| operation.is_none()) {
        return Err(Error::corrupt("a committed transaction that this program cannot have written", LANES));
    }
    let mut writes = GatheredWrites { memory, pieces: [(0, &[]); WRITES_MAX], count: 0 };
    for operation in operations().flatten() {
        note(match operation {
            RedoOperation::Write { at, bytes } => {
                writes.add(at, bytes);
                Span::new(at, bytes.len() as u64)
            }
            RedoOperation::Change { at, set, clear } => {
                writes.store();
                let _word = WORDS[(at / 8 % 64) as usize].lock();
                memory.store_word(at, memory.load_word(at) & !clear | set);
                Span::new(at, 8)
            }
            RedoOperation::Fill { span, byte } => {
                writes.store();
                fill(memory, span, byte);
                span
            }
        });
    }
    writes.store();
    Ok(())
}

/// Writes that are stored together, because opening a write window for each takes longer than the store.
struct GatheredWrites<'a> {
    memory: &'a dyn Memory,
    pieces: [(u64, &'a [u8]); WRITES_MAX],
    count: usize,
}

const WRITES_MAX: usize = 16;

impl<'a> GatheredWrites<'a> {
    fn add(&mut self, at: u64, bytes: &'a [u8]) {
        if self.count == WRITES_MAX {
            self.store();
        }
        self.pieces[self.count] = (at, bytes);
        self.count += 1;
    }

    /// Stores the gathered writes, in order.
    fn store(&mut self) {
        if self.count > 0 {
            self.memory.store_words(&self.pieces[..self.count]);
        }
        self.count = 0;
    }
}

fn fill(memory: &dyn Memory, span: Span, byte: u8) {
    const BLOCK: usize = 4096;
    let block = [byte; BLOCK];
    if !span.aligned_to(8) {
        // Only fills of the kinds of a few chunks are unaligned.
        return memory.store(span.at, &vec![byte; span.len as usize], Scheme::Flush);
    }
    for at in (span.at..span.at + span.len).step_by(BLOCK) {
        memory.store_words(&[(at, &block[..BLOCK.min((span.at + span.len - at) as usize)])]);
    }
}

enum RedoOperation<'payload> {
    Write { at: u64, bytes: &'payload [u8] },
    Change { at: u64, set: u64, clear: u64 },
    Fill { span: Span, byte: u8 },
}

/// Returns the ranges that a committed `payload` changes in a pool of `size` bytes, or `None` if it is refused.
pub fn changes(payload: &[u8], size: u64) -> Option<Vec<Span>> {
    let operations = parse(payload, size).map(|operation| {
        Some(match operation? {
            RedoOperation::Write { at, bytes } => Span::new(at, bytes.len() as u64),
            RedoOperation::Change { at, .. } => Span::new(at, 8),
            RedoOperation::Fill { span, .. } => span,
        })
    });
    operations.collect()
}

/// Returns the operations of `payload`, with `None` for one that is malformed or outside a pool of `size` bytes.
fn parse(payload: &[u8], size: u64) -> impl Iterator<Item = Option<RedoOperation<'_>>> {
    let mut rest = payload;
    std::iter::from_fn(move || (!rest.is_empty()).then(|| next_operation(&mut rest, size)))
}

fn next_operation<'payload>(rest: &mut &'payload [u8], size: u64) -> Option<RedoOperation<'payload>> {
    let taken = std::mem::take(rest);
    let (head, tail) = taken.split_first_chunk::<16>()?;
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let (at, detail) = (word(0) & PLACE, word(8));
    let (operation, span) = match word(0) >> KIND_SHIFT {
        WRITE => {
            let bytes = tail.get(..usize::try_from(detail).ok()?)?;
            *rest = &tail[bytes.len()..];
            (RedoOperation::Write { at, bytes }, Span::new(at, detail))
        }
        kind @ (SET | CLEAR) => {
            *rest = tail;
            let (set, clear) = if kind == SET { (detail, 0) } else { (0, detail) };
            (RedoOperation::Change { at, set, clear }, Span::new(at, 8))
        }
        FILL => {
            *rest = tail;
            let span = Span::new(at, detail & PLACE);
            (RedoOperation::Fill { span, byte: (detail >> KIND_SHIFT) as u8 }, span)
        }
        _ => return None,
    };
    let shape = match operation {
        RedoOperation::Fill { .. } => span.len <= FILL_BYTES_MAX,
        _ => span.aligned_to(8),
    };
    (shape && may_change(span, size)).then_some(operation)
}

/// Returns true if transactions may write `span`: it is outside the superblock, the retired words and the lanes.
pub(crate) fn may_change(span: Span, size: u64) -> bool {
    let end = span.end().unwrap_or(u64::MAX);
    [MEMBERS..RETIRED[1], TAGS..LANES, CHUNK..size].into_iter().any(|part| part.start <= span.at && end <= part.end)
}
