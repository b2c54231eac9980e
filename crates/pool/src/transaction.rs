//! A transaction: changes to the pool's own words that happen together or not at all.
//!
//! ```text
//! payload  = operation*
//! write    at | 1 << 56   len        bytes, padded to 8
//! set      at | 2 << 56   mask       word |= mask
//! clear    at | 3 << 56   mask       word &= !mask
//! fill     at | 4 << 56   len | byte << 56   bytes = byte
//! ```
//!
//! Each operation gives the same result when applied again after itself and later ones in order, so replay from the
//! oldest unretired record is idempotent (lane L5).

use std::ops::Range;

use ferrite_memory::{Memory, Scheme, Span};
use parking_lot::Mutex;

use crate::extent::{Extent, Zone};
use crate::freeze::Pass;
use crate::host::Watch;
use crate::lane::PAYLOAD_BYTES_MAX;
use crate::layout::{CHUNK, CHUNK_PAGES, LANES, MEMBERS, PAGE, REGION_CHUNKS, RETIRED, TAGS, bitmap_at, kind_at};
use crate::pool::Pool;
use crate::record::Draft;
use crate::reserved::Reserved;
use crate::space::{Kind, Need};
use crate::tag::SLOT_BYTES;
use crate::tags::page_at;
use crate::{Error, Result};

const WRITE: u64 = 1;
const SET: u64 = 2;
const CLEAR: u64 = 3;
const FILL: u64 = 4;
const KIND_SHIFT: u32 = 56;
/// Bytes of an operation without those that it writes.
const OPERATION: usize = 16;
const PLACE: u64 = (1 << KIND_SHIFT) - 1;
/// The bitmaps of a region.
const FILL_BYTES_MAX: u64 = REGION_CHUNKS * CHUNK_PAGES / 8;

/// Changes that are gathered in DRAM and committed with one fence. Dropped without a commit, nothing has happened.
#[derive(Debug)]
pub struct Transaction<'pool> {
    pool: &'pool Pool,
    draft: Draft,
    taken: Vec<Extent>,
    freed: Vec<Extent>,
    /// Superpages that it frees, which count as pages of the normal zone from then on.
    split: Vec<u64>,
    /// Dropped last: while the pool stands still no transaction is open (freeze F1).
    _pass: Pass<'pool>,
}

impl<'pool> Transaction<'pool> {
    pub(crate) fn new(pool: &'pool Pool) -> Self {
        let _pass = pool.freezers().pass();
        Self { pool, draft: Draft::default(), taken: Vec::new(), freed: Vec::new(), split: Vec::new(), _pass }
    }

