//! Devices that fail, by calls and by queues.

use std::sync::mpsc::channel;
use std::time::Duration;

use ferrite_memory::planted::plant;
use ferrite_memory::{Error, Result, Span};
use proptest::prelude::*;

use crate::*;

const SECTOR: [u8; 512] = [7; 512];

fn faulty(plan: &str) -> FaultDisk<RamDisk> {
    FaultDisk::new(RamDisk::new(64 << 10), plan.parse().unwrap())
}

/// One request of each kind, by calls or by a queue. A queue has no extents.
fn ask_everything<D: Disk + 'static>(disk: &FaultDisk<D>, queued: bool) -> Vec<Result<()>> {
    let span = Span::new(512, 1024);
    let ops = [Op::Write(Access::Fua), Op::Read, Op::Zero(Zeroing::default()), Op::Trim(Access::Cached), Op::Flush];
    let mut queue = disk.queue().unwrap().unwrap();
    let execute = |op| {
        let buffer = if matches!(op, Op::Read | Op::Write(_)) { vec![7; 512] } else { Vec::new() };
        let request = Request { token: 1, op, span, buffer };
        if !queued {
            return request.execute(disk).result;
        }
        let mut ended = Vec::from_iter(queue.submit(request));
        queue.collect(Wait::Forever, &mut ended).unwrap();
        ended.pop().unwrap().result
    };
    ops.into_iter().map(execute).collect()
}

/// Each request in turn fails, alone, with the error that was chosen.
#[test]
fn errors_come_at_the_chosen_request() {
    for (chosen, queued) in (0..5).flat_map(|chosen| [(chosen, false), (chosen, true)]) {
        let failing = faulty(&format!("error=damaged@request={chosen}"));
        for (number, result) in ask_everything(&failing, queued).iter().enumerate() {
            let failed = matches!(result, Err(Error::Damaged(_)));
            assert_eq!(failed, number as u64 == chosen, "request {number} with {chosen} chosen: {result:?}");
        }
        assert_eq!(failing.faults().requests(), 5);
    }
}

#[test]
fn conditions_choose_by_number_kind_and_chance() {
    let failed = |plan: &str| -> String {
        let results = ask_everything(&faulty(plan), true);
        results.iter().map(|result| if result.is_err() { 'x' } else { '.' }).collect()
    };
    assert_eq!(failed("none"), ".....");
    assert_eq!(failed("error"), "xxxxx");
    assert_eq!(failed("error@from=3"), "...xx");
    assert_eq!(failed("error@every=2"), ".x.x.");
    assert_eq!(failed("error=space@op=flush"), "....x");
    assert_eq!(failed("error@op=write+error@op=trim"), "x..x.");
    assert_eq!(failed("drop@op=zero"), "..xxx");
    assert_eq!(failed("error@chance=0/7"), ".....");
    assert_eq!(failed("error@chance=7/7"), "xxxxx");
    let often = |seed| {
        let disk = faulty(&format!("error@chance=1/4,seed={seed}"));
        (0..1000).filter(|_| disk.flush().is_err()).collect::<Vec<u32>>()
    };
    assert!((200..300).contains(&often(1).len()), "{}", often(1).len());
    assert!(often(1) == often(1) && often(1) != often(2));
}

#[test]
fn errors_come_where_the_chosen_bytes_are_touched() {
    let failing = faulty("error@span=1024-1025");
    failing.write(512, &SECTOR, Access::Cached).unwrap();
    assert!(failing.write(1024, &SECTOR, Access::Cached).is_err());
    assert!(failing.read(512, &mut [0; 1024]).is_err());
    failing.read(1536, &mut [0; 512]).unwrap();
    failing.faults().set(FaultPlan::default());
    let mut back = [1; 512];
    failing.read(1024, &mut back).unwrap();
    assert_eq!(back, [0; 512], "the refused write changed the disk");
}

