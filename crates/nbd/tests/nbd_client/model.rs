//! The client against a RAM disk, by random operations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Access, Completion, Disk, Op, RamDisk, Request, Wait, Zeroing};
use ferrite_memory::Span;
use proptest::prelude::*;

use super::stage::Stage;

const SIZE: u64 = 1 << 20;

fn op() -> impl Strategy<Value = Op> {
    let access = prop_oneof![Just(Access::Cached), Just(Access::Fua)];
    let zeroing = (access.clone(), any::<bool>(), any::<bool>()).prop_map(|(access, keep_space, fast)| Zeroing {
        access,
        keep_space,
        fast,
    });
    prop_oneof![
        4 => Just(Op::Read),
        4 => access.clone().prop_map(Op::Write),
        1 => Just(Op::Flush),
        1 => access.prop_map(Op::Trim),
        1 => zeroing.prop_map(Op::Zero),
    ]
}

/// Mostly sectors within the disk; some spans outside, some not aligned.
fn span() -> impl Strategy<Value = Span> {
    let whole = (0..2060_u64, 0..700_u64).prop_map(|(at, len)| Span::new(at * 512, len * 512));
    prop_oneof![20 => whole, 1 => Just(Span::new(1, 512)), 1 => Just(Span::new(u64::MAX - 511, 512))]
}

fn request(op: Op, span: Span, token: u64) -> Request {
    let bytes = if matches!(op, Op::Read | Op::Write(_)) { span.len as usize } else { 0 };
    let span = if op == Op::Flush { Span::new(0, 0) } else { span };
    Request { token, op, span, buffer: vec![token as u8 + 1; bytes] }
}

/// Makes the request on `disk`, by its blocking call.
fn call(disk: &dyn Disk, mut request: Request) -> Completion {
    let Request { token, op, span, .. } = request;
    let result = match op {
        Op::Read => disk.read(span.at, &mut request.buffer),
        Op::Write(access) => disk.write(span.at, &request.buffer, access),
        Op::Flush => disk.flush(),
        Op::Trim(access) => disk.trim(span, access),
        Op::Zero(how) => disk.write_zeroes(span, how),
    };
    Completion { token, buffer: request.buffer, result }
}

fn assert_same(got: &Completion, wanted: &Completion) {
    assert_eq!(got.result.is_ok(), wanted.result.is_ok(), "{:?} instead of {:?}", got.result, wanted.result);
    assert!(got.buffer == wanted.buffer, "other bytes for token {}", got.token);
}

fn settle(pending: &mut HashMap<u64, Completion>, done: impl IntoIterator<Item = Completion>) {
    for got in done {
        let wanted = pending.remove(&got.token).expect("a completion of nothing that is pending");
        assert_same(&got, &wanted);
    }
}

fn states(disk: &dyn Disk) -> Vec<(u64, bool)> {
    let (mut runs, mut at) = (Vec::<(u64, bool)>::new(), 0);
    while at < SIZE {
        for run in disk.extents(Span::new(at, SIZE - at)).unwrap() {
            match runs.last_mut() {
                Some(last) if last.1 == run.zero => last.0 += run.len,
                _ => runs.push((run.len, run.zero)),
            }
            at += run.len;
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every request, blocking or submitted, ends like on a RAM disk, with equal content and extents. Requests in
    /// flight at once may be done in any order, but one server thread does them in the order of arrival.
    #[test]
    fn it_behaves_as_the_disk_behind_it(steps in prop::collection::vec((op(), span(), 0..4_u8), 0..40)) {
        let stage = Stage::of(Arc::new(RamDisk::new(SIZE)));
        let (disk, model) = (stage.connect(), RamDisk::new(SIZE));
        let (mut queue, mut done) = (disk.queue().unwrap().unwrap(), Vec::new());
        let mut pending = HashMap::new();
        for (token, (op, span, how)) in (0..).zip(steps) {
            let wanted = call(&model, request(op, span, token));
            if how == 0 {
                assert_same(&call(&disk, request(op, span, token)), &wanted);
                continue;
            }
            pending.insert(token, wanted);
            settle(&mut pending, queue.submit(request(op, span, token)));
            if how == 1 {
                let waits = [Wait::Forever, Wait::No, Wait::AtMost(Duration::from_micros(50))];
                let wait = waits[token as usize % 3];
                let count = queue.collect(wait, &mut done).unwrap();
                prop_assert!(wait != Wait::Forever || pending.is_empty() || count > 0);
                settle(&mut pending, done.drain(..));
            }
        }
        while !pending.is_empty() {
            prop_assert_eq!(queue.in_flight(), pending.len());
            queue.collect(Wait::Forever, &mut done).unwrap();
            settle(&mut pending, done.drain(..));
        }
        prop_assert_eq!(queue.collect(Wait::Forever, &mut done).unwrap(), 0);
        prop_assert_eq!(states(&disk), states(&model));
    }
}