    /// Writes `bytes` at `at`. Both are multiples of 8. Until that space is free again it is written by transactions
    /// alone: replay may write it once more (lane L6).
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8), "transactions write whole words");
        let span = Span::new(at, bytes.len() as u64);
        assert!(may_change(span, self.pool.memory().size()), "a transaction outside of what they may write: {span:?}");
        self.operation(WRITE, at, bytes.len() as u64);
        self.draft.push(bytes);
    }

    /// Sets the bits of `mask` in the word at `at`; other transactions may change other bits of it at once. As
    /// [`Transaction::write`] otherwise.
    pub fn set(&mut self, at: u64, mask: u64) {
        self.change_bits(SET, at, mask);
    }

    /// Clears the bits of `mask` in the word at `at`, as [`Transaction::set`] does.
    pub fn clear(&mut self, at: u64, mask: u64) {
        self.change_bits(CLEAR, at, mask);
    }

    fn change_bits(&mut self, kind: u64, at: u64, mask: u64) {
        let span = Span::new(at, 8);
        let is_word = at.is_multiple_of(8) && may_change(span, self.pool.memory().size());
        assert!(is_word, "a transaction outside of what they may write: {span:?}");
        self.operation(kind, at, mask);
    }

    /// Fills `span`, 1 MiB at most, with zeros, at the cost of 16 bytes of payload. As [`Transaction::write`] otherwise.
    pub fn zero(&mut self, span: Span) {
        let fits = span.len <= FILL_BYTES_MAX && may_change(span, self.pool.memory().size());
        assert!(fits && span.aligned_to(8), "a transaction outside of what they may write: {span:?}");
        self.operation(FILL, span.at, span.len);
    }

    /// Takes space for `needs`: it is used on commit, free again on drop. The host's promise for it is had first.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Medium`] where the host does not promise it.
    pub fn take(&mut self, needs: &[Need]) -> Result<Vec<Extent>> {
        self.take_watched(needs, &mut |_| true)
    }

    /// Takes space for `needs` as [`Transaction::take`] does; `watch` may stop it.
    ///
    /// # Errors
    /// As [`Transaction::take`]; [`Error::Cancelled`] if `watch` returns false.
    pub fn take_watched(&mut self, needs: &[Need], watch: Watch<'_>) -> Result<Vec<Extent>> {
        let extents = self.pool.take_promised(needs, watch)?;
        self.taken.extend(&extents);
        self.mark_all(&extents, true);
        Ok(extents)
    }

    /// Makes `reserved` space part of it: it is used on commit, free again on drop.
    pub fn adopt(&mut self, reserved: Reserved<'pool>) -> Vec<Extent> {
        let extents = reserved.into_extents();
        self.taken.extend(&extents);
        self.mark_all(&extents, true);
        extents
    }

    /// Gives `extents` back: they are free on commit.
    pub fn free(&mut self, extents: &[Extent]) {
        self.freed.extend(extents);
        self.mark_all(extents, false);
    }

    /// Takes `count` pages of `dropped`, which it is to free, and shortens that by them: none where no part of it has as
    /// many without a grant (grant G2). The caller may store into them at once (tags T6).
    pub(crate) fn take_of(&mut self, dropped: &mut Vec<Extent>, count: usize) -> Result<Vec<Extent>> {
        let fits = |extent: &Extent| {
            let part = last_part(*extent);
            part.pages as usize >= count && !self.pool.grants().touch(part)
        };
        let Some(index) = dropped.iter().rposition(fits) else { return Ok(Vec::new()) };
        let (whole, part) = (dropped[index], last_part(dropped[index]));
        // What is stored there now no older record is to be replayed over (lane L6).
        self.pool.retire()?;
        let part = self.in_pages(part);
        let taken = (part.page..part.page + count as u64).map(|page| page_at(page * PAGE)).collect();
        let before = Extent { pages: whole.pages - part.pages, ..whole };
        let behind = Extent { page: part.page + count as u64, pages: part.pages - count as u32, ..part };
        dropped.splice(index..=index, [before, behind].into_iter().filter(|left| left.pages > 0));
        Ok(taken)
    }

    /// Whether its record is to bring what comes to `pages`: somebody has something there until the commit, and there is
    /// room for that and for a slot (tags T6).
    pub(crate) fn brings(&self, pages: &[Extent]) -> bool {
        let is_taken = |page: &Extent| self.taken.iter().any(|taken| (taken.page..taken.end()).contains(&page.page));
        let bytes = pages.len() * (OPERATION + PAGE as usize) + 2 * (OPERATION + SLOT_BYTES);
        !pages.iter().all(is_taken) && self.draft.payload_bytes() + bytes <= PAYLOAD_BYTES_MAX
    }

    /// `part` as pages of the normal zone, all in use: those of a superpage can be freed one by one then.
    fn in_pages(&mut self, part: Extent) -> Extent {
        let pages = Extent { zone: Zone::Normal, ..part };
        if part.zone == Zone::Super {
            let chunk = part.page / CHUNK_PAGES;
            self.pool.space().split(chunk);
            self.split.push(chunk);
            self.mark_all(&[pages], true);
        }
        pages
    }

    /// Commits: durable and applied on return, unless it is an error. A failed persist poisons the pool.
    ///
    /// # Errors
    /// As [`Pool`] says.
    pub fn commit(mut self) -> Result<()> {
        self.pool.check_poison()?;
        if self.draft.payload_bytes() == 0 {
            return Ok(());
        }
        let draft = std::mem::take(&mut self.draft);
        let committed = self.pool.lanes().commit(self.pool.memory(), draft);
        if let Err(error @ Error::Limit(_)) = committed {
            return Err(error);
        }
        self.taken.clear();
        self.split.clear();
        committed.and_then(|_| self.give_back()).inspect_err(|error| self.pool.poison(error))
    }

    /// Makes free what it freed. Older records that write there are retired first: a crash would replay them over
    /// what the next owner stores (lane L6).
    fn give_back(&self) -> Result<()> {
        if !self.freed.is_empty() {
            self.pool.lanes().retire(self.pool.memory())?;
            self.pool.grants().give_back(self.pool.space(), &self.freed);
        }
        Ok(())
    }

    /// Notes in the tables that `extents` are in use, or are not; neighbours in one go.
    fn mark_all(&mut self, extents: &[Extent], used: bool) {
        for run in extents.chunk_by(|one, next| one.end() == next.page && one.zone == next.zone) {
            let pages = run[0].page..run[run.len() - 1].end();
            match run[0].zone {
                Zone::Super => self.mark_chunks(pages, if used { Kind::Super } else { Kind::Free }),
                Zone::Normal => {
                    if used {
                        self.mark_chunks(pages.clone(), Kind::Normal);
                    }
                    self.mark_pages(pages, used);
                }
            }
        }
    }

    /// Whole words are filled; in the first and the last other transactions may have bits.
    fn mark_pages(&mut self, pages: Range<u64>, used: bool) {
        let mut page = pages.start;
        while page < pages.end {
            let (at, first) = (bitmap_at(page / CHUNK_PAGES) + page % CHUNK_PAGES / 64 * 8, page % 64);
            let words = (pages.end - page) / 64;
            if first == 0 && words > 1 {
                let byte = if used { 0xff } else { 0 };
                self.operation(FILL, at, (words * 8) | byte << KIND_SHIFT);
                page += words * 64;
                continue;
            }
            let count = (64 - first).min(pages.end - page);
            self.operation(if used { SET } else { CLEAR }, at, (u64::MAX >> (64 - count)) << first);
            page += count;
        }
    }

    fn mark_chunks(&mut self, pages: Range<u64>, kind: Kind) {
        let (mut chunk, end) = (pages.start / CHUNK_PAGES, pages.end.div_ceil(CHUNK_PAGES));
        while chunk < end {
            let run = (chunk..end).take_while(|next| kind_at(*next) == kind_at(chunk) + next - chunk).count() as u64;
            self.operation(FILL, kind_at(chunk), run | (kind as u64) << KIND_SHIFT);
            chunk += run;
        }
    }

    fn operation(&mut self, kind: u64, at: u64, detail: u64) {
        self.draft.push(&(at | kind << KIND_SHIFT).to_le_bytes());
        self.draft.push(&detail.to_le_bytes());
    }
}

