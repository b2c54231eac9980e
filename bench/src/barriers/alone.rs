//! Barriers alone, after some writes and after none (table III).

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk};

use super::SMALL;
use crate::Result;
use crate::copy_buffer::CopyBuffer;
use crate::copy_plan::CopyPlan;
use crate::protection::copy_load::CopyPlaces;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The cases, and the writes before each barrier.
pub const CASES: [(&str, u64); 2] = [("a barrier after no write", 0), ("a barrier after 64 writes of 4K", 64)];

/// Measures `cases` of barriers on `disks`, each beside the first.
pub fn measure(
    session: &mut BenchSession<'_>,
    cases: &[(&str, u64)],
    disks: &[(String, Arc<dyn Disk>)],
    plan: &CopyPlan,
) -> Result<()> {
    let time = Duration::from_millis(plan.slice_ms);
    for &(case, writes) in cases {
        let subject = |(name, disk): &(String, Arc<dyn Disk>)| {
            let (disk, size) = (Arc::clone(disk), plan.size);
            let slice = move |seed| barrier_us(&*disk, writes, &mut CopyPlaces::new(&SMALL, size, seed), time);
            BenchSubject::new(name.clone(), slice)
        };
        let race = Race { case, unit: "us", rounds: plan.rounds, slice_ms: plan.slice_ms, beside: "" };
        session.race(&race, disks.iter().map(subject).collect())?;
    }
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
