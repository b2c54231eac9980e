//! The subjects of the experiment, and one measured run of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_cache::{Cache, CacheMode, CachePolicy, CacheSettings, CopyRule};
use ferrite_disk::{Disk, DiskStats};
use ferrite_memory::{Memory, Scheme};

use super::closed_loop::{ClosedLoop, LoopCounts, LoopLoad};
use super::drive_set::{DriveSet, DriveStats};
use crate::cache_stage::{CacheStage, NAME, REQUEST_BYTES, ssd_bytes};
use crate::mirror_disk::MirrorDisk;
use crate::zipf_blocks::ZipfBlocks;
use crate::{Error, Result};

/// A kind of cache before the hard disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Dirty pages on two SSDs, and our policy.
    Ferrite,
    /// Dirty pages on two SSDs, and the paper's policy.
    Paper,
    /// The same cache on one SSD that is a mirror of both.
    Raid1,
    /// Every page on one SSD.
    Raid0,
    /// The hard disk alone.
    None,
}

impl CacheKind {
    /// Every kind, with its name in reports.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ferrite", Self::Ferrite),
        ("the paper's policy", Self::Paper),
        ("RAID-1", Self::Raid1),
        ("RAID-0", Self::Raid0),
        ("no cache", Self::None),
    ];

    /// Returns the settings of a cache of this kind.
    pub fn settings(self) -> CacheSettings {
        let (copies, policy) = match self {
            Self::Ferrite => (CopyRule::Dirty, CachePolicy::Ferrite),
            Self::Paper => (CopyRule::Dirty, CachePolicy::Paper),
            Self::Raid1 | Self::Raid0 | Self::None => (CopyRule::One, CachePolicy::Ferrite),
        };
        CacheSettings { mode: CacheMode::WriteBack, copies, policy, ..CacheSettings::default() }
    }

    /// Makes the cache before `drives`, or none.
    pub fn open(self, drives: &DriveSet, sizes: &SimSizes) -> Result<Option<Arc<Cache>>> {
        let ssds: Vec<Arc<dyn Disk>> = match self {
            Self::None => return Ok(None),
            Self::Raid1 => vec![Arc::new(MirrorDisk::new(drives.ssd(0), drives.ssd(1)))],
            Self::Ferrite | Self::Paper | Self::Raid0 => vec![drives.ssd(0), drives.ssd(1)],
        };
        let stage = CacheStage {
            ssds,
            disk: drives.hdd.clone(),
            clock: drives.clock.clone(),
            leb_bytes: sizes.leb_bytes,
            buffer_bytes: sizes.buffer_bytes,
            settings: self.settings(),
            scheme: Scheme::Nt,
        };
        let memory: Arc<dyn Memory> = Arc::new(stage.memory()?);
        stage.create(&memory)?;
        stage.open(&memory).map(Some)
    }
}

/// The sizes of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct SimSizes {
    /// Bytes of the file on the hard disk.
    pub file_bytes: u64,
    /// Bytes of a LEB.
    pub leb_bytes: u64,
    /// Bytes of the cache's buffers.
    pub buffer_bytes: u64,
    /// Windows of a warm-up, at least and at most. A window has as many requests as the file has blocks.
    pub warm_windows: [usize; 2],
}

impl SimSizes {
    /// Returns the blocks of the file.
    pub fn blocks(&self) -> u64 {
        self.file_bytes / REQUEST_BYTES
    }
}

/// A case: a load, and the size of both SSDs together beside the file's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiCase {
    /// Reads of each thousand requests.
    pub reads_permille: u64,
    /// The skew of the load.
    pub theta: f64,
    /// Bytes of both SSDs, in per cent of the file.
    pub flash_percent: u64,
}

impl MultiCase {
    /// The name of the case in reports.
    pub fn name(&self) -> String {
        let mix = if self.reads_permille == 500 { "1:1" } else { "9:1" };
        format!("{mix}, zipf {}, flash {} %", self.theta, self.flash_percent)
    }

    /// Returns the bytes of one of the two SSDs.
    pub fn ssd_bytes(&self, sizes: &SimSizes) -> u64 {
        ssd_bytes(sizes.file_bytes * self.flash_percent / 200, sizes.leb_bytes)
    }

