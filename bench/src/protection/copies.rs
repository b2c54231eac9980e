//! Figures 3 and 8: the guards beside the bare copy, through a disk that overwrites in place as the paper's does.

use ferrite_memory::{Guard, Scheme};

use super::ProtectionScale;
use super::copy_load::CopyLoad;
use super::filled_disk::FilledDisk;
use crate::Result;
use crate::copy_plan::{self, CopyPlan, CopySubject, CopyUnit};
use crate::report::{ReportRow, rows};
use crate::rounds::Series;
use crate::session::BenchSession;

/// The copy that all are compared with.
pub const BARE: &str = "bare";
/// The same copy in a window that a key opens, without the disk: the bound of any disk under that guard.
pub const KEYED: &str = "keys alone";
/// Guards in the order of the paper, and their names in the report.
const GUARDS: [(Guard, &str); 5] = [
    (Guard::Pagetable, "pagetable (PT-Naive)"),
    (Guard::Private, "private"),
    (Guard::Keys, "keys"),
    (Guard::KeysStrict, "keys=strict"),
    (Guard::None, "none"),
];

fn plan(scale: &ProtectionScale) -> CopyPlan {
    let ProtectionScale { disk_bytes, slice_ms, rounds, .. } = *scale;
    CopyPlan { unit: CopyUnit::Rate, disk_bytes, size: 0, slice_ms, many_time: 20, rounds, many_rounds: 5 }
}

/// Measures the loads under every guard of this machine.
pub fn measure(session: &mut BenchSession<'_>, scale: &ProtectionScale) -> Result<()> {
    let loads = copy_plan::loads(&[false, true], &[4 << 10, 256 << 10], &[1, session.options.threads_many]);
    let loads = session.wanted(loads, CopyLoad::name);
    if loads.is_empty() {
        return Ok(());
    }
    session.announce("filling a disk")?;
    let stage = FilledDisk::build(&session.options.place, scale.disk_bytes)?;
    let bare = stage.bare(Guard::None)?;
    let keyed = Guard::Keys.ensure_available().is_ok().then(|| stage.bare(Guard::Keys)).transpose()?;
    let usable = GUARDS.into_iter().filter(|(guard, _)| guard.ensure_available().is_ok());
    let disks =
        usable.map(|(guard, name)| Ok((name, stage.in_place(guard, Scheme::Nt)?))).collect::<Result<Vec<_>>>()?;
    let mut copiers = vec![CopySubject::new(BARE, &bare)];
    copiers.extend(keyed.iter().map(|keyed| CopySubject::new(KEYED, keyed)));
    copiers.extend(disks.iter().map(|(name, disk)| CopySubject::new(*name, &**disk)));
    let plan = CopyPlan { size: stage.size(), ..plan(scale) };
    for load in &loads {
        let series = plan.measure(session, &load.name(), load, &copiers)?;
        session.report.rows.extend(beside_keyed(&load.name(), "MB/s", &series));
    }
    Ok(())
}

/// The disk under keys beside the copy in a key's window, if both were measured.
pub fn beside_keyed(case: &str, unit: &'static str, series: &[Series]) -> Vec<ReportRow> {
    let of = |name: &str| series.iter().find(|series| series.name == name);
    let (Some(disk), Some(alone)) = (of(Guard::Keys.name()), of(KEYED)) else { return Vec::new() };
    rows(case, unit, std::slice::from_ref(disk), alone)
}