/// A smaller device refuses what reaches beyond its end, and serves the rest.
#[test]
fn a_truncated_device_ends_earlier() {
    let disk = faulty("truncate=1K");
    disk.write(512, &SECTOR, Access::Cached).unwrap();
    let message = disk.read(512, &mut [0; 1024]).unwrap_err().to_string();
    assert!(message.contains("truncated the device to 1024 bytes"), "{message}");
    assert!(disk.trim(Span::new(1024, 512), Access::Cached).is_err());
    disk.flush().unwrap();
}

/// Corruption flips a bit in each sector of the span, the same at each read, and nothing on the medium.
#[test]
fn corruption_flips_bits_of_reads() {
    let disk = faulty("corrupt@span=1000-2048");
    disk.write(0, &[7; 4096], Access::Cached).unwrap();
    let read = |disk: &FaultDisk<RamDisk>| {
        let mut bytes = vec![0; 4096];
        disk.read(0, &mut bytes).unwrap();
        let mut queue = disk.queue().unwrap().unwrap();
        let request = Request { token: 1, op: Op::Read, span: Span::new(512, 3584), buffer: vec![0; 3584] };
        assert!(queue.submit(request).unwrap().buffer == bytes[512..], "a queue reads other bytes");
        bytes
    };
    let bytes = read(&disk);
    let wrong: Vec<usize> = (0..4096).filter(|at| bytes[*at] != 7).collect();
    assert_eq!(wrong, [1000, 1024, 1536]);
    assert!(wrong.iter().all(|at| (bytes[*at] ^ 7).count_ones() == 1) && read(&disk) == bytes);
    disk.faults().set(FaultPlan::default());
    assert!(read(&disk) == [7; 4096]);
}

/// A call that hangs returns after the plan is replaced, and is judged by the new one.
#[test]
fn a_call_hangs_until_the_plan_changes() {
    for (then, is_ok) in [("none", true), ("drop", false), ("error@op=flush", true)] {
        let disk = faulty("hang@op=write");
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| send.send(disk.write(0, &SECTOR, Access::Cached).is_ok()));
            assert!(receive.recv_timeout(Duration::from_millis(30)).is_err(), "it does not hang");
            disk.flush().unwrap();
            disk.faults().set("hang@from=0,op=write".parse().unwrap());
            assert!(receive.recv_timeout(Duration::from_millis(30)).is_err(), "the new plan hangs it too");
            disk.faults().set(then.parse().unwrap());
            assert_eq!(receive.recv().unwrap(), is_ok, "{then}");
        });
    }
}

/// Q4: a queued request that hangs holds up no other, and the descriptor reports its release.
fn a_queued_request_hangs_alone() {
    let clock = VirtualClock::default();
    let disk =
        FaultDisk::new(SsdDisk::new(RamDisk::new(64 << 10), &SsdProfile::x25e(), clock, 1), FaultPlan::default());
    disk.faults().set("hang@span=0-512".parse().unwrap());
    let mut queue = disk.queue().unwrap().unwrap();
    for token in 0..3 {
        let request = Request { token, op: Op::Read, span: Span::new(token * 512, 512), buffer: vec![0; 512] };
        assert!(queue.submit(request).is_none());
    }
    let mut tokens = Vec::new();
    let mut collect = |queue: &mut Box<dyn Queue>, wait| {
        let mut ended = Vec::new();
        queue.collect(wait, &mut ended).unwrap();
        tokens.extend(ended.iter().map(|completion| completion.token));
        tokens.clone()
    };
    while collect(&mut queue, Wait::AtMost(Duration::from_millis(1))).len() < 2 {}
    assert_eq!((collect(&mut queue, Wait::AtMost(Duration::from_millis(20))), queue.in_flight()), (vec![1, 2], 1));
    disk.faults().set(FaultPlan::default());
    let descriptor = queue.descriptor();
    let mut asked = [rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut asked, Some(&limit)).unwrap(), 1, "Q4");
    assert_eq!(collect(&mut queue, Wait::Forever), [1, 2, 0]);
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn a_hanging_request_holds_up_no_other() {
    a_queued_request_hangs_alone();
}

