use std::cell::Cell;

use super::*;

thread_local!(static CYCLES: Cell<u64> = const { Cell::new(0) });

fn ten_each() -> u64 {
    CYCLES.set(CYCLES.get() + 10);
    CYCLES.get()
}

#[test]
fn a_timer_counts_the_cycles_until_it_is_dropped() {
    let stages = Stages::new(ten_each);
    let whole = StageTimer::start(Some(&stages), Stage::Total);
    drop(StageTimer::start(Some(&stages), Stage::Lock));
    drop(StageTimer::start(Some(&stages), Stage::Copy));
    drop(StageTimer::start(Some(&stages), Stage::Copy));
    drop(whole);
    let totals = stages.totals();
    assert_eq!(totals.lock, Passed { count: 1, cycles: 10 });
    assert_eq!(totals.copy, Passed { count: 2, cycles: 20 });
    assert_eq!(totals.total, Passed { count: 1, cycles: 70 });
    drop(StageTimer::start(None, Stage::Verify));
    assert_eq!(stages.totals(), totals);
}

#[test]
fn every_stage_has_its_row() {
    let all = [
        (Stage::Total, "total"),
        (Stage::FindSpace, "find space"),
        (Stage::Lock, "lock"),
        (Stage::Copy, "copy"),
        (Stage::Fence, "fence"),
        (Stage::Map, "map"),
        (Stage::Checksum, "checksum"),
        (Stage::Verify, "verify"),
        (Stage::Buffer, "buffer"),
        (Stage::WaitForPins, "wait for pins"),
    ];
    for (stage, name) in all {
        let stages = Stages::new(|| 0);
        stages.add(stage, 7);
        let rows = stages.totals().rows();
        let counted: Vec<_> = rows.iter().filter(|(_, passed)| passed.count > 0).collect();
        assert_eq!(counted, [&(name, Passed { count: 1, cycles: 7 })]);
    }
}
