//! The changes of words on the medium that a repair makes.

use std::collections::BTreeMap;

use crate::chunk_pages::ChunkPages;
use crate::layout::{bitmap_at, kind_at};
use crate::page_allocator::ChunkUse;
use crate::{Pool, Result};

/// Payload of one transaction of a repair in bytes, well below the limit.
const BATCH_BYTES: usize = 16 << 10;
/// Bytes of one write of a repair at most.
const WRITE_BYTES: usize = 4 << 10;
/// Payload bytes of a write beside its content.
const WRITE_COST_BYTES: usize = 16;

/// Bits of one aligned word: the bits of `mask` get their values from `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordPatch {
    at: u64,
    mask: u64,
    value: u64,
}

/// Returns the patch that sets the kind of `chunk`.
pub(super) fn kind(chunk: u64, kind: ChunkUse) -> WordPatch {
    let (at, shift) = (kind_at(chunk) & !7, kind_at(chunk) % 8 * 8);
    WordPatch { at, mask: 0xff << shift, value: (kind as u64) << shift }
}

/// Returns the patches that mark `pages` of `chunk` as used.
pub(super) fn mark(chunk: u64, pages: ChunkPages) -> impl Iterator<Item = WordPatch> {
    words(chunk, pages).map(|(at, word)| WordPatch { at, mask: word, value: word })
}

/// Returns the patches that mark `pages` of `chunk` as free.
pub(super) fn unmark(chunk: u64, pages: ChunkPages) -> impl Iterator<Item = WordPatch> {
    words(chunk, pages).map(|(at, word)| WordPatch { at, mask: word, value: 0 })
}

/// Returns the patches that write `bytes`, whole words, from `at` on.
pub(super) fn bytes(at: u64, bytes: &[u8]) -> impl Iterator<Item = WordPatch> {
    assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8), "repairs write whole words");
    let words: Vec<u64> =
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect();
    (at..).step_by(8).zip(words).map(|(at, value)| WordPatch { at, mask: u64::MAX, value })
}

fn words(chunk: u64, pages: ChunkPages) -> impl Iterator<Item = (u64, u64)> {
    (bitmap_at(chunk)..).step_by(8).zip(pages.words()).filter(|(_, word)| *word != 0)
}

/// Applies `patches`, in transactions of bounded size. Durable on return.
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

/// Joins neighbouring words.
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
