use std::sync::atomic::AtomicU32;

use proptest::prelude::*;

use super::*;
use crate::{Guard, MapOptions, Mapped};

const SIZE: u64 = 5 << 20;

fn memory(finest: WearUnit) -> Worn<Mapped> {
    let options = MapOptions { guard: Guard::None, name: "worn".into(), ..MapOptions::default() };
    Worn::new(Mapped::anonymous(SIZE, &options).unwrap(), finest)
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Store(u64, u64, usize),
    Zero(u64, u64, usize),
    Word(u64),
    Other(u64),
}

fn op() -> impl Strategy<Value = Op> {
    // Few places, so that writes meet; among them the ends of lines, pages, blocks and of the memory.
    let place = (prop_oneof![Just(0), Just(4096), Just(2 << 20), Just(SIZE - 9000)], 0..200_u64, 0..9000_u64)
        .prop_map(|(base, at, len)| (base + at, len.min(SIZE - base - at)));
    let how = 0..Scheme::ALL.len();
    prop_oneof![
        3 => (place.clone(), how.clone()).prop_map(|((at, len), how)| Op::Store(at, len, how)),
        1 => (place.clone(), how).prop_map(|((at, len), how)| Op::Zero(at, len, how)),
        2 => place.clone().prop_map(|(at, _)| Op::Word(at / 8 * 8)),
        1 => place.prop_map(|(at, _)| Op::Other(at)),
    ]
}

/// Counters of every page and line, counted byte by byte.
struct Model {
    pages: Vec<u64>,
    lines: Vec<u64>,
    bytes: u64,
}

impl Model {
    fn new() -> Self {
        Self { pages: vec![0; (SIZE / 4096) as usize], lines: vec![0; (SIZE / 64) as usize], bytes: 0 }
    }

    fn write(&mut self, at: u64, len: u64, how: Scheme) {
        let line_unit = if how == Scheme::Writethrough { 8 } else { 64 };
        for byte in at..at + len {
            let starts = |unit| byte == at || byte % unit == 0;
            self.pages[(byte / 4096) as usize] += u64::from(starts(4096));
            self.lines[(byte / 64) as usize] += u64::from(starts(line_unit));
        }
        self.bytes += len;
    }

    /// Everything from its definition, however long that takes.
    fn check(counts: &[u64], tally: &Tally) {
        let mut written: Vec<u64> = counts.iter().copied().filter(|count| *count > 0).collect();
        written.sort_unstable();
        let total: u64 = written.iter().sum();
        assert_eq!((tally.units, tally.written), (counts.len() as u64, written.len() as u64));
        assert_eq!((tally.total, u64::from(tally.max)), (total, written.last().copied().unwrap_or(0)));
        assert!((tally.mean - total as f64 / counts.len() as f64).abs() < 1e-9);
        for (value, part) in [(tally.p50, 0.5), (tally.p90, 0.9), (tally.p99, 0.99), (tally.p999, 0.999)] {
            let not_more = |limit: u64| written.iter().filter(|count| **count <= limit).count() as f64;
            let (value, enough) = (u64::from(value), part * written.len() as f64 - 1e-6);
            assert!(not_more(value) >= enough, "{part} of the units were written more than {value} times");
            assert!(value == 0 || not_more(value - 1) < enough + 2e-6, "{value} is more than {part} of the units need");
        }
        Self::check_gini(counts.len() as f64, &written, tally.gini);
    }

