//! An SSD that dies while clients work, and is replaced: the requests a second of each slice of time.

use std::sync::Arc;

use ferrite_cache::NewSsd;
use ferrite_disk::{FaultAction, FaultCondition, FaultPlan};

use super::cache_kind::{CacheKind, MultiCase, SimSizes};
use super::closed_loop::ClosedLoop;
use super::drive_set::DriveSet;
use crate::Result;
use crate::cache_stage::{NAME, REQUEST_BYTES};
use crate::report::{ReportRow, rows};
use crate::rounds::Series;
use crate::session::BenchSession;

/// The case of the run.
pub const CASE: &str = "an SSD dies and is replaced";
/// The case with the time until each dirty page was on two SSDs or on the disk again.
const REPAIR: &str = "an SSD dies and is replaced: repair";
const SUBJECT: &str = "ferrite";
/// Slices before the SSD dies, until it is replaced, and after that.
const SLICES: [usize; 3] = [3, 3, 12];
/// Parts of a slice, after each of which missing copies are looked for.
const PARTS: u64 = 32;

/// Runs the case if the options ask for it.
pub fn measure(session: &mut BenchSession<'_>, sizes: &SimSizes) -> Result<()> {
    if session.wanted([CASE], |case| *case).is_empty() {
        return Ok(());
    }
    session.announce(CASE)?;
    let case = MultiCase { reads_permille: 500, theta: 0.5, flash_percent: 60 };
    let ssd_bytes = case.ssd_bytes(sizes);
    // The third SSD replaces the first.
    let drives = DriveSet::new(sizes.file_bytes, 3, ssd_bytes);
    let Some(cache) = CacheKind::Ferrite.open(&drives, sizes)? else { return Ok(()) };
    let disk = cache.disk(NAME)?;
    let mut clients = ClosedLoop::new(&drives, Some(Arc::clone(&cache)), &*disk, case.load(sizes), 5)?;
    let blocks = sizes.file_bytes / REQUEST_BYTES;
    clients.run(blocks * 6)?;
    let begin = (drives.now_ns(), clients.counts());
    clients.run(blocks / 2)?;
    let slice_ns = drives.now_ns() - begin.0;
    let (mut rates, mut died_ns, mut repair_ns) = (Vec::new(), 0, 0);
    for slice in 0..SLICES.iter().sum() {
        if slice == SLICES[0] {
            let dies = FaultPlan::of(FaultAction::Drop, FaultCondition::default());
            drives.ssds[0].faults.set(dies);
            died_ns = drives.now_ns();
        }
        if slice == SLICES[0] + SLICES[1] {
            let ssd = NewSsd { address: "ssd2".into(), disk: drives.ssd(2), uuid: [12; 16] };
            cache.add_ssd(ssd, None)?;
        }
        let before = clients.counts();
        let begun_ns = drives.now_ns();
        for part in 1..=PARTS {
            clients.run_until_ns(begun_ns + slice_ns * part / PARTS)?;
            if slice >= SLICES[0] && cache.stats(None).bytes.single > 0 {
                repair_ns = drives.now_ns() - died_ns;
            }
        }
        let after = clients.counts();
        let requests = after.reads + after.writes - before.reads - before.writes;
        rates.push(requests as f64 * 1e9 / (drives.now_ns() - begun_ns) as f64);
        session.step(CASE, 500)?;
    }
    let counts = clients.counts();
    add_rows(session, &rates);
    let seconds = repair_ns as f64 / 1e9;
    session.report.rows.push(ReportRow::once(REPAIR.into(), SUBJECT, seconds, SUBJECT, 1.0));
    let (all, failed, wrong) = (counts.reads + counts.writes, counts.failed, counts.wrong);
    let lost = cache.stats(None).bytes.lost;
    session.findings.push(format!(
        "{CASE}: of {all} requests {failed} failed and {wrong} read wrong data, {lost} bytes were lost, and after {seconds:.0} \
         s no dirty page had a single copy"
    ));
    Ok(())
}

/// Adds a row for each part of the run, beside the part before the SSD dies.
fn add_rows(session: &mut BenchSession<'_>, rates: &[f64]) {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let whole = Series { name: SUBJECT.into(), values: vec![mean(&rates[..SLICES[0]])] };
    for (number, rate) in rates.iter().enumerate() {
        let phase = match number {
            _ if number < SLICES[0] => "before",
            _ if number < SLICES[0] + SLICES[1] => "dead",
            _ => "replaced",
        };
        let series = Series { name: SUBJECT.into(), values: vec![*rate] };
        let mut slice = rows(&format!("{phase} {number}: {CASE}"), "1/s", &[series], &whole);
        slice.iter_mut().for_each(|row| row.beside = SUBJECT.into());
        session.report.rows.extend(slice);
    }
}
