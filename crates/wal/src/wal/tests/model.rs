//! The log compared with a list: any sequence of appends, drains, failures, truncations, openings and crashes.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::folder::Failure;
use super::*;

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<u16>, bool),
    Commit,
    Step(u8),
    Fail(u8),
    Truncate(u8),
    Reopen,
    Crash(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::collection::vec(0u16..900, 1..4), any::<bool>()).prop_map(|(lens, strict)| Op::Append(lens, strict)),
        1 => Just(Op::Commit),
        4 => (1u8..12).prop_map(Op::Step),
        1 => (0u8..8).prop_map(Op::Fail),
        1 => any::<u8>().prop_map(Op::Truncate),
        1 => Just(Op::Reopen),
        1 => any::<u64>().prop_map(Op::Crash),
    ]
}

fn config() -> Config {
    Config {
        cases: rounds(48) as u32,
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        ..Config::default()
    }
}

/// The expected records.
#[derive(Default)]
struct Reference {
    records: Vec<(LogPosition, Vec<u8>)>,
    /// The number of records that are durable for certain.
    durable: usize,
}

impl Reference {
    /// Checks that after a crash the log holds the durable records, and possibly a beginning of the rest.
    fn check_after_crash(&mut self, wal: &Wal) {
        let found: Vec<_> = wal.records().map(Result::unwrap).collect();
        assert!(found.len() >= self.durable, "{} of {} durable records", found.len(), self.durable);
        assert!(self.records.starts_with(&found), "something else than what was appended");
        self.durable = found.len();
        self.records = found;
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn wd1_wd3_crash_seeded_the_log_is_a_list(ops in prop::collection::vec(op(), 1..50)) {
        let (mut memory, mut folder, mut list) = (new_pool(Model::MAPPED), LyingFolder::default(), Reference::default());
        memory.keep_trace(false);
        let mut wal = create(&memory, &folder);
        for op in ops {
            match op {
                Op::Append(lens, strict) => {
                    let payloads: Vec<Vec<u8>> = lens.iter().map(|len| vec![list.records.len() as u8; (*len).into()]).collect();
                    let durability = if strict { Durability::Strict } else { Durability::Relaxed };
                    let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
                    match wal.append_many(&slices, durability) {
                        Ok(at) => list.records.extend(at.into_iter().zip(payloads)),
                        Err(error) => prop_assert!(matches!(error, Error::Stuck { .. }), "{error}"),
                    }
                }
                Op::Commit => _ = wal.commit().unwrap(),
                Op::Step(steps) => (0..steps).for_each(|_| _ = wal.step()),
                Op::Fail(call) => folder.fail(call.into(), 1, Failure::Forgetful),
                Op::Truncate(number) if !list.records.is_empty() => {
                    wal.commit().unwrap();
                    let number = usize::from(number) % list.records.len();
                    if wal.truncate(list.records[number].0).is_ok() || wal.start() == list.records[number].0.number() {
                        list.records.drain(..number);
                    }
                }
                Op::Truncate(_) => {}
                Op::Reopen => {
                    wal.commit().unwrap();
                    wal = open(&memory, &folder).unwrap();
                }
                Op::Crash(seed) => {
                    list.durable = list.records.iter().filter(|(at, _)| *at < wal.standing().durable).count();
                    memory = Arc::new(memory.crash(seed));
                    memory.keep_trace(false);
                    folder = folder.crash(seed);
                    wal = open(&memory, &folder).unwrap();
                    list.check_after_crash(&wal);
                }
            }
            let durable = wal.standing().durable;
            let expected: Vec<_> = list.records.iter().filter(|(at, _)| *at < durable).cloned().collect();
            folder.fail(0, 0, Failure::Full);
            let found: Vec<_> = wal.records().map(Result::unwrap).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
