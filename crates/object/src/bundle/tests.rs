//! Tests of BU1 and BU2.

use ferrite_crash::{Crash, CrashReport, Model, explore};

use super::*;
use crate::QueueEnd;
use crate::tests::support::{LOGGING, Verdict, logged, new_pool, open_pool, options, reopen};

fn bundle(pool: &Arc<ferrite_pool::Pool>) -> Bundle {
    Bundle::new(logged(pool, LOGGING).unwrap())
}

/// Returns step `number` of the run that is crashed: it counts in two maps and a queue.
fn counted(number: u8) -> BundleChange {
    let mut change = BundleChange::default();
    change.map("one").put(b"count", &[number; 40]);
    change.map("two").clear().put(&[number], &[number; 40]);
    change.queue("three").push(QueueEnd::Back, &[number]);
    if number % 3 == 2 {
        change.queue("three").pop(QueueEnd::Front);
    }
    change
}

/// Returns the last step of all members; an error if they differ.
fn step_of(members: &BundleMembers) -> Verdict<u8> {
    let one = members.map("one").get(b"count").map_or(0, |count| count[0]);
    let two = members.map("two").page(None, 9);
    let three = members.queue("three");
    let last = three.get(three.len().wrapping_sub(1)).map_or(0, |entry| entry[0]);
    let agree = last == one && two.iter().map(|(key, _)| key[0]).eq((one > 0).then_some(one));
    agree.then_some(one).ok_or_else(|| format!("BU1: {members:?}"))
}

const STEPS: u8 = 7;

fn run(model: Model, commit: impl Fn(&Bundle, &BundleChange)) -> CrashReport {
    let memory = new_pool(model);
    let bundle = bundle(&open_pool(&memory));
    (0..2).for_each(|_| bundle.checkpoint().unwrap());
    ferrite_memory::Memory::barrier(&*memory).unwrap();
    memory.forget_trace();
    for number in 1..=STEPS {
        commit(&bundle, &counted(number));
        if number % 4 == 0 {
            bundle.checkpoint().unwrap();
        }
        memory.mark(number.into());
    }
    explore(&memory, &options(1 << 8, 40), judge)
}

fn judge(crash: &Crash<'_>) -> Verdict {
    let (_, pool) = reopen(crash)?;
    let acknowledged = crash.last_mark().unwrap_or(0) as u8;
    let bundle = Bundle::new(logged(&pool, LOGGING).map_err(|error| error.to_string())?);
    let step = bundle.read(step_of)?;
    if [acknowledged, acknowledged + 1].contains(&step) {
        return Ok(());
    }
    Err(format!("BU1: step {step} is there after {acknowledged}"))
}

#[test]
fn bu1_crash_leaves_a_change_in_all_members_or_in_none() {
    for model in Model::ALL {
        let report = run(model, |bundle, change| bundle.commit(change).unwrap());
        println!("bundle: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_change_that_is_logged_member_by_member_is_caught() {
    for model in Model::ALL {
        let by_member = |bundle: &Bundle, change: &BundleChange| {
            change.parts().iter().for_each(|part| bundle.0.make(part).unwrap());
        };
        run(model, by_member).expect_failure();
    }
}

#[test]
fn bu2_members_come_with_their_content_and_go_with_it() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let held = bundle(&pool);
    assert!(held.read(|members| members.map("one").is_empty() && members.maps().next().is_none()));
    for number in 1..=STEPS {
        held.commit(&counted(number)).unwrap();
    }
    held.checkpoint().unwrap();
    let mut change = BundleChange::default();
    change.map("one").clear();
    held.commit(&change).unwrap();
    drop(held);
    let held = bundle(&pool);
    held.read(|members| {
        assert!(members.maps().eq(["two"]) && members.queues().eq(["three"]));
        assert_eq!(members.queue("three").len(), 5);
        assert_eq!(members.queue("three").get(4), Some(vec![STEPS]));
    });
}

#[test]
fn what_a_change_cannot_be_made_of_changes_nothing() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let held = bundle(&pool);
    held.commit(&counted(1)).unwrap();
    let mut change = counted(2);
    change.queue("three").clear().push(QueueEnd::Front, b"x").pop(QueueEnd::Back).pop(QueueEnd::Back);
    let error = held.commit(&change).unwrap_err().to_string();
    assert!(error.contains("queue \"three\" has nothing left to pop"), "{error}");
    let stopped = held.change(|members, change| {
        assert_eq!(step_of(members), Ok(1));
        change.map("one").clear();
        Err::<(), _>(Error::Refused("enough".into()))
    });
    assert!(stopped.is_err() && held.read(step_of) == Ok(1));
    let next = held.change(|members, change| {
        *change = counted(step_of(members).unwrap() + 1);
        Ok(members.queue("three").len())
    });
    assert_eq!((next.unwrap(), held.read(step_of)), (1, Ok(2)));
}

/// Bytes from a damaged medium are refused.
#[test]
fn bytes_that_no_bundle_makes_are_refused() {
    let mut members = BundleMembers::default();
    let part = counted(1).parts().concat();
    assert!(members.apply(&part));
    let ends = counted(1).parts().iter().fold(vec![0], |mut ends, part| {
        ends.push(ends.last().unwrap_or(&0) + part.len());
        ends
    });
    for len in 0..part.len() {
        assert_eq!(BundleMembers::default().apply(&part[..len]), ends.contains(&len), "{len}");
    }
    let mut strange = part.clone();
    strange[0] = 9;
    assert!(!members.apply(&strange) && !members.restore(&[]) && !members.restore(&[1, 9, 0, 0, 0]));
}