/// A chunk of `extent`, or all of it in the normal zone, where that is no more.
fn last_part(extent: Extent) -> Extent {
    match extent.zone {
        Zone::Super => Extent { page: extent.end() - CHUNK_PAGES, pages: CHUNK_PAGES as u32, ..extent },
        Zone::Normal => extent,
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.split.iter().for_each(|chunk| self.pool.space().join(*chunk));
        if !self.taken.is_empty() {
            self.pool.give_up(&self.taken);
        }
    }
}

/// Words that `set` and `clear` change are read first; neighbours in one word may be changed by two threads at once.
static WORDS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// Applies a committed payload to its homes, in the cache, and tells `note` what is to be flushed (lane L8). Refuses a
/// payload that no transaction writes, whole.
pub fn apply(memory: &dyn Memory, payload: &[u8], mut note: impl FnMut(Span)) -> Result<()> {
    let operations = || parse(payload, memory.size());
    if operations().any(|operation| operation.is_none()) {
        return Err(Error::corrupt("a committed transaction that this program cannot have written", LANES));
    }
    let mut writes = Writes { memory, pieces: [(0, &[]); WRITES_MAX], count: 0 };
    for operation in operations().flatten() {
        note(match operation {
            Operation::Write { at, bytes } => {
                writes.add(at, bytes);
                Span::new(at, bytes.len() as u64)
            }
            Operation::Change { at, set, clear } => {
                writes.store();
                let _word = WORDS[(at / 8 % 64) as usize].lock();
                memory.store_word(at, memory.load_word(at) & !clear | set);
                Span::new(at, 8)
            }
            Operation::Fill { span, byte } => {
                writes.store();
                fill(memory, span, byte);
                span
            }
        });
    }
    writes.store();
    Ok(())
}

