//! The speed of simulating drives of the paper's size.

use std::time::Instant;

use ferrite_sim::ftl::{FlashShape, HostPage};

use super::drives::in_use;
use super::{LIKE, OVER_PROVISION_PERCENT, SCHEMES};
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::options::Length;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// Bytes of the paper's drive.
const DRIVE_BYTES: u64 = 24 << 30;
/// The case.
pub(super) const CASE: &str = "simulation of random writes, 24 GiB in use";
/// Writes that a drive may expect, as in a replay.
const FORESEEN: usize = 8;
/// Milliseconds that a slice is expected to take.
const SLICE_MS: u64 = 500;

/// Million page writes of the host a second, uniformly random on drives all of whose pages are in use: the load that
/// makes both schemes copy most.
pub(super) fn measure(session: &mut BenchSession<'_>) -> Result<()> {
    let (options, length) = (session.options, session.options.length);
    if !options.wants(CASE) {
        return Ok(());
    }
    session.announce("filling drives")?;
    let (rounds, writes) = (length.pick([9, 5, 1]), length.pick([2_000_000, 2_000_000, 100_000]));
    let bytes = if length == Length::Smoke { DRIVE_BYTES / 64 } else { DRIVE_BYTES };
    let shape = FlashShape::of_bytes(bytes, OVER_PROVISION_PERCENT, LIKE)?;
    let mut subjects = Vec::new();
    for (name, scheme) in SCHEMES {
        let mut drive = in_use(scheme, bytes)?;
        let (mut random, pages) = (BenchRandom::new(42), u64::from(shape.host_pages()));
        let mut slice = move |writes| -> Result<f64> {
            let began = Instant::now();
            for _ in 0..writes / FORESEEN as u64 {
                let next: [_; FORESEEN] = std::array::from_fn(|_| HostPage(random.below(pages) as u32));
                next.into_iter().for_each(|page| drive.foresee(page));
                next.into_iter().try_for_each(|page| drive.write(page))?;
            }
            Ok(writes as f64 / 1e6 / began.elapsed().as_secs_f64())
        };
        // A drive copies nothing until its over-provided blocks are used up.
        slice(u64::from(shape.extra_blocks * shape.block_pages))?;
        subjects.push(BenchSubject::new(name, move |_| slice(writes)));
    }
    let race = Race { case: CASE, unit: "M/s", rounds, slice_ms: SLICE_MS, beside: "" };
    session.race(&race, subjects).map(drop)
}
