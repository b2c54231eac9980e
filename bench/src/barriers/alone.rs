//! Barriers alone, after some writes and after none (table III).

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk};

use super::SMALL;
use crate::Result;
use crate::buffer::Buffer;
use crate::micro::Plan;
use crate::options::Options;
use crate::protection::load::Places;
use crate::report::{Measure, rows};
use crate::rounds::{self, Subject};
use crate::session::Session;

/// The cases, and the writes before each barrier.
pub const CASES: [(&str, u64); 2] = [("a barrier after no write", 0), ("a barrier after 64 writes of 4K", 64)];

/// Whether any of it is.
pub fn is_wanted(options: &Options) -> bool {
    CASES.iter().any(|(case, _)| options.wants(case))
}

/// Milliseconds it takes, about.
pub fn total_ms(plan: &Plan) -> u64 {
    (plan.rounds as u64 + 1) * plan.slice_ms * 4 * CASES.len() as u64
}

/// Measures it on `disks`, each beside the first.
pub fn measure(session: &mut Session<'_>, disks: &[(String, Arc<dyn Disk>)], plan: &Plan) -> Result<()> {
    let mut measured = Vec::new();
    for (case, writes) in CASES.into_iter().filter(|(case, _)| session.options.wants(case)) {
        let time = Duration::from_millis(plan.slice_ms);
        let slice = |disk: &dyn Disk, seed| barrier_us(disk, writes, &mut Places::new(&SMALL, plan.size, seed), time);
        let mut subjects: Vec<Subject<'_>> =
            disks.iter().map(|(name, disk)| Subject::new(name.clone(), |seed| slice(&**disk, seed))).collect();
        let steps = &mut session.steps;
        let series = rounds::run(&mut subjects, plan.rounds, &mut || steps.step(case, plan.slice_ms))?;
        session.report.rows.extend(rows(case, "us", &series, &series[0]));
        measured.push(case.to_owned());
    }
    session.chart("Barriers alone, by scheme (table III)", Measure::Value, measured);
    Ok(())
}

/// Microseconds of a barrier, the mean of as many as `time` holds. What reads the clock is in it: some 20 ns.
fn barrier_us(disk: &dyn Disk, writes: u64, places: &mut Places, time: Duration) -> Result<f64> {
    let block = Buffer::new(SMALL.bytes as usize);
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
