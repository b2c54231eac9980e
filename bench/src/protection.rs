//! What protection costs (pmbd.txt, figures 3 and 8): guards beside the bare copy, whole sectors beside a bare
//! copy-on-write, the served disk beside other servers, and how soon a killed one is back.
//!
//! "Bare" is the same copy routine and the same fence on an unguarded mapping of the same file.

use crate::Result;
use crate::machine::Machine;
use crate::options::{Length, OnProgress, Options, Steps};
use crate::report::{Claim, Report};

mod atomic;
mod copies;
pub mod load;
mod recovery;
mod served;
pub mod stage;
mod verdict;

/// How large and how long everything is.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Bytes of the disk whose copies are timed.
    disk_bytes: u64,
    /// Milliseconds of a slice of copies by one thread: shorter than what the scheduler gives to others, so that most
    /// slices are whole or lost, and a median sees the whole ones. By many threads, which need turns, 20 times as long.
    slice_ms: u64,
    /// Rounds of copies by one thread; by many threads a fifth.
    rounds: usize,
    /// Bytes that each server serves.
    served_bytes: u64,
    /// Milliseconds of a slice of requests to a server.
    served_slice_ms: u64,
    /// Rounds of requests to servers.
    served_rounds: usize,
    /// Bytes of the pool that is killed and recovered.
    killed_bytes: u64,
    /// How often.
    kills: usize,
}

impl Scale {
    fn of(length: Length) -> Self {
        let full = Self {
            disk_bytes: 896 << 20,
            slice_ms: 1,
            rounds: 301,
            served_bytes: 512 << 20,
            served_slice_ms: 20,
            served_rounds: 150,
            killed_bytes: 1 << 30,
            kills: 11,
        };
        match length {
            Length::Full => full,
            Length::Quick => Self {
                disk_bytes: 384 << 20,
                rounds: 91,
                served_bytes: 256 << 20,
                served_slice_ms: 15,
                served_rounds: 25,
                kills: 3,
                ..full
            },
            Length::Smoke => Self {
                disk_bytes: 4 << 20,
                slice_ms: 1,
                rounds: 1,
                served_bytes: 4 << 20,
                served_slice_ms: 1,
                served_rounds: 1,
                killed_bytes: 32 << 20,
                kills: 1,
            },
        }
    }

    /// Milliseconds of measuring, about.
    fn total_ms(&self) -> u64 {
        copies::total_ms(self) + atomic::total_ms(self) + served::total_ms(self) + recovery::total_ms(self)
    }
}

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let (machine, scale) = (Machine::here(), Scale::of(options.length));
    let mut steps = Steps::new(scale.total_ms(), on_progress);
    let mut report = Report {
        experiment: "protection",
        machine,
        rows: Vec::new(),
        paper: PAPER.to_vec(),
        verdict: String::new(),
        charts: Vec::new(),
    };
    copies::measure(options, &scale, &mut steps, &mut report)?;
    atomic::measure(options, &scale, &mut steps, &mut report)?;
    served::measure(options, &scale, &mut steps, &mut report)?;
    recovery::measure(options, &scale, &mut steps, &mut report)?;
    let verdict = verdict::of(&report);
    Ok(report.end(verdict))
}

const PAPER: [Claim; 4] = [
    Claim {
        place: "figure 3",
        what: "writes, naive page table beside no protection: 808 MB/s, 14.8 GB/s",
        ratio: 0.054,
    },
    Claim { place: "figure 8", what: "WR SEQ 256K Q32, private mapping beside no protection", ratio: 0.90 },
    Claim { place: "figure 8", what: "RD SEQ 256K Q32, private mapping beside no protection", ratio: 0.85 },
    Claim { place: "figure 11", what: "whole driver beside no protection with write-back: 75 to 85 %", ratio: 0.80 },
];
