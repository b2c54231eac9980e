//! What whole sectors cost: the default disk, which writes to free space and then changes the map, beside the least
//! that a copy-on-write can be: two non-temporal stores, each with a fence.

use ferrite_memory::Guard;

use super::ProtectionScale;
use super::copies::{BARE, KEYED, beside_keyed};
use super::copy_load::{CopyLoad, CopyTarget};
use super::filled_disk::FilledDisk;
use crate::Result;
use crate::bare_copy::BareCopy;
use crate::copy_plan::{CopyPlan, CopySubject, CopyUnit};
use crate::session::BenchSession;

/// The cases.
pub const CASES: [(&str, CopyLoad); 2] = [
    ("WR RND 4K whole sectors", CopyLoad { writes: true, random: true, bytes: 4 << 10, depth: 1 }),
    ("WR RND 256K whole sectors", CopyLoad { writes: true, random: true, bytes: 256 << 10, depth: 1 }),
];

/// Data that is written to one place, and named by a word in another.
struct BareCopyOnWrite<'a> {
    bare: &'a BareCopy,
    /// Where the words begin, behind the data.
    words_at: u64,
}

impl CopyTarget for BareCopyOnWrite<'_> {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.bare.read(at, into);
        Ok(())
    }

    #[inline]
    fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        self.bare.write(at, from);
        let words = from.len() / 4096;
        self.bare.write(self.words_at + at / 4096 * 8, &from[..words * 8]);
        Ok(())
    }
}

fn plan(scale: &ProtectionScale) -> CopyPlan {
    let (disk_bytes, slice_ms, rounds) = (scale.disk_bytes / 2, scale.slice_ms, scale.rounds);
    CopyPlan { unit: CopyUnit::Latency, disk_bytes, size: 0, slice_ms, many_time: 1, rounds, many_rounds: 1 }
}

/// Measures random writes, each by one thread, of one block and of many.
pub fn measure(session: &mut BenchSession<'_>, scale: &ProtectionScale) -> Result<()> {
    let cases = session.wanted(CASES, |(case, _)| *case);
    if cases.is_empty() {
        return Ok(());
    }
    session.announce("filling disks")?;
    let plan = plan(scale);
    let stages =
        (0..3).map(|_| FilledDisk::build(&session.options.place, plan.disk_bytes)).collect::<Result<Vec<_>>>()?;
    let (bare, words_at) = (stages[0].bare(Guard::None)?, stages[0].size());
    let bare = BareCopyOnWrite { bare: &bare, words_at };
    let best = Guard::best();
    let keyed = (best == Guard::Keys).then(|| stages[0].bare(best)).transpose()?;
    let keyed = keyed.as_ref().map(|bare| BareCopyOnWrite { bare, words_at });
    let (guarded, open) = (stages[1].whole(best)?, stages[2].whole(Guard::None)?);
    let mut copiers =
        vec![CopySubject::new(BARE, &bare), CopySubject::new(best.name(), &*guarded), CopySubject::new("none", &*open)];
    copiers.extend(keyed.iter().map(|keyed| CopySubject::new(KEYED, keyed)));
    for (case, load) in cases {
        let series = CopyPlan { size: words_at, ..plan }.measure(session, case, &load, &copiers)?;
        session.report.rows.extend(beside_keyed(case, "ns", &series));
    }
    Ok(())
}
