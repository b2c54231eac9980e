//! The rate at which crash images are made: `cargo run --release -p ferrite-crash --example images_per_second`.

use std::time::Instant;

use ferrite_crash::{ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Memory, Scheme, Span};

/// Commits records of `record_bytes` each to two places in turn. A word names the newest place.
fn commits(size: u64, record_bytes: usize) -> LyingMemory {
    let memory = LyingMemory::new(size, Model::MAPPED);
    for version in 1..=16u64 {
        memory.store(size / 2 * (version % 2) + 64, &vec![version as u8; record_bytes], Scheme::Nt);
        memory.fence();
        memory.store_word(0, version);
        memory.persist(Span::new(0, 8)).expect("no failure was planted");
        memory.mark(version);
    }
    memory
}

fn measure(name: &str, memory: &LyingMemory, judge: impl Fn(&ferrite_crash::Crash<'_>) -> u64) {
    let options = ExploreOptions { points: Points::Every, ..ExploreOptions::default() };
    let start = Instant::now();
    let mut sum = 0u64;
    let report = explore(memory, &options, |crash| {
        sum = sum.wrapping_add(judge(crash));
        Ok(())
    });
    let per_second = report.images as f64 / start.elapsed().as_secs_f64();
    println!("{name:<40} {report}: {per_second:>12.0} images/s (sum {sum:x})");
}

/// Runs the work of a service under test: it stores and fences 4 KiB, 4,096 times over 16 MiB.
fn record(name: &str, keep_trace: bool) {
    let memory = LyingMemory::new(16 << 20, Model::MAPPED);
    memory.keep_trace(keep_trace);
    let (start, block) = (Instant::now(), [7; 4096]);
    for number in 0..4096 {
        memory.store(number * 4096, &block, Scheme::Nt);
        memory.fence();
    }
    println!("{name:<40} {:.0} ns", start.elapsed().as_secs_f64() / 4096.0 * 1e9);
}

fn main() {
    record("4 KiB stored and fenced, trace kept", true);
    record("4 KiB stored and fenced, no trace", false);
    let small = commits(4096, 96);
    measure("4 KiB, checker borrows", &small, |crash| crash.load_word(0) + crash.load_word(64));
    measure("4 KiB, checker opens a memory", &small, |crash| crash.memory().load_word(0));
    measure("4 KiB, checker writes to its memory", &small, |crash| {
        let memory = crash.memory();
        memory.store_word(0, 1);
        memory.load_word(64)
    });
    let large = commits(64 << 20, 4096);
    measure("64 MiB, 4 KiB records, a memory", &large, |crash| crash.memory().load_word(0));
}
