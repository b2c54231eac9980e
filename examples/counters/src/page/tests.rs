//! Crashes of every change of a page (CN1 to CN3).

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, explore};
use ferrite_memory::planted::plant;

use super::*;

/// The additions of the test. Names of more than 8 bytes can be torn.
const ADDITIONS: [(&str, u64); 4] =
    [("visitors of a page", 1), ("visitors of a page", 2), ("errors of a page", 5), ("a", 7)];

fn page(memory: &dyn Memory) -> CounterPage<'_> {
    CounterPage { memory, at: 0, salt: 9 }
}

/// Returns the counters after the first `count` additions.
fn after(count: usize) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for (name, by) in &ADDITIONS[..count] {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += by,
            None => all.push(((*name).into(), *by)),
        }
    }
    all
}

/// Accepts what the acknowledged additions left, or the next one too, or its counter at zero.
fn judge(crash: &Crash<'_>) -> Result<(), String> {
    let acknowledged = crash.last_mark().unwrap_or(0) as usize;
    let memory = crash.memory();
    let found = page(&memory).slots().map(|(_, name, count)| name.zip(count)).collect::<Option<Vec<_>>>();
    let found = found.ok_or("a slot is damaged")?;
    let next = ADDITIONS.get(acknowledged);
    let created = next.map(|(name, _)| [after(acknowledged), vec![((*name).into(), 0)]].concat());
    let complete = next.map(|_| after(acknowledged + 1));
    let allowed = [Some(after(acknowledged)), created, complete];
    if !allowed.contains(&Some(found.clone())) {
        return Err(format!("CN1, CN2: {found:?} after {acknowledged} additions"));
    }
    page(&memory).add("x", 1).map_err(|failure| failure.message)?;
    let expected = [found, vec![("x".into(), 1)]].concat();
    let counters = page(&memory).counters();
    if counters == expected { Ok(()) } else { Err(format!("CN3: {counters:?} instead of {expected:?}")) }
}

fn crashes(model: Model) -> CrashReport {
    let memory = LyingMemory::new(PAGE, model);
    for (at, (name, by)) in ADDITIONS.iter().enumerate() {
        page(&memory).add(name, *by).expect("room");
        memory.mark(at as u64 + 1);
    }
    explore(&memory, &ExploreOptions::default(), judge)
}

#[test]
fn cn1_cn2_cn3_every_crash_leaves_counters_old_or_new() {
    for model in Model::ALL {
        let report = crashes(model);
        println!("{report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_count_that_is_returned_too_early_is_caught() {
    let _planted = plant("counters: a count is returned before it is durable");
    for model in Model::ALL {
        crashes(model).expect_failure();
    }
}

#[test]
fn canary_a_name_that_can_be_torn_is_caught() {
    let _planted = plant("counters: the first byte of a name does not wait for the others");
    for model in Model::ALL {
        crashes(model).expect_failure();
    }
}
