//! Changes of words on the medium that a repair makes.

use std::collections::BTreeMap;

use crate::chunk_pages::ChunkPages;
use crate::layout::{bitmap_at, kind_at};
use crate::page_allocator::ChunkUse;
use crate::{Pool, Result};

/// Payload of a transaction of a repair in bytes, well below the limit.
const BATCH_BYTES: usize = 16 << 10;
/// Bytes that one write of it has at most.
const WRITE_BYTES: usize = 4 << 10;
/// What a write takes in a transaction beside its bytes.
const WRITE_COST_BYTES: usize = 16;

/// Bits of one aligned word: those of `mask` become those of `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordPatch {
    at: u64,
    mask: u64,
    value: u64,
}

/// The patch that makes `chunk` one of `kind`.
pub(super) fn kind(chunk: u64, kind: ChunkUse) -> WordPatch {
    let (at, shift) = (kind_at(chunk) & !7, kind_at(chunk) % 8 * 8);
    WordPatch { at, mask: 0xff << shift, value: (kind as u64) << shift }
}

/// The patches that make `pages` of `chunk` used.
pub(super) fn mark(chunk: u64, pages: ChunkPages) -> impl Iterator<Item = WordPatch> {
    words(chunk, pages).map(|(at, word)| WordPatch { at, mask: word, value: word })
}

/// The patches that make `pages` of `chunk` free.
pub(super) fn unmark(chunk: u64, pages: ChunkPages) -> impl Iterator<Item = WordPatch> {
    words(chunk, pages).map(|(at, word)| WordPatch { at, mask: word, value: 0 })
}

/// The patches that make the bytes from `at` on what `bytes` are; whole words.
pub(super) fn bytes(at: u64, bytes: &[u8]) -> impl Iterator<Item = WordPatch> {
    assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8), "repairs write whole words");
    let words: Vec<u64> =
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect();
    (at..).step_by(8).zip(words).map(|(at, value)| WordPatch { at, mask: u64::MAX, value })
}

fn words(chunk: u64, pages: ChunkPages) -> impl Iterator<Item = (u64, u64)> {
    (bitmap_at(chunk)..).step_by(8).zip(pages.words()).filter(|(_, word)| *word != 0)
}

/// Makes `patches`, in transactions of bounded size. Durable on return.
pub(super) fn apply(pool: &Pool, patches: &[WordPatch]) -> Result<()> {
    let mut words = BTreeMap::new();
    for patch in patches {
        let word = words.entry(patch.at).or_insert_with(|| pool.memory().load_word(patch.at));
        *word = *word & !patch.mask | patch.value & patch.mask;
    }
    let mut transaction = pool.transaction();
    let mut batched = 0;
    for (at, bytes) in runs(words) {
        let cost = bytes.len() + WRITE_COST_BYTES;
        if batched + cost > BATCH_BYTES {
            transaction.commit()?;
            (transaction, batched) = (pool.transaction(), 0);
        }
        transaction.write(at, &bytes);
        batched += cost;
    }
    transaction.commit()
}

/// Neighbouring words together.
fn runs(words: BTreeMap<u64, u64>) -> Vec<(u64, Vec<u8>)> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, word) in words {
        match runs.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at && bytes.len() < WRITE_BYTES => {
                bytes.extend(word.to_le_bytes());
            }
            _ => runs.push((at, word.to_le_bytes().to_vec())),
        }
    }
    runs
}
