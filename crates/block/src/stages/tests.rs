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
    let whole = StageTimer::start(Some(&stages), DiskStage::Total);
    drop(StageTimer::start(Some(&stages), DiskStage::Lock));
    drop(StageTimer::start(Some(&stages), DiskStage::Copy));
    drop(StageTimer::start(Some(&stages), DiskStage::Copy));
    drop(whole);
    let totals = stages.totals();
    assert_eq!(totals.lock, StageCount { count: 1, cycles: 10 });
    assert_eq!(totals.copy, StageCount { count: 2, cycles: 20 });
    assert_eq!(totals.total, StageCount { count: 1, cycles: 70 });
    drop(StageTimer::start(None, DiskStage::Verify));
    assert_eq!(stages.totals(), totals);
}

#[test]
fn every_stage_has_its_row() {
    let all = [
        (DiskStage::Total, "total"),
        (DiskStage::FindSpace, "find space"),
        (DiskStage::Lock, "lock"),
        (DiskStage::Copy, "copy"),
        (DiskStage::Fence, "fence"),
        (DiskStage::Map, "map"),
        (DiskStage::Checksum, "checksum"),
        (DiskStage::Verify, "verify"),
        (DiskStage::Buffer, "buffer"),
        (DiskStage::WaitForPins, "wait for pins"),
    ];
    for (stage, name) in all {
        let stages = Stages::new(|| 0);
        stages.add(stage, 7);
        let rows = stages.totals().rows();
        let counted: Vec<_> = rows.iter().filter(|(_, passed)| passed.count > 0).collect();
        assert_eq!(counted, [&(name, StageCount { count: 1, cycles: 7 })]);
    }
}
