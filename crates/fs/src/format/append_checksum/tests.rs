use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::layout::PAGE;
use zerocopy::FromZeros;

use super::*;
use crate::Ino;
use crate::format::inode::{AppendTimes, FileEnd, Inode, InodeBytes, InodeHead};
use crate::format::word::IndexWord;
use crate::tests::{Bug, plant};
use crate::view::index_reader::IndexReader;

/// Where the inode lies, and its page.
const AT: u64 = PAGE;
const DATA: u64 = 2 * PAGE;
const EPOCH: u16 = 5;

/// An inode of no bytes with a page, in an epoch that nothing is stored directly in.
fn fresh() -> LyingMemory {
    let memory = LyingMemory::new(3 * PAGE, Model::MAPPED);
    let mut media = InodeBytes::new_zeroed();
    media.head = InodeHead { mode: 0o100_644, links: 1, size: u64::from(EPOCH) << SIZE_BITS, ..media.head };
    media.roots[0] = IndexWord::page(DATA / PAGE);
    memory.store(AT, media.as_bytes(), Scheme::Nt);
    memory.persist(Span::new(0, 3 * PAGE)).expect("it is memory");
    memory.forget_trace();
    memory
}

fn load(memory: &LyingMemory) -> Inode {
    Inode::load(memory, Ino(1), AT, |inode, checksum| {
        IndexReader { memory, place: |page| Some(page * PAGE), at: AT }.holds(inode.head.height.into(), checksum)
    })
}

/// Appends `len` bytes that say `byte`, as clients do: behind one fence where something is stored directly already.
fn append(memory: &LyingMemory, len: u16, byte: u8, is_first: bool) {
    let end = FileEnd::of(memory, AT, None).expect("no append is under way");
    let sum = memory.store_summed(DATA + end.size, &vec![byte; len.into()]).expect("whole lines").finish();
    let size = end.size + u64::from(len);
    let mut checksum = end.checksum(size, len, sum);
    if is_first {
        memory.fence();
        checksum = end.checksum_of_size(size);
    }
    end.store(memory, checksum, AppendTimes { written: 1, accessed: 1 }, Scheme::Nt);
    memory.fence();
}

/// Every crash of four appends of a line each: the number of a mark is the number of lines there are.
fn explore_appends() -> CrashReport {
    let memory = fresh();
    for lines in 1..=4 {
        append(&memory, 64, lines, lines == 1);
        memory.mark(lines.into());
    }
    let options = ExploreOptions { images_per_point_max: 1 << 17, points: Points::Widest, ..ExploreOptions::default() };
    let judge = |crash: &Crash<'_>| {
        let (memory, lines) = (crash.memory(), crash.last_mark().unwrap_or(0));
        let size = load(&memory).size();
        let mut bytes = vec![0; size.min(PAGE) as usize];
        memory.load(DATA, &mut bytes);
        let is_whole = bytes.iter().zip(0_u64..).all(|(byte, at)| u64::from(*byte) == at / 64 + 1);
        let is_one = size == lines * 64 || size == (lines + 1) * 64;
        if is_one && is_whole { Ok(()) } else { Err(format!("{size} bytes after {lines} lines: {bytes:?}")) }
    };
    explore(&memory, &options, judge)
}

#[test]
fn fp1_fp2_every_crash_of_an_append_leaves_all_or_nothing_of_it() {
    explore_appends().assert_clean().assert_exhaustive();
}

#[test]
fn canary_a_proof_over_the_greater_one_is_found() {
    plant(Some(Bug::OneChecksum));
    let report = explore_appends();
    plant(None);
    assert!(report.failure.is_some());
}

#[test]
fn fp1_a_proof_is_whole_in_its_epoch_alone_and_none_is_never() {
    let one = AppendChecksum::of(EPOCH, 8192, 4096, 77);
    for epoch in 0..=u16::MAX {
        assert_eq!(one.is_whole(epoch), epoch == EPOCH, "epoch {epoch}");
        assert!(!AppendChecksum::NONE.is_whole(epoch), "epoch {epoch}");
    }
    let other = AppendChecksum::of(EPOCH, 12_288, 4096, 78);
    assert!(!AppendChecksum { end: one.end, sums: other.sums }.is_whole(EPOCH), "half of one and half of another");
}

#[test]
fn fp2_the_lesser_one_is_stored_over() {
    let of = |size, bytes| AppendChecksum::of(EPOCH, size, bytes, 1);
    for (one, other) in [(of(128, 64), of(64, 64)), (of(128, 0), of(128, 64)), (of(0, 0), AppendChecksum::NONE)] {
        for checksums in [AppendChecksums([one, other]), AppendChecksums([other, one])] {
            assert_eq!(checksums.greatest(), Some(one));
            assert!(checksums.with(of(640, 64)).in_turn().eq([of(640, 64), one]), "{checksums:?}");
        }
    }
    assert_eq!(AppendChecksums::NONE.greatest(), None);
}

/// Foreign changes leave a size that is certain, and differ from a whole append.
#[test]
fn fp4_an_inode_whose_bytes_are_not_there_is_torn() {
    let memory = fresh();
    (1..=3).for_each(|line| append(&memory, 64, line, line == 1));
    assert!(!load(&memory).is_torn() && load(&memory).needs_commit(), "it rests on its last line");
    memory.store(DATA + 2 * 64, &[9; 8], Scheme::Nt);
    assert_eq!((load(&memory).size(), load(&memory).is_torn()), (128, true));
    memory.store(DATA + 64, &[9; 8], Scheme::Nt);
    assert_eq!((load(&memory).size(), load(&memory).is_torn()), (64, true));
}
