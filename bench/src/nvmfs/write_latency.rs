//! Durable writes of one page by one thread while segments are written to the SSD, beside writes while none is.

use super::tier_plan::{LoadKind, TierPlan};
use super::tier_subject::{SubjectKind, SubjectSize, TierSubject};
use crate::Result;
use crate::file_subject::mounting;
use crate::records::{FileOrder, PAGE_BYTES, PageLoad, PageMeasure};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The case.
pub const CASE: &str = "p99 of a durable write";
/// Writes of a large file, of which memory holds a part.
pub const DESTAGING: &str = "destaging";
/// Writes of what memory holds.
const AT_REST: &str = "at rest";
const ROUNDS: usize = 9;
/// Milliseconds that a slice is expected to take.
const SLICE_MS: u64 = 300;

/// Runs the case if the options ask for it.
pub fn measure(session: &mut BenchSession<'_>, plan: &TierPlan) -> Result<()> {
    if session.wanted([CASE], |case| *case).is_empty() {
        return Ok(());
    }
    let Ok(ferrite) = mounting(session) else { return Ok(()) };
    session.announce(CASE)?;
    let loads = plan.loads();
    let large = loads.iter().find_map(|one| match one.kind {
        LoadKind::Pages { load, file_bytes } if load.window_bytes == file_bytes => Some((one, load, file_bytes)),
        _ => None,
    });
    let Some((one, load, file_bytes)) = large else { return Ok(()) };
    let size = SubjectSize { memory_bytes: plan.memory_bytes, ssd_bytes: one.ssd_bytes(plan.live_percents[0]) };
    let subject = TierSubject::new(SubjectKind::Run, size, ferrite, &session.options.place)?;
    subject.order(&FileOrder::Prepare { files: 1, file_bytes })?;
    let p99 = |window_bytes: u64, seed| {
        let (requests, answer) = ((plan.memory_bytes / PAGE_BYTES / 4).min(load.requests), PageMeasure::P99);
        subject.order(&FileOrder::Pages(PageLoad { window_bytes, requests, answer, seed, ..load }))
    };
    let hot = plan.memory_bytes / 8;
    let subjects = vec![
        BenchSubject::new(AT_REST, |slice| {
            // The first pass brings the pages in; behind the drain no segment is wanted.
            p99(hot, slice)?;
            subject.drain()?;
            p99(hot, slice)
        }),
        BenchSubject::new(DESTAGING, |slice| p99(file_bytes, slice)),
    ];
    let race = Race { case: CASE, unit: "us", rounds: ROUNDS, slice_ms: SLICE_MS, beside: AT_REST };
    session.race(&race, subjects).map(drop)
}
