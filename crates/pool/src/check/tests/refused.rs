//! Pools that cannot be opened: told why, and not touched.

use super::*;
use crate::layout::RETIRED;
use crate::{PoolState, Superblock};

/// `plant` damages the pool so that it cannot be opened; the finding contains `why`.
fn refuses(why: &str, plant: impl FnOnce(&LyingMemory)) {
    let memory = pool();
    plant(&memory);
    let before = memory.snapshot();
    for report in [checked(&memory), repaired(&memory)] {
        assert!(!report.opened && !report.is_sound());
        assert!(text(&report).contains(why), "{why}: {}", text(&report));
    }
    assert!(memory.snapshot() == before, "{why}: touched");
}

#[test]
fn what_cannot_be_opened_is_told_and_not_touched() {
    refuses("not a Ferrite pool", |memory| SUPERBLOCKS.iter().for_each(|at| memory.store(*at, &[0; 128], Scheme::Nt)));
    refuses("superblock", |memory| SUPERBLOCKS.iter().for_each(|at| memory.store(at + 33, &[0xA5], Scheme::Nt)));
    refuses("restore", |memory| {
        let mut superblock = Superblock::read(memory).unwrap();
        superblock.state = PoolState::Restoring;
        superblock.advance(memory).unwrap();
    });
    refuses("retired", |memory| RETIRED.iter().for_each(|at| memory.store(*at, &[0xA5; 8], Scheme::Nt)));
}

#[test]
fn a_truncated_pool_is_told_and_not_touched() {
    let whole = pool().snapshot();
    let memory = Arc::new(LyingMemory::from_image(&whole[..POOL_BYTES_MIN as usize], Model::MAPPED));
    for report in [checked(&memory), repaired(&memory)] {
        assert!(!report.opened && text(&report).contains("truncated"), "{}", text(&report));
    }
    let empty = Arc::new(LyingMemory::new(0, Model::MAPPED));
    assert!(!checked(&empty).opened);
}