    /// Returns the load.
    pub fn load(&self, sizes: &SimSizes) -> LoopLoad {
        let blocks = ZipfBlocks::new(sizes.blocks() as u32, self.theta, 11);
        LoopLoad { blocks, reads_permille: self.reads_permille }
    }
}

/// What a run measured after its warm-up.
#[derive(Clone, Debug)]
pub struct MultiFigures {
    /// Requests a second.
    pub rate: f64,
    /// The part of the reads that did not read the hard disk.
    pub hit_ratio: f64,
    /// Bytes written to the SSDs for each byte that the clients read or wrote.
    pub ssd_bytes_per_byte: f64,
    /// LEBs written to each SSD.
    pub inserts: Vec<u64>,
    /// Requests to the hard disk for each thousand requests of clients.
    pub hdd_requests: f64,
}

impl MultiFigures {
    /// Returns the figures of `ns` nanoseconds, between two counts of the drives, with so many reads and writes of clients.
    pub fn between(before: &DriveStats, after: &DriveStats, [reads, writes]: [u64; 2], ns: u64) -> Self {
        let grown = |of: fn(&DiskStats) -> u64, after: &DiskStats, before: &DiskStats| (of(after) - of(before)) as f64;
        let hdd = |of: fn(&DiskStats) -> u64| grown(of, &after.hdd, &before.hdd);
        let ssds = || after.ssds.iter().zip(&before.ssds);
        let written: f64 = ssds().map(|(after, before)| grown(|stats| stats.written_bytes, after, before)).sum();
        Self {
            rate: (reads + writes) as f64 * 1e9 / ns as f64,
            hit_ratio: 1.0 - hdd(|stats| stats.reads) / reads.max(1) as f64,
            ssd_bytes_per_byte: written / ((reads + writes) * REQUEST_BYTES) as f64,
            inserts: ssds().map(|(after, before)| after.writes - before.writes).collect(),
            hdd_requests: 1000.0 * hdd(|stats| stats.reads + stats.writes) / (reads + writes) as f64,
        }
    }
}

/// The hit ratios of two windows that differ by less count as equal.
const STEADY: f64 = 0.003;

/// A run, and the state in which its last window began.
struct MultiRun<'a> {
    drives: &'a DriveSet,
    clients: ClosedLoop<'a>,
    begun: (LoopCounts, DriveStats, u64),
}

impl MultiRun<'_> {
    fn window(&mut self, requests: u64) -> Result<MultiFigures> {
        self.begun = (self.clients.counts(), self.drives.stats(), self.drives.now_ns());
        self.clients.run(requests)?;
        let (counts, drives) = (self.clients.counts(), self.drives.stats());
        let (counts_before, drives_before, before_ns) = &self.begun;
        if counts.failed + counts.wrong > 0 {
            let what = format!("{} requests failed and {} gave wrong data", counts.failed, counts.wrong);
            return Err(Error::server("the cache", what));
        }
        let requests = [counts.reads - counts_before.reads, counts.writes - counts_before.writes];
        Ok(MultiFigures::between(drives_before, &drives, requests, self.drives.now_ns() - before_ns))
    }
}

/// Runs `kind` under `case` until its hit ratio is steady, then measures. `is_over` ends it early.
pub fn measure(kind: CacheKind, case: &MultiCase, sizes: &SimSizes, is_over: &AtomicBool) -> Result<MultiFigures> {
    let drives = DriveSet::new(sizes.file_bytes, 2, case.ssd_bytes(sizes));
    let cache = kind.open(&drives, sizes)?;
    let disk: Arc<dyn Disk> = match &cache {
        Some(cache) => cache.disk(NAME)?,
        None => drives.hdd.clone(),
    };
    let clients = ClosedLoop::new(&drives, cache, &*disk, case.load(sizes), 5)?;
    let mut run = MultiRun { drives: &drives, clients, begun: Default::default() };
    let blocks = sizes.blocks();
    let [least, most] = sizes.warm_windows;
    let (mut before, mut steady, mut windows) = (0.0_f64, 0, 0);
    while windows < least || (steady < 2 && windows < most) {
        if is_over.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let ratio = run.window(blocks)?.hit_ratio;
        steady = if (ratio - before).abs() < STEADY { steady + 1 } else { 0 };
        (before, windows) = (ratio, windows + 1);
        if kind == CacheKind::None {
            break;
        }
    }
    run.window(blocks)
}
