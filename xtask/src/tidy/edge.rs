//! What stays at the edge: names of front ends, clocks and randomness above the services; machine instructions in `memory`
//! alone.

use std::sync::LazyLock;

use regex::Regex;

use super::{CheckedProject, RuleFinding, is_below_edge, package_of, words};
use crate::source::{RustSource, pattern};

const FRONT_ENDS: [&str; 7] = ["nbd", "fuse", "fuser", "virtio", "vhost", "ublk", "clap"];

/// Files below the edge that may read a clock.
const CLOCK_FILES: [&str; 5] = [
    "crates/cache/src/limited_opener.rs", // how long a device may take that its caller waits for
    "crates/guest/src/shared_budget.rs",  // the time between two steps of the budget
    "crates/memory/src/stamp.rs",         // for callers that hand a clock to file systems
    "crates/owner/src/pool_metrics.rs",   // how long the pool is open, and how old its image is
    "crates/sqlite-log/src/database_identity.rs", // the birth time of a file, by the epoch
];

/// Files outside `memory` that may name machine instructions.
const MACHINE_FILES: [&str; 4] = [
    "crates/sim/src/cache/set/vector_compare.rs", // compares in vector registers, which touch no memory of a pool
    "crates/sim/src/prefetch.rs", // a hint on tables of the simulation, which touches no memory of a pool
    "crates/preload/src/entries/jumps.rs", // where the C library hides pointers
    "crates/preload/src/entries/prepared_calls.rs", // keeps a caller's registers, which Rust has no words for
];

/// A name that is not called as a method.
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|[^.\w])([A-Za-z_]\w*)"));

static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\bInstant::now\b|\b(?:SystemTime|UNIX_EPOCH|clock_gettime|gettimeofday|rand|getrandom|fastrand|thread_rng|RandomState)\b",
    )
});

static MACHINE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(?:naked_|global_)?asm!|\b(?:core|std)::arch\b|\b_mm_\w+|\batomic::(?:fence\b|\{[^}]*\bfence\b)")
});

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    for source in &project.sources {
        let Some(package) = package_of(source.path) else { continue };
        if is_below_edge(package) {
            front_end_names(source, package, findings);
            if !CLOCK_FILES.contains(&source.path) {
                let what = format!(
                    "`{package}` reads a clock or randomness: take it as an argument, or add the file to CLOCK_FILES of \
                     xtask/src/tidy/edge.rs"
                );
                findings.extend(shipped(source, &CLOCK).map(|line| RuleFinding::new(source.path, line, &what)));
            }
        }
        if package != "memory" && !MACHINE_FILES.contains(&source.path) {
            let what = "machine instructions and fences belong to `memory`: call Memory's flush, fence or barrier, or add \
                        the file to MACHINE_FILES of xtask/src/tidy/edge.rs";
            let lines = MACHINE.find_iter(&source.code).map(|found| source.line_at(found.start()));
            findings.extend(lines.map(|line| RuleFinding::new(source.path, line, what)));
        }
    }
}

/// Returns the lines of product code in which `pattern` is found.
fn shipped(source: &RustSource<'_>, pattern: &Regex) -> impl Iterator<Item = usize> {
    let found = pattern.find_iter(&source.code).map(|found| found.start());
    found.filter(|at| !source.is_test_at(*at)).map(|at| source.line_at(at))
}

fn front_end_names(source: &RustSource<'_>, package: &str, findings: &mut Vec<RuleFinding>) {
    for name in NAME.captures_iter(&source.code).filter_map(|found| found.get(1)) {
        let named = words(name.as_str()).into_iter().find(|word| FRONT_ENDS.contains(&word.as_str()));
        let what = |word| format!("`{package}` lies below the edge and may not name `{word}`: speak of Disk or Memory");
        findings.extend(named.map(|word| RuleFinding::new(source.path, source.line_at(name.start()), what(word))));
    }
}

#[cfg(test)]
mod tests;
