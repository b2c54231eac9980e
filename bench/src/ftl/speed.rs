//! How fast drives of the paper's size are simulated.

use std::time::Instant;

use ferrite_sim::ftl::{DriveSpec, FlashShape, FlashTiming, HostPage};

use super::{LIKE, OVER_PROVISION_PERCENT, SCHEMES};
use crate::Result;
use crate::options::{Length, Options};
use crate::random::Random;
use crate::report::rows;
use crate::rounds::{self, Subject};
use crate::session::Session;

/// The paper's.
const DRIVE_BYTES: u64 = 24 << 30;
/// What the report calls it.
pub(super) const CASE: &str = "simulation of random writes, 24 GiB in use";
const UNIT: &str = "M/s";
/// Writes that a drive may expect, as in a replay.
const FORESEEN: usize = 8;
/// Milliseconds that a slice is reckoned to take.
const SLICE_MS: u64 = 500;

fn rounds(length: Length) -> usize {
    match length {
        Length::Full => 9,
        Length::Quick => 5,
        Length::Smoke => 1,
    }
}

/// Writes of a slice.
fn writes(length: Length) -> u64 {
    if length == Length::Smoke { 100_000 } else { 2_000_000 }
}

pub(super) fn total_ms(options: &Options) -> u64 {
    if options.wants(CASE) { (SCHEMES.len() * (rounds(options.length) + 1)) as u64 * SLICE_MS } else { 0 }
}

/// Million page writes of the host a second, uniformly random on drives all of whose pages are in use: the load that
/// makes both schemes copy most.
pub(super) fn measure(session: &mut Session<'_>) -> Result<()> {
    let (options, length) = (session.options, session.options.length);
    if !options.wants(CASE) {
        return Ok(());
    }
    session.tell("filling drives")?;
    let bytes = if length == Length::Smoke { DRIVE_BYTES / 64 } else { DRIVE_BYTES };
    let shape = FlashShape::of_bytes(bytes, OVER_PROVISION_PERCENT, LIKE)?;
    let mut subjects = Vec::new();
    for (name, scheme) in SCHEMES {
        let mut drive = DriveSpec { scheme, shape, timing: FlashTiming::default() }.build()?;
        drive.prefill()?;
        let (mut random, pages) = (Random::new(42), u64::from(shape.host_pages()));
        let mut slice = move |writes| -> Result<f64> {
            let began = Instant::now();
            for _ in 0..writes / FORESEEN as u64 {
                let next: [_; FORESEEN] = std::array::from_fn(|_| HostPage(random.below(pages) as u32));
                next.into_iter().for_each(|page| drive.foresee(page));
                next.into_iter().try_for_each(|page| drive.write(page))?;
            }
            Ok(writes as f64 / 1e6 / began.elapsed().as_secs_f64())
        };
        // Until what is over-provided has been used up nothing is copied.
        slice(u64::from(shape.extra_blocks * shape.block_pages))?;
        subjects.push(Subject::new(name, move |_| slice(writes(length))));
    }
    let steps = &mut session.steps;
    let series = rounds::run(&mut subjects, rounds(length), &mut || steps.step(CASE, SLICE_MS))?;
    session.report.rows.extend(rows(CASE, UNIT, &series, &series[0]));
    Ok(())
}
