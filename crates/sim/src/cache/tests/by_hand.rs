//! Sequences with answers worked out by hand, one for each rule.

use super::{CacheEvent, PolicyChoice, model, shape, study};
use crate::cache::{CacheModel, L1, PolicyFigures};

/// Parses `r3 w5`: a read of line 3, a write of line 5.
fn events(text: &str) -> Vec<CacheEvent> {
    let event = |word: &str| {
        let line = word[1..].parse().expect("a line");
        if word.starts_with('w') { CacheEvent::write(line) } else { CacheEvent::read(line) }
    };
    text.split_whitespace().map(event).collect()
}

/// Runs one set of `ways` ways.
fn run(choice: PolicyChoice, ways: u32, text: &str) -> PolicyFigures {
    let report = study(model(shape(1, ways), &[choice]), &events(text));
    report.policy(&choice.name(ways)).expect("it was simulated").clone()
}

#[track_caller]
fn is(figures: &PolicyFigures, misses: (u64, u64), hits: u64, writebacks: u64) {
    let found = (figures.read_misses, figures.write_misses, figures.hits, figures.writebacks);
    assert_eq!(found, (misses.0, misses.1, hits, writebacks), "read and write misses, hits, writebacks");
}

const PROTECT_0: PolicyChoice = PolicyChoice::Protect { protected: 0 };

/// LRU comes first in the report, in whatever order the policies are named.
#[test]
fn lru_is_the_first_of_the_policies() {
    let choices = [PolicyChoice::Protect { protected: 0 }, PolicyChoice::Lru, PolicyChoice::Lru];
    let report = study(model(shape(1, 2), &choices), &[CacheEvent::new(0, true, 0)]);
    let names: Vec<&str> = report.policies.iter().map(|one| one.policy.as_str()).collect();
    assert_eq!(names, ["lru", "protect-0"]);
}

/// Definition 2: the least recent line is replaced, dirty or not; a hit makes a line most recent.
#[test]
fn lru_evicts_the_least_recent() {
    is(&run(PolicyChoice::Lru, 2, "w1 r2 r3 r2 r1"), (3, 1), 1, 1);
    is(&run(PolicyChoice::Lru, 2, "w1 r2 r1 r3 r1"), (2, 1), 2, 1);
}

/// Definition 4: a line that is dirty at the end is written.
#[test]
fn what_is_dirty_at_the_end_counts() {
    is(&run(PolicyChoice::Lru, 4, "w1 w2 r3 w1"), (1, 2), 1, 2);
}

/// Definition 3: clean lines are replaced first, even if a dirty one is older; without clean lines the oldest.
#[test]
fn protect_0_evicts_clean_lines_first() {
    is(&run(PROTECT_0, 2, "w1 r2 r3 w1 r4 w1"), (3, 1), 2, 1);
    is(&run(PROTECT_0, 2, "w1 w2 r3 w1"), (1, 3), 0, 3);
    is(&run(PROTECT_0, 4, "r1 w2 r3 w4 r5 r3"), (3, 2), 1, 2);
}

/// Definition 3: the two most recent lines are safe; the only clean lines are among them, so the oldest dirty one is
/// replaced.
#[test]
fn protect_n_spares_the_most_recent() {
    let protect_2 = PolicyChoice::Protect { protected: 2 };
    is(&run(protect_2, 4, "w1 w2 r3 r4 r5 w1"), (3, 3), 0, 3);
    is(&run(PROTECT_0, 4, "w1 w2 r3 r4 r5 w1"), (3, 2), 1, 2);
    is(&run(protect_2, 4, "w1 r2 r3 r4 r5 w1 r3"), (4, 1), 2, 1);
}

/// With every way protected the policy is LRU.
#[test]
fn the_ends_of_protect_n() {
    let text = "w1 r2 w3 r4 r5 w6 r1 w2 r3 w4 r5 r6 w1 r7 r2";
    let (all, lru) = (run(PolicyChoice::Protect { protected: 4 }, 4, text), run(PolicyChoice::Lru, 4, text));
    assert_eq!((all.misses(), all.writebacks), (lru.misses(), lru.writebacks));
}

/// Two partitions of two ways, Protect-1: even lines prefer the first, odd ones the second.
const HALVES: PolicyChoice = PolicyChoice::Partitioned { partitions: 2, protected: 1 };

/// Definition 3: the preferred partition's clean way is replaced although the other partition is empty.
#[test]
fn a_miss_replaces_in_its_preferred_partition() {
    is(&run(HALVES, 4, "r0 r2 r4 r2 r0"), (4, 0), 1, 0);
}

/// 0 and 2 fill the first partition with dirty lines; 4 goes to the second, so 0 and 2 stay.
#[test]
fn a_full_dirty_partition_sends_misses_elsewhere() {
    let figures = run(HALVES, 4, "w0 w2 r4 r6 r8 w0 w2");
    is(&figures, (3, 2), 2, 2);
    assert_eq!(figures.regions.map(|region| region.accesses)[..2], [4, 3]);
}