    /// Half of the mean difference of all pairs, over the mean. Pairs of two units never written differ by nothing,
    /// and each pair of a written and an unwritten one by the former's count.
    fn check_gini(units: f64, written: &[u64], gini: f64) {
        let total = written.iter().sum::<u64>() as f64;
        if total == 0.0 {
            return assert_eq!(gini, 0.0);
        }
        let among: f64 = written.iter().map(|a| written.iter().map(|b| a.abs_diff(*b) as f64).sum::<f64>()).sum();
        let pairs = among + 2.0 * total * (units - written.len() as f64);
        let expected = pairs / (2.0 * units * total);
        assert!((gini - expected).abs() < 1e-9, "{gini} instead of {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn counts_are_those_of_the_model(ops in prop::collection::vec(op(), 0..40)) {
        let (memory, mut model) = (memory(WearUnit::Line), Model::new());
        for op in ops {
            match op {
                Op::Store(at, len, how) => {
                    let how = Scheme::ALL[how].1;
                    memory.store(at, &vec![1; len as usize], how);
                    model.write(at, len, how);
                }
                Op::Zero(at, len, how) => {
                    let how = Scheme::ALL[how].1;
                    memory.zero(Span::new(at, len), how);
                    model.write(at, len, how);
                }
                Op::Word(at) => {
                    memory.store_word(at, 1);
                    memory.store_words(&[(at, &[2; 8])]);
                    (0..2).for_each(|_| model.write(at, 8, Scheme::Flush));
                }
                // None of these writes.
                Op::Other(at) => {
                    memory.load(at, &mut [0; 8]);
                    memory.load_word(at / 8 * 8);
                    memory.persist(Span::new(at, 8)).unwrap();
                    memory.barrier().unwrap();
                }
            }
        }
        let wear = memory.wear(3);
        Model::check(&model.pages, &wear.pages);
        Model::check(&model.lines, &wear.lines.unwrap());
        prop_assert_eq!(wear.written_bytes, model.bytes);
        for (page, count) in model.pages.iter().enumerate() {
            prop_assert_eq!(u64::from(memory.page_writes(page as u64 * 4096 + 4095)), *count);
        }
        for (line, count) in model.lines.iter().enumerate() {
            prop_assert_eq!(memory.line_writes(line as u64 * 64 + 1).map(u64::from), Some(*count));
        }
        let mut order: Vec<(u64, u64)> = model.pages.iter().copied().zip((0..).step_by(4096)).collect();
        order.retain(|(count, _)| *count > 0);
        order.sort_by_key(|(count, at)| (std::cmp::Reverse(*count), *at));
        let top: Vec<(u64, u64)> = wear.top_pages.iter().map(|page| (u64::from(page.writes), page.at)).collect();
        prop_assert_eq!(&top[..], &order[..order.len().min(3)]);
    }
}

/// Each kind of spread has the coefficient it has by definition.
#[test]
fn even_wear_is_even_and_a_hot_spot_is_not() {
    let even = memory(WearUnit::Page);
    even.zero(Span::new(0, SIZE), Scheme::Nt);
    assert!(even.wear(0).pages.gini.abs() < 1e-9);
    let hot = memory(WearUnit::Page);
    (0..100).for_each(|_| hot.store_word(4096, 1));
    let wear = hot.wear(10);
    assert!((wear.pages.gini - (1.0 - 1.0 / wear.pages.units as f64)).abs() < 1e-9);
    assert_eq!(wear.top_pages, [WornPage { at: 4096, writes: 100 }]);
    assert_eq!((wear.pages.max, wear.pages.p50, wear.pages.written), (100, 100, 1));
    assert_eq!((wear.lines, hot.line_writes(4096)), (None, None), "lines were not asked for");
}

#[test]
fn writes_of_many_threads_are_all_counted() {
    let memory = memory(WearUnit::Line);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| memory.store(60, &[1; 8], Scheme::Flush)));
        }
    });
    let wear = memory.wear(1);
    assert_eq!((wear.pages.total, wear.lines.unwrap().total, wear.written_bytes), (2000, 4000, 16_000));
}

#[test]
fn a_full_counter_stays_full() {
    let counter = AtomicU32::new(u32::MAX - 3);
    [1, 8, 1].into_iter().for_each(|writes| counts::add(&counter, writes));
    assert_eq!(counter.into_inner(), u32::MAX);
}

/// Writes by other processes, which are not counted, are mentioned.
#[test]
fn shared_parts_are_told() {
    let memory = memory(WearUnit::Page);
    assert_eq!(memory.wear(0).shared_bytes, 0);
    memory.share(Span::new(4096, 8192)).unwrap();
    assert_eq!(memory.wear(0).shared_bytes, 8192);
}

/// A store that is refused wears nothing, and the wrapper refuses what the memory does.
#[test]
fn a_refused_store_is_not_counted() {
    let memory = memory(WearUnit::Page);
    let store = std::panic::AssertUnwindSafe(|| memory.store(SIZE - 4, &[1; 8], Scheme::Nt));
    assert!(std::panic::catch_unwind(store).is_err());
    assert_eq!(memory.wear(1).pages.total, 0);
}

impl<M: Memory> Worn<M> {
    /// Writes of the page that holds byte `at`.
    fn page_writes(&self, at: u64) -> u32 {
        self.counts.page_writes(at)
    }

    /// Writes of the line that holds byte `at`; `None` where lines are not counted.
    fn line_writes(&self, at: u64) -> Option<u32> {
        self.counts.line_writes(at)
    }
}
