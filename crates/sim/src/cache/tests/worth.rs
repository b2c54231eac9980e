//! The policy `worth` on sequences whose outcome is known.

use super::{CacheEvent, PolicyChoice, model, shape, study};
use crate::cache::PolicyFigures;

/// Returns the figures of LRU, Protect-0 and `worth` in one set of `ways` ways.
fn beside(ways: u32, events: &[CacheEvent]) -> [PolicyFigures; 3] {
    let choices = [PolicyChoice::Lru, PolicyChoice::Protect { protected: 0 }, PolicyChoice::Worth];
    let report = study(model(shape(1, ways), &choices), events);
    choices.map(|choice| report.policy(&choice.name(ways)).expect("it was simulated").clone())
}

/// Rule 1: before anything is learned the policy is Protect-6 of eight ways.
#[test]
fn at_first_a_clean_one_of_the_least_recent_leaves() {
    let events: Vec<CacheEvent> = (0..250_u64)
        .map(|n| if n % 3 == 0 { CacheEvent::write(n * n % 23) } else { CacheEvent::read(n * n % 23) })
        .collect();
    let choices = [PolicyChoice::Lru, PolicyChoice::Protect { protected: 6 }, PolicyChoice::Worth];
    let report = study(model(shape(1, 8), &choices), &events);
    let of = |choice: PolicyChoice| {
        let one = report.policy(&choice.name(8)).expect("it was simulated");
        (one.read_misses, one.write_misses, one.hits, one.writebacks)
    };
    assert_eq!(of(choices[2]), of(choices[1]));
    assert_ne!(of(choices[2]), of(choices[0]));
}

/// Two lines are written every twelve accesses; between them ten are written that never come back. There is room for
/// eight: LRU and Protect-0 write everything back, all the time.
#[test]
fn lines_that_are_rewritten_stay_and_those_that_pass_by_do_not() {
    let event = |n: u64| CacheEvent::write(if n % 12 < 2 { n % 12 } else { 1000 + n });
    let events: Vec<CacheEvent> = (0..24_000).map(event).collect();
    let [lru, protect, worth] = beside(8, &events);
    assert_eq!((lru.writebacks, protect.writebacks), (24_000, 24_000));
    assert!(worth.writebacks < 20_500, "{} of 24000, of which 20000 cannot be saved", worth.writebacks);
}

/// Twelve lines, written in a circle, in eight ways: LRU never hits. Lines that stay until their turn hit. If the lines
/// are read, no writeback can be saved, and the policy risks nothing.
#[test]
fn a_part_of_a_circle_stays_where_it_is_written() {
    let circle = |is_write| (0..24_000).map(|n| CacheEvent::new(n % 12, is_write, 0)).collect::<Vec<_>>();
    let [lru, _, worth] = beside(8, &circle(true));
    assert_eq!(lru.hits, 0);
    assert!(worth.hits > 8_000, "{} hits", worth.hits);
    let [_, _, worth] = beside(8, &circle(false));
    assert_eq!(worth.hits, 0);
}

/// Half of the ways would suffice for the lines that are read, all for the lines that are written. Keeping the written
/// lines costs reads that hit under LRU: no more of them are lost than is allowed.
#[test]
fn misses_stay_within_what_is_allowed() {
    let event = |n: u64| match n % 4 {
        0 => CacheEvent::write(100 + n / 4 % 14),
        _ => CacheEvent::read(n * 7 / 3 % 9),
    };
    let events: Vec<CacheEvent> = (0..200_000).map(event).collect();
    let [lru, _, worth] = beside(16, &events);
    assert!(worth.writebacks <= lru.writebacks, "{} {}", worth.writebacks, lru.writebacks);
    assert!(worth.misses() as f64 <= 1.05 * lru.misses() as f64 + 2500.0, "{} {}", worth.misses(), lru.misses());
}

/// Returns accesses to lines that are used once, and to lines that are written at any time; then the instruction of the
/// former writes lines in a circle that fits. The learned worth says that its lines do not come back.
fn turn() -> Vec<CacheEvent> {
    let mut state = 1_u64;
    let mut below = |most: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % most
    };
    let (passing, staying) = (1 << 5, 2 << 5);
    let before = (0..60_000_u64).map(|at| match at % 4 {
        0 => CacheEvent::new(below(3000), true, staying),
        _ => CacheEvent::new(1 << 20 | at, true, passing),
    });
    let mut events: Vec<CacheEvent> = before.collect();
    events.extend((0..6 * 7500).map(|at| CacheEvent::new((2 << 20) + at % 7500, true, passing)));
    events
}

/// After a turn lines are replaced that LRU would have kept. No more of them are written or missed than may be lost:
/// without a budget there were 9 % more.
#[test]
fn a_turn_costs_no_more_than_may_be_lost() {
    let report = study(model(shape(512, 16), &[PolicyChoice::Worth]), &turn());
    let (lru, worth) = (&report.policies[0], &report.policies[1]);
    assert!(
        0.99 * worth.writebacks as f64 <= lru.writebacks as f64,
        "{} writebacks, LRU {}",
        worth.writebacks,
        lru.writebacks
    );
    assert!(worth.misses() as f64 <= 1.05 * lru.misses() as f64, "{} misses, LRU {}", worth.misses(), lru.misses());
}
