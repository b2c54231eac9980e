//! Figures 3 and 8: the guards beside the bare copy, through a disk that overwrites in place as the paper's does.

use std::time::Duration;

use ferrite_memory::Guard;

use super::Scale;
use super::load::{Load, Slice};
use super::stage::Stage;
use crate::Result;
use crate::buffer::Buffer;
use crate::options::{Options, Steps};
use crate::report::{Chart, Measure, Report, Row, rows};
use crate::rounds::{self, Series, Subject};

/// The name of the copy that everything is measured beside.
pub const BARE: &str = "bare";
/// The same copy in a window that a key opens, without the disk: what no disk under that guard can be faster than.
pub const KEYED: &str = "keys alone";
/// Guards in the order the paper comes to them, and what the report calls them.
const GUARDS: [(Guard, &str); 5] = [
    (Guard::Pagetable, "pagetable (PT-Naive)"),
    (Guard::Private, "private"),
    (Guard::Keys, "keys"),
    (Guard::KeysStrict, "keys=strict"),
    (Guard::None, "none"),
];
const UNIT: &str = "MB/s";

/// The loads, with `many` requests at once in half of them.
fn loads(many: usize) -> impl Iterator<Item = Load> {
    [false, true].into_iter().flat_map(move |writes| {
        [1, many].into_iter().flat_map(move |depth| {
            [4 << 10, 256 << 10].into_iter().flat_map(move |bytes| {
                [false, true].into_iter().map(move |random| Load { writes, random, bytes, depth })
            })
        })
    })
}

/// Milliseconds it takes, about.
pub fn total_ms(scale: &Scale) -> u64 {
    loads(2).map(|load| plan(scale, &load)).map(|(rounds, ms)| (rounds as u64 + 1) * 7 * ms).sum()
}

/// Rounds, and milliseconds of a slice. Many threads on few processors need a few turns each in every slice.
fn plan(scale: &Scale, load: &Load) -> (usize, u64) {
    if load.depth == 1 { (scale.rounds, scale.slice_ms) } else { (scale.rounds.div_ceil(5), 20 * scale.slice_ms) }
}

/// Measures it.
pub fn measure(options: &Options, scale: &Scale, steps: &mut Steps<'_>, report: &mut Report) -> Result<()> {
    let loads = loads(options.threads_many).map(|load| (load.name(), load));
    let loads: Vec<_> = loads.filter(|(name, _)| options.wants(name)).collect();
    if loads.is_empty() {
        return Ok(());
    }
    steps.step("filling a disk", 0)?;
    let stage = Stage::build(&options.place, scale.disk_bytes)?;
    let bare = stage.bare(Guard::None)?;
    let keyed = Guard::Keys.ensure_available().is_ok().then(|| stage.bare(Guard::Keys)).transpose()?;
    let usable = GUARDS.into_iter().filter(|(guard, _)| guard.ensure_available().is_ok());
    let disks = usable.map(|(guard, name)| Ok((name, stage.disk(guard, true)?))).collect::<Result<Vec<_>>>()?;
    for (name, load) in &loads {
        let mut buffers: Vec<Buffer> = (0..load.depth).map(|_| Buffer::new(load.bytes as usize)).collect();
        let buffers = std::cell::RefCell::new(&mut buffers[..]);
        let (rounds, slice_ms) = plan(scale, load);
        let time = Duration::from_millis(slice_ms);
        let slice = |seed| Slice { load, size: stage.size(), time, seed };
        let rate = |requests: f64| requests * load.bytes as f64 / 1e6;
        let mut subjects = vec![Subject::new(BARE, |seed| slice(seed).run(&bare, *buffers.borrow_mut()).map(rate))];
        if let Some(keyed) = &keyed {
            subjects.push(Subject::new(KEYED, |seed| slice(seed).run(keyed, *buffers.borrow_mut()).map(rate)));
        }
        for (name, disk) in &disks {
            let run = |seed| slice(seed).run(&**disk, *buffers.borrow_mut()).map(rate);
            subjects.push(Subject::new(*name, run));
        }
        let series = rounds::run(&mut subjects, rounds, &mut || steps.step(name, slice_ms))?;
        report.rows.extend(rows(name, UNIT, &series, &series[0]));
        report.rows.extend(beside_keyed(name, UNIT, &series));
    }
    report.charts.extend([false, true].map(|writes| chart(loads.iter(), writes)));
    Ok(())
}

/// What the disk leaves of the copy in a key's window, where both were measured.
pub fn beside_keyed(case: &str, unit: &'static str, series: &[Series]) -> Vec<Row> {
    let of = |name: &str| series.iter().find(|series| series.name == name);
    let (Some(disk), Some(alone)) = (of(Guard::Keys.name()), of(KEYED)) else { return Vec::new() };
    rows(case, unit, std::slice::from_ref(disk), alone)
}

fn chart<'a>(loads: impl Iterator<Item = &'a (String, Load)>, writes: bool) -> Chart {
    let verb = if writes { "Writes" } else { "Reads" };
    Chart {
        title: format!("{verb} in process, through a disk that overwrites in place, by guard (figures 3 and 8)"),
        measure: Measure::Value,
        cases: loads.filter(|(_, load)| load.writes == writes).map(|(name, _)| name.clone()).collect(),
        level: None,
    }
}