#[test]
fn canary_a_fault_that_a_queue_ignores_is_found() {
    let _bug = plant("disk: queued request does not hang");
    assert!(std::panic::catch_unwind(a_queued_request_hangs_alone).is_err());
}

/// A queue that is dropped while requests hang does not wait for them.
#[test]
fn a_hanging_request_does_not_hang_its_queues_end() {
    let disk = faulty("hang");
    let mut queue = disk.queue().unwrap().unwrap();
    assert!(queue.submit(Request { token: 0, op: Op::Flush, span: Span::new(0, 0), buffer: Vec::new() }).is_none());
    drop(queue);
    disk.faults().set(FaultPlan::default());
    disk.flush().unwrap();
}

#[test]
fn wrong_plans_are_refused_with_the_wrong_part() {
    for (plan, part) in [
        ("", "`` is not an action: use error,"),
        ("explode", "`explode` is not an action"),
        ("hang@", "`` is not a condition"),
        ("hang@evry=2", "`evry=2` is not a condition: use request,"),
        ("hang@every=0", "at least 1"),
        ("error=bad", "`bad` is not an error: use io, space,"),
        ("truncate=1X", "`1X` is not a number of bytes"),
        ("truncate=99999999T", "is not a number of bytes"),
        ("corrupt@span=5", "`5` is not a span"),
        ("corrupt@span=5-5", "`5-5` is empty"),
        ("error@request=-1", "`-1` is not a number"),
        ("error@chance=2/1", "`2/1` is not a chance"),
        ("error@seed=1", "add chance=N/M"),
        ("error@request=1,request=2", "`request=2` repeats"),
        ("error+", "`` is not an action"),
        ("error@op=sync", "use read, write, flush, trim or zero"),
    ] {
        let message = plan.parse::<FaultPlan>().unwrap_err().to_string();
        assert!(message.starts_with("fault plan: ") && message.contains(part), "{plan}: {message}");
        assert!(!message.contains('\n'));
    }
}

/// Texts from the grammar's words, so that many of them are plans.
fn a_text() -> impl Strategy<Value = String> {
    let words = [
        "error",
        "hang",
        "corrupt",
        "drop",
        "truncate",
        "=",
        "@",
        ",",
        "+",
        "/",
        "-",
        "io",
        "space",
        "request",
        "from",
        "every",
        "span",
        "op",
        "chance",
        "seed",
        "read",
        "flush",
        "0",
        "1",
        "4096",
        "64K",
        "1M",
        "none",
        "é",
        " ",
        "18446744073709551615",
        "99999999999999999999",
    ];
    let rule = (0..4_usize, 0..200_u64, 1..9_u64).prop_map(|(at, a, b)| {
        let action = ["error=space", "hang", "truncate=64K", "corrupt"][at];
        format!("{action}@every={b},span={a}-{},chance=1/{b},seed={a}", a + b)
    });
    let words = prop::collection::vec(prop::sample::select(words.to_vec()).prop_map(str::to_owned), 0..10);
    prop_oneof![
        4 => words.prop_map(|words| words.concat()),
        1 => prop::collection::vec(rule, 1..4).prop_map(|rules| rules.join("+")),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text makes the parser panic, every refusal has one line, and a plan that is printed reads as the same plan.
    #[test]
    fn any_text_is_a_plan_or_an_error(text in a_text()) {
        match text.parse::<FaultPlan>() {
            Ok(plan) => prop_assert_eq!(plan.to_string().parse::<FaultPlan>(), Ok(plan)),
            Err(why) => prop_assert!(why.to_string().len() > "fault plan: ".len()),
        }
    }
}
