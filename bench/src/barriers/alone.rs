//! Barriers alone, after some writes and after none (table III).

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk};

use super::SMALL;
use crate::Result;
use crate::copy_buffer::CopyBuffer;
use crate::copy_plan::CopyPlan;
use crate::options::BenchOptions;
use crate::protection::copy_load::CopyPlaces;
use crate::report::ChartMeasure;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The cases, and the writes before each barrier.
pub const CASES: [(&str, u64); 2] = [("a barrier after no write", 0), ("a barrier after 64 writes of 4K", 64)];

/// Whether any of the cases is asked for.
pub fn is_wanted(options: &BenchOptions) -> bool {
    CASES.iter().any(|(case, _)| options.wants(case))
}

/// Expected milliseconds of measuring.
pub fn total_ms(plan: &CopyPlan) -> u64 {
    (plan.rounds as u64 + 1) * plan.slice_ms * 4 * CASES.len() as u64
}

/// Measures barriers on `disks`, each beside the first.
pub fn measure(session: &mut BenchSession<'_>, disks: &[(String, Arc<dyn Disk>)], plan: &CopyPlan) -> Result<()> {
    let mut measured = Vec::new();
    for (case, writes) in CASES.into_iter().filter(|(case, _)| session.options.wants(case)) {
        let time = Duration::from_millis(plan.slice_ms);
        let slice =
            |disk: &dyn Disk, seed| barrier_us(disk, writes, &mut CopyPlaces::new(&SMALL, plan.size, seed), time);
        let subject = |(name, disk): &(String, Arc<dyn Disk>)| {
            let (disk, slice) = (Arc::clone(disk), &slice);
            BenchSubject::new(name.clone(), move |seed| slice(&*disk, seed))
        };
        let race = Race { case, unit: "us", rounds: plan.rounds, slice_ms: plan.slice_ms, beside: "" };
        session.race(&race, disks.iter().map(subject).collect())?;
        measured.push(case.to_owned());
    }
    session.chart("Barriers alone, by scheme (table III)", ChartMeasure::Value, measured);
    Ok(())
}

/// Microseconds of a barrier, the mean over `time`. Reading the clock adds about 20 ns.
fn barrier_us(disk: &dyn Disk, writes: u64, places: &mut CopyPlaces, time: Duration) -> Result<f64> {
    let block = CopyBuffer::new(SMALL.bytes as usize);
    let (start, mut spent, mut barriers) = (Instant::now(), Duration::ZERO, 0);
    while start.elapsed() < time || barriers == 0 {
        (0..writes).try_for_each(|_| disk.write(places.next(), block.bytes(), Access::Cached))?;
        let begun = Instant::now();
        disk.flush()?;
        spent += begun.elapsed();
        barriers += 1;
    }
    Ok(spent.as_secs_f64() * 1e6 / f64::from(barriers))
}
