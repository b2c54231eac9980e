//! Random traces: compared with the naive models, the bound below all, the same on any number of threads.

use proptest::collection::vec;
use proptest::prelude::*;

use super::naive::{self, Counted};
use super::{CacheEvent, PolicyChoice, model, shape, study};
use crate::cache::L1;

fn choices(ways: u32) -> Vec<PolicyChoice> {
    let partitioned = |partitions, protected| PolicyChoice::Partitioned { partitions, protected };
    let protect = (0..=ways).map(|protected| PolicyChoice::Protect { protected });
    let partitions = [1, 2, 4, 8, 16, 32].into_iter().filter(|partitions| ways.is_multiple_of(*partitions));
    let partitioned = partitions
        .flat_map(|partitions| (0..ways / partitions).map(move |protected| partitioned(partitions, protected)));
    [PolicyChoice::Lru, PolicyChoice::Worth].into_iter().chain(protect).chain(partitioned).collect()
}

fn events(lines: u64, length: usize) -> impl Strategy<Value = Vec<CacheEvent>> {
    vec((0..lines, any::<bool>(), 0_u8..8), 0..length).prop_map(|all| {
        all.into_iter().map(|(line, write, signature)| CacheEvent::new(line, write, signature << 5)).collect()
    })
}

/// Returns events of lines that are read and written now and then, some always and most in phases, and of other lines
/// that are used once. As many kinds of instructions, of three each, access them; not all have distinct signatures.
fn phases(seed: u64, length: u64) -> Vec<CacheEvent> {
    let mut state = seed;
    let mut below = |most: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % most
    };
    let mut event = |at: u64| {
        let (phase, is_write) = (at / 20_000, below(3) == 0);
        let kind = below(4);
        let line = match kind {
            0 => below(300),
            1 => 50_000 * phase + below(700),
            2 => 1_000_000 + at % 1500,
            _ => 2_000_000 + at,
        };
        CacheEvent::new(line, is_write, (kind << 6 | below(3)) as u8)
    };
    (0..length).map(&mut event).collect()
}

fn is_as_naive(sets: u64, ways: u32, events: &[CacheEvent]) -> Result<(), TestCaseError> {
    let choices = choices(ways);
    let report = study(model(shape(sets, ways), &choices), events);
    for (choice, figures) in choices.iter().zip(&report.policies) {
        let naive = naive::run(*choice, sets, ways as usize, events);
        let Counted { read_misses, write_misses, hits, written } = &naive;
        prop_assert_eq!(&figures.policy, &choice.name(ways));
        prop_assert_eq!(
            (figures.read_misses, figures.write_misses, figures.hits, figures.writebacks),
            (*read_misses, *write_misses, *hits, written.len() as u64)
        );
        let mut lines = written.clone();
        lines.sort_unstable();
        let writes: Vec<u64> = lines.chunk_by(|a, b| a == b).map(|same| same.len() as u64).collect();
        prop_assert_eq!(&figures.writes, &writes);
        prop_assert_eq!(figures.max_line_writes, writes.iter().copied().max().unwrap_or(0));
        prop_assert!(report.bound.writebacks <= figures.writebacks, "7: below the bound");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Definition 1.
    #[test]
    fn the_first_level_is_as_the_naive_one(
        set_bits in 0..3_u32,
        ways in 1..5_usize,
        events in events(24, 400),
    ) {
        let sets = 1 << set_bits;
        let (mut l1, mut seen) = (L1::new(sets, ways), Vec::new());
        for event in &events {
            let signature = || event.signature();
            l1.access(event.line(), event.is_write(), signature, |event| seen.push(CacheEvent(event)));
        }
        l1.drain(|event| seen.push(CacheEvent(event)));
        prop_assert_eq!(seen, naive::first_level(sets as u64, ways, &events));
    }

    /// Definitions 2, 3, 4 and 7.
    #[test]
    fn every_policy_is_as_its_naive_model(events in events(300, 2500), ways in 0_usize..6, sets in 0_u32..7) {
        is_as_naive(1 << sets, [1, 2, 4, 8, 12, 16][ways], &events)?;
    }

    /// Sets of more than 16 ways are the same; fewer of them, so that they fill.
    #[test]
    fn every_policy_of_wide_sets_is_as_its_naive_model(events in events(900, 2500), ways in 0_usize..5, sets in 0_u32..3) {
        is_as_naive(1 << sets, [17, 20, 32, 48, 64][ways], &events)?;
    }

    /// Definition 7, for cases that are small enough to try all choices.
    #[test]
    fn the_bound_is_the_best_choice_there_is(events in events(6, 24), ways in 1_u32..5) {
        let report = study(model(shape(1, ways), &[]), &events);
        prop_assert_eq!(report.bound.writebacks, naive::fewest(ways as usize, &events));
    }

    /// Long enough for `worth` to learn in each bank, of sets with ghosts and without.
    #[test]
    fn what_is_learned_is_what_the_naive_model_learns(seed: u64, ways in 1_u32..17) {
        let events = phases(seed, 100_000);
        let report = study(model(shape(32, ways), &[PolicyChoice::Worth]), &events);
        let (figures, naive) = (&report.policies[1], naive::run(PolicyChoice::Worth, 32, ways as usize, &events));
        prop_assert_eq!((figures.misses(), figures.hits), (naive.read_misses + naive.write_misses, naive.hits));
        prop_assert_eq!(figures.writebacks, naive.written.len() as u64);
    }

    #[test]
    fn what_is_learned_in_wide_sets_is_what_the_naive_model_learns(seed: u64, ways in 17_u32..65) {
        let events = phases(seed, 100_000);
        let report = study(model(shape(32, ways), &[PolicyChoice::Worth]), &events);
        let (figures, naive) = (&report.policies[1], naive::run(PolicyChoice::Worth, 32, ways as usize, &events));
        prop_assert_eq!((figures.misses(), figures.hits), (naive.read_misses + naive.write_misses, naive.hits));
        prop_assert_eq!(figures.writebacks, naive.written.len() as u64);
    }

    #[test]
    fn threads_and_batches_change_nothing(events in events(4000, 6000), threads in 2_usize..9, batch in 1_usize..900) {
        let one = model(shape(64, 16), &choices(16));
        let whole = study(one.clone(), &events);
        let mut many = crate::cache::Study::new(crate::cache::CacheModel { threads, ..one }).expect("sound");
        events.chunks(batch).for_each(|part| many.feed(part));
        let many = many.finish("test");
        prop_assert_eq!(serde_json::to_string(&whole).expect("JSON"), serde_json::to_string(&many).expect("JSON"));
    }
}
