//! What whole sectors cost: the default disk, which writes to free space and then changes the map, beside the least
//! that a copy-on-write can be: two non-temporal stores, each with a fence.

use std::cell::RefCell;
use std::time::Duration;

use ferrite_memory::Guard;

use super::Scale;
use super::copies::{BARE, KEYED, beside_keyed};
use super::load::{Load, Slice, Target};
use super::stage::Stage;
use crate::Result;
use crate::bare::Bare;
use crate::buffer::Buffer;
use crate::options::{Options, Steps};
use crate::report::{Report, rows};
use crate::rounds::{self, Subject};

/// The cases.
pub const CASES: [&str; 2] = ["WR RND 4K whole sectors", "WR RND 256K whole sectors"];
const SIZES: [u64; 2] = [4 << 10, 256 << 10];

/// Data that is written to one place and named by a word in another.
struct BareCopyOnWrite<'a> {
    bare: &'a Bare,
    /// Where the words lie, behind the data.
    words_at: u64,
}

impl Target for BareCopyOnWrite<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.bare.read(at, into);
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        self.bare.write(at, from);
        let words = from.len() / 4096;
        self.bare.write(self.words_at + at / 4096 * 8, &from[..words * 8]);
        Ok(())
    }
}

/// Milliseconds it takes, about.
pub fn total_ms(scale: &Scale) -> u64 {
    SIZES.len() as u64 * 4 * (scale.rounds as u64 + 1) * scale.slice_ms
}

/// Measures it.
pub fn measure(options: &Options, scale: &Scale, steps: &mut Steps<'_>, report: &mut Report) -> Result<()> {
    if !CASES.iter().any(|case| options.wants(case)) {
        return Ok(());
    }
    steps.step("filling disks", 0)?;
    let disk_bytes = scale.disk_bytes / 2;
    let stages = (0..3).map(|_| Stage::build(&options.place, disk_bytes)).collect::<Result<Vec<_>>>()?;
    let (bare, size) = (stages[0].bare(Guard::None)?, stages[0].size());
    let bare = BareCopyOnWrite { bare: &bare, words_at: size };
    let best = Guard::best();
    let keyed = (best == Guard::Keys).then(|| stages[0].bare(best)).transpose()?;
    let keyed = keyed.as_ref().map(|keyed| BareCopyOnWrite { bare: keyed, words_at: size });
    let guarded = stages[1].disk(best, false)?;
    let open = stages[2].disk(Guard::None, false)?;
    for (case, bytes) in CASES.into_iter().zip(SIZES).filter(|(case, _)| options.wants(case)) {
        let load = Load { writes: true, random: true, bytes, depth: 1 };
        let buffers = RefCell::new([Buffer::new(bytes as usize)]);
        let time = Duration::from_millis(scale.slice_ms);
        let slice = |seed| Slice { load: &load, size, time, seed };
        let latency_ns = |requests: f64| 1e9 / requests;
        let mut subjects = vec![
            Subject::new(BARE, |seed| slice(seed).run(&bare, &mut *buffers.borrow_mut()).map(latency_ns)),
            Subject::new(best.name(), |seed| slice(seed).run(&*guarded, &mut *buffers.borrow_mut()).map(latency_ns)),
            Subject::new("none", |seed| slice(seed).run(&*open, &mut *buffers.borrow_mut()).map(latency_ns)),
        ];
        if let Some(keyed) = &keyed {
            let run = |seed| slice(seed).run(keyed, &mut *buffers.borrow_mut()).map(latency_ns);
            subjects.push(Subject::new(KEYED, run));
        }
        let series = rounds::run(&mut subjects, scale.rounds, &mut || steps.step(case, scale.slice_ms))?;
        report.rows.extend(rows(case, "ns", &series, &series[0]));
        report.rows.extend(beside_keyed(case, "ns", &series));
    }
    Ok(())
}