/// Both partitions are dirty: the least recent line of the preferred one is replaced.
#[test]
fn without_a_clean_way_the_preferred_partitions_oldest_leaves() {
    is(&run(HALVES, 4, "w0 w2 w1 w3 r4 w1 w3 w2 w0"), (1, 5), 3, 5);
}

/// Four partitions of two ways. The first is full of dirty lines. The second has a clean unprotected way, the third one
/// clean and one free, the fourth two free. The most clean ways win, and of the third and the fourth the first.
#[test]
fn the_partition_with_the_most_clean_ways_takes_it() {
    let quarters = PolicyChoice::Partitioned { partitions: 4, protected: 1 };
    let figures = run(quarters, 8, "w0 w4 r1 w5 r2 r8 r6");
    is(&figures, (4, 3), 0, 3);
    assert_eq!(figures.regions.map(|region| region.accesses)[..4], [2, 2, 3, 0]);
}

/// Definition 5: one writeback is 53.1 reads.
#[test]
fn energy_is_of_read_misses_and_writebacks() {
    let figures = run(PolicyChoice::Lru, 2, "r1 w2 w3");
    assert!((figures.energy_nj - (2.184 + 2.0 * 115.95)).abs() < 1e-9, "{}", figures.energy_nj);
    let all = CacheModel { fetch_on_write_miss: true, ..model(shape(1, 2), &[]) };
    let figures = study(all, &events("r1 w2 w3"));
    assert!((figures.policies[0].energy_nj - (3.0 * 2.184 + 2.0 * 115.95)).abs() < 1e-9);
}

/// Figure 2.1, and definition 6 without wear levelling: line 1 is written three times under LRU and once under
/// Protect-0, which closes the whole gap to the bound.
#[test]
fn rewrites_lifetime_and_the_gap_to_the_bound() {
    let text = "w1 r2 r3 w1 r2 r3 w1 w2";
    let report = study(model(shape(1, 2), &[PROTECT_0]), &events(text));
    let (lru, protect) = (&report.policies[0], &report.policies[1]);
    assert_eq!((lru.writebacks, lru.dirty_lines, lru.max_line_writes), (4, 2, 3));
    assert_eq!((protect.writebacks, protect.max_line_writes, protect.lifetime_gain), (2, 1, 3.0));
    assert_eq!((report.bound.writebacks, protect.gap_closed, lru.gap_closed), (2, Some(1.0), Some(0.0)));
    assert_eq!(lru.rewrites(), 2.0);
}

/// Definition 1. One set of two ways: 1 and 3 are dirty, 5 replaces 1, whose writeback precedes the read.
#[test]
fn the_first_level_lets_misses_and_writebacks_through() {
    let (mut l1, mut seen) = (L1::new(2, 2), Vec::new());
    for event in events("w1 w3 r1 r3 r5 r3 r1 w2") {
        l1.access(event.line(), event.is_write(), || 0, |event| seen.push(CacheEvent(event)));
    }
    assert_eq!(seen, events("r1 r3 w1 r5 r1 r2"));
    seen.clear();
    l1.drain(|event| seen.push(CacheEvent(event)));
    assert_eq!(seen, events("w2 w3"));
    l1.drain(|_| panic!("drained already"));
}

/// Definition 1: a read carries the signature of the reading instruction, a writeback that of the last store, at any
/// rank in the set. Later reads do not change it.
#[test]
fn signatures_are_those_of_who_read_and_of_who_stored_last() {
    let (mut l1, mut seen) = (L1::new(1, 2), Vec::new());
    let all = events("r1 w1 w2 w1 r1 r2 r1 r3 r4");
    for (event, signature) in all.into_iter().zip(11_u8..) {
        l1.access(event.line(), event.is_write(), || signature, |event| seen.push(CacheEvent(event)));
    }
    let event = |(text, signature): (&str, u64)| CacheEvent(events(text)[0].0 | signature << 56);
    let expected = [("r1", 11), ("r2", 13), ("w2", 13), ("r3", 18), ("w1", 14), ("r4", 19)];
    assert_eq!(seen, expected.map(event));
}

/// The highest lines are lines, too.
#[test]
fn no_line_is_taken_for_none() {
    let (mut l1, mut seen) = (L1::new(1, 2), Vec::new());
    for line in [u64::MAX >> 6, u64::MAX >> 3, 0] {
        l1.access(line, true, || u8::MAX, |event| seen.push(CacheEvent(event)));
    }
    let lines: Vec<u64> = seen.iter().map(|event| event.line()).collect();
    assert_eq!(lines, [(1 << 54) - 1, 0], "the first two are one line");
}
