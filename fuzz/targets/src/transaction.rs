//! The payload of a committed transaction, as recovery replays it.

use ferrite_pool::decode::changes;
use ferrite_pool::layout::{CHUNK, LANES, MEMBERS};

/// Bytes of the pool of the replay: few enough that places beyond it occur.
const SIZE: u64 = 16 * CHUNK;

pub fn target(data: &[u8]) {
    for size in [SIZE, u64::MAX] {
        for span in changes(data, size).unwrap_or_default() {
            let end = span.end().expect("a change that wraps around was believed");
            assert!(end <= size, "a change beyond the pool was believed: {span:?}");
            assert!(span.at >= MEMBERS, "a change of the superblock or of the retired word was believed: {span:?}");
            assert!(end <= LANES || span.at >= CHUNK, "a change of the lanes was believed: {span:?}");
        }
    }
}

/// Returns payloads written by hand, from the table of operations in docs/format.md.
pub fn seeds() -> Vec<Vec<u8>> {
    let operation = |code: u64, at: u64, detail: u64| [(at | code << 56).to_le_bytes(), detail.to_le_bytes()].concat();
    let write = [operation(1, MEMBERS, 16), vec![7; 16]].concat();
    let fill = operation(4, CHUNK + 3, 5 | 2 << 56);
    vec![[write.clone(), operation(2, CHUNK, 1), operation(3, CHUNK + 8, 2), fill].concat(), write]
}

#[cfg(test)]
mod tests;
