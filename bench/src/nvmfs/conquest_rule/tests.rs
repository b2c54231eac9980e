//! Small loads whose counts are known.

use super::*;

const SMALL: u64 = 16 << 10;

fn step(file: u64, verb: TraceVerb, page: u64, pages: u64) -> TraceStep {
    TraceStep { file, verb, at: page * PAGE_BYTES, len: pages * PAGE_BYTES }
}

fn memory_after(steps: &[TraceStep]) -> ConquestMemory {
    let mut memory = ConquestMemory::new(8, SMALL);
    steps.iter().for_each(|step| memory.carry_out(step));
    memory
}

#[test]
fn small_files_are_never_written_and_larger_ones_at_each_sync() {
    let (write, sync) = (TraceVerb::Write, TraceVerb::Sync);
    let small = [step(1, write, 0, 3), step(1, sync, 0, 3), step(1, TraceVerb::Read, 0, 3)];
    assert_eq!(memory_after(&small).drain(), ReferenceCounts { hits: 3, written_pages: 0 });
    let large = [step(2, write, 0, 5), step(2, sync, 0, 5), step(2, write, 1, 1), step(2, sync, 0, 5)];
    assert_eq!(memory_after(&large).drain(), ReferenceCounts { hits: 1, written_pages: 6 });
}

#[test]
fn a_file_that_grows_leaves_memory_with_all_it_has() {
    let mut memory = memory_after(&[step(1, TraceVerb::Write, 0, 3), step(1, TraceVerb::Write, 3, 2)]);
    assert_eq!((memory.small_pages, memory.small_pages_max), (0, 3));
    assert_eq!(memory.drain().written_pages, 5);
}

#[test]
fn small_files_take_their_memory_from_the_page_cache() {
    let steps = [step(1, TraceVerb::Write, 0, 6), step(2, TraceVerb::Write, 0, 3)];
    // Five pages are left for the cache, of six that are dirty.
    let mut memory = memory_after(&steps);
    memory.carry_out(&step(2, TraceVerb::Remove, 0, 3));
    assert_eq!(memory.cache.drain().written_pages, 6);
    assert!(memory.fits() && memory.small_pages == 0);
}

#[test]
fn the_limit_of_small_files_is_the_largest_that_fits() {
    let files = |count| {
        let fill = (0..count).map(|file| step(file, TraceVerb::Write, 0, 10)).collect();
        let run = (0..count).map(|file| step(file, TraceVerb::Write, 2, 1)).collect();
        counts(&LoadTrace { fill, run, probes: vec![step(0, TraceVerb::Read, 2, 1)] }, 40)
    };
    assert_eq!(files(2), ConquestCounts { small_below: 128 << 10, written_pages: 0, probe_hits: 1 });
    // Files of 40 KiB are small below 64 KiB, so the next limit is 32 KiB.
    assert_eq!(files(3), ConquestCounts { small_below: 32 << 10, written_pages: 3, probe_hits: 1 });
}
