//! A log against a queue: any sequence of appends, cuts, openings and crashes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::tests::support::cases;

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<u16>),
    Cut(u8),
    Reopen,
    Crash(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec(0u16..900, 1..4).prop_map(Op::Append),
        3 => any::<u8>().prop_map(Op::Cut),
        1 => Just(Op::Reopen),
        1 => any::<u64>().prop_map(Op::Crash),
    ]
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn w1_crash_seeded_the_log_is_a_queue(ops in prop::collection::vec(op(), 1..60)) {
        let (mut memory, mut queue) = (new_pool(Model::MAPPED), VecDeque::new());
        memory.keep_trace(false);
        let mut log = create(&memory);
        for op in ops {
            match op {
                Op::Append(lens) => {
                    let payloads: Vec<Vec<u8>> = lens.iter().map(|len| vec![queue.len() as u8; (*len).into()]).collect();
                    match log.append_many(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
                        Ok(positions) => queue.extend(positions.into_iter().zip(payloads)),
                        Err(error) => prop_assert!(matches!(error, Error::LogFull { .. }), "{error}"),
                    }
                }
                Op::Cut(number) if !queue.is_empty() => {
                    queue.drain(..number as usize % queue.len());
                    log.cut(queue[0].0).unwrap();
                }
                Op::Cut(_) => {}
                Op::Reopen => log = open(&memory),
                Op::Crash(seed) => {
                    memory = Arc::new(memory.crash(seed));
                    memory.keep_trace(false);
                    log = open(&memory);
                }
            }
            let found: Vec<_> = log.records().map(Result::unwrap).collect();
            prop_assert_eq!(found, Vec::from(queue.clone()));
        }
    }
}
