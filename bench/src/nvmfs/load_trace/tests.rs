//! A small file server.

use super::*;

#[test]
fn steps_have_the_sizes_that_the_files_have() {
    let load = ServerLoad { files: 5, mean_bytes: 64 << 10, operations: 200, sync_every: 7, seed: 3 };
    let load = TierLoad { name: "file server", kind: LoadKind::Server(load), live_bytes: 5 * (64 << 10) };
    let trace = LoadTrace::of(&load).expect("its requests are known");
    assert_eq!(trace.fill.len(), 5);
    let mut sizes = HashMap::new();
    for step in trace.fill.iter().chain(&trace.run) {
        let size: &mut u64 = sizes.entry(step.file).or_default();
        match step.verb {
            // A write begins at the end, which is the beginning of a file that was removed.
            TraceVerb::Write => {
                assert_eq!(step.at, *size, "{step:?}");
                *size += step.len;
            }
            TraceVerb::Read => assert_eq!((step.at, step.len), (0, *size), "{step:?}"),
            TraceVerb::Remove => *size = 0,
            TraceVerb::Sync => {}
        }
    }
    let has = |verb| trace.run.iter().any(|step| step.verb == verb);
    assert!([TraceVerb::Read, TraceVerb::Write, TraceVerb::Sync, TraceVerb::Remove].into_iter().all(has));
}

#[test]
fn pages_of_a_step_are_those_that_its_bytes_touch() {
    let pages = |at, len| TraceStep { file: 2, verb: TraceVerb::Write, at, len }.pages();
    let base = 2 * FILE_PAGES;
    assert_eq!(pages(4095, 2), base..base + 2);
    assert_eq!(pages(4096, 4096), base + 1..base + 2);
}