/// Writes that are stored together: a window for each would take longer than the store.
struct Writes<'a> {
    memory: &'a dyn Memory,
    pieces: [(u64, &'a [u8]); WRITES_MAX],
    count: usize,
}

const WRITES_MAX: usize = 16;

impl<'a> Writes<'a> {
    fn add(&mut self, at: u64, bytes: &'a [u8]) {
        if self.count == WRITES_MAX {
            self.store();
        }
        self.pieces[self.count] = (at, bytes);
        self.count += 1;
    }

    /// Stores what was added, in order.
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
        // The kinds of a few chunks.
        return memory.store(span.at, &vec![byte; span.len as usize], Scheme::Flush);
    }
    for at in (span.at..span.at + span.len).step_by(BLOCK) {
        memory.store_words(&[(at, &block[..BLOCK.min((span.at + span.len - at) as usize)])]);
    }
}

enum Operation<'payload> {
    Write { at: u64, bytes: &'payload [u8] },
    Change { at: u64, set: u64, clear: u64 },
    Fill { span: Span, byte: u8 },
}

/// What a committed `payload` changes in a pool of `size` bytes; `None` where it is refused.
pub fn changes(payload: &[u8], size: u64) -> Option<Vec<Span>> {
    let operations = parse(payload, size).map(|operation| {
        Some(match operation? {
            Operation::Write { at, bytes } => Span::new(at, bytes.len() as u64),
            Operation::Change { at, .. } => Span::new(at, 8),
            Operation::Fill { span, .. } => span,
        })
    });
    operations.collect()
}

/// The operations of `payload`; `None` where it is malformed or reaches outside a pool of `size` bytes.
fn parse(payload: &[u8], size: u64) -> impl Iterator<Item = Option<Operation<'_>>> {
    let mut rest = payload;
    std::iter::from_fn(move || (!rest.is_empty()).then(|| next_operation(&mut rest, size)))
}

fn next_operation<'payload>(rest: &mut &'payload [u8], size: u64) -> Option<Operation<'payload>> {
    let taken = std::mem::take(rest);
    let (head, tail) = taken.split_first_chunk::<16>()?;
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let (at, detail) = (word(0) & PLACE, word(8));
    let (operation, span) = match word(0) >> KIND_SHIFT {
        WRITE => {
            let bytes = tail.get(..usize::try_from(detail).ok()?)?;
            *rest = &tail[bytes.len()..];
            (Operation::Write { at, bytes }, Span::new(at, detail))
        }
        kind @ (SET | CLEAR) => {
            *rest = tail;
            let (set, clear) = if kind == SET { (detail, 0) } else { (0, detail) };
            (Operation::Change { at, set, clear }, Span::new(at, 8))
        }
        FILL => {
            *rest = tail;
            let span = Span::new(at, detail & PLACE);
            (Operation::Fill { span, byte: (detail >> KIND_SHIFT) as u8 }, span)
        }
        _ => return None,
    };
    let shape = match operation {
        Operation::Fill { .. } => span.len <= FILL_BYTES_MAX,
        _ => span.aligned_to(8),
    };
    (shape && may_change(span, size)).then_some(operation)
}

/// Whether transactions may write `span`: neither the superblock, nor the retired words, nor the lanes themselves.
fn may_change(span: Span, size: u64) -> bool {
    let end = span.end().unwrap_or(u64::MAX);
    [MEMBERS..RETIRED[1], TAGS..LANES, CHUNK..size].into_iter().any(|part| part.start <= span.at && end <= part.end)
}
