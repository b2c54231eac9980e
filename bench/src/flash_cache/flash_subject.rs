//! A cache under one scheme, and a slice of requests of all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferrite_cache::{Cache, CacheMode, CachePolicy, CacheSettings, CachedDisk, CopyRule};
use ferrite_disk::{Access, Disk, HddDisk, HddProfile, RamDisk, SsdDisk, SsdProfile};
use ferrite_disk_address::HostClock;
use ferrite_memory::{Memory, Scheme};

use super::logged_index::LoggedIndex;
use super::{FlashCase, FlashPlan, FlashScheme};
use crate::bench_random::BenchRandom;
use crate::cache_stage::{CacheStage, NAME, REQUEST_BYTES, ssd_bytes};
use crate::pattern_disk::{fill_with, word_of};
use crate::scratch::Scratch;
use crate::unflushed_memory::UnflushedMemory;
use crate::zipf_blocks::ZipfBlocks;
use crate::{Error, Result};

/// Client threads.
const THREADS: u64 = 8;
/// Times as fast as the drives of the profiles the simulated drives are.
pub const SPEEDUP: u64 = 20;
/// The longest rest of the cache's worker, and so the time that it may need to end.
const REST: Duration = Duration::from_millis(5);

/// A cache, and how it is used.
pub struct FlashSubject {
    cache: Arc<Cache>,
    disk: Arc<CachedDisk>,
    index: Option<LoggedIndex>,
    blocks: Arc<ZipfBlocks>,
}

/// The drives of a cache: the SSDs, then the disk.
type Drives = Vec<Arc<dyn Disk>>;

/// Returns `inner` as drives of the profiles, with every time divided by [`SPEEDUP`].
fn simulated(inner: &[Arc<dyn Disk>], clock: HostClock) -> Drives {
    let ssd = SsdProfile::sata();
    let ssd = SsdProfile {
        read_ns: ssd.read_ns / SPEEDUP,
        program_ns: ssd.program_ns / SPEEDUP,
        command_ns: ssd.command_ns / SPEEDUP,
        link_bytes_per_s: ssd.link_bytes_per_s * SPEEDUP,
        flush_ns: ssd.flush_ns / SPEEDUP,
        ..ssd
    };
    let (disk, ssds) = inner.split_last().expect("a cache has a disk");
    let hdd = HddProfile::rpm_7200().with_capacity(disk.geometry().size * 5 / 2);
    let hdd = HddProfile {
        rpm: hdd.rpm * SPEEDUP as u32,
        outer_bytes_per_s: hdd.outer_bytes_per_s * SPEEDUP,
        inner_bytes_per_s: hdd.inner_bytes_per_s * SPEEDUP,
        track_seek_ns: hdd.track_seek_ns / SPEEDUP,
        average_seek_ns: hdd.average_seek_ns / SPEEDUP,
        full_seek_ns: hdd.full_seek_ns / SPEEDUP,
        write_settle_ns: hdd.write_settle_ns / SPEEDUP,
        command_ns: hdd.command_ns / SPEEDUP,
        link_bytes_per_s: hdd.link_bytes_per_s * SPEEDUP,
        ..hdd
    };
    let of_ssd = |(seed, disk): (u64, &Arc<dyn Disk>)| {
        Arc::new(SsdDisk::new(Arc::clone(disk), &ssd, clock, seed)) as Arc<dyn Disk>
    };
    let disk = Arc::new(HddDisk::new(Arc::clone(disk), &hdd, clock, 1));
    (2..).zip(ssds).map(of_ssd).chain([disk as Arc<dyn Disk>]).collect()
}

fn stage(drives: &[Arc<dyn Disk>], clock: HostClock, scheme: Scheme, plan: &FlashPlan) -> CacheStage {
    let (disk, ssds) = drives.split_last().expect("a cache has a disk");
    let copies = if ssds.len() > 1 { CopyRule::Dirty } else { CopyRule::One };
    let (mode, policy) = (CacheMode::WriteBack, CachePolicy::Ferrite);
    CacheStage {
        ssds: ssds.to_vec(),
        disk: Arc::clone(disk),
        clock: Arc::new(clock),
        leb_bytes: plan.leb_bytes,
        buffer_bytes: plan.flash_bytes / 8,
        settings: CacheSettings { mode, copies, policy, ..CacheSettings::default() },
        scheme,
    }
}

impl FlashSubject {
    /// A cache for `case` under `scheme`, whose flash is full.
    pub fn new(scheme: FlashScheme, case: &FlashCase, plan: &FlashPlan, scratch: Option<Scratch>) -> Result<Self> {
        let file_bytes = plan.flash_bytes * 4;
        let ssd = || Arc::new(RamDisk::new(ssd_bytes(plan.flash_bytes / case.ssds, plan.leb_bytes))) as Arc<dyn Disk>;
        let ssds = (0..case.ssds).map(|_| ssd());
        let rams: Drives = ssds.chain([Arc::new(RamDisk::new(file_bytes)) as Arc<dyn Disk>]).collect();
        let clock = HostClock::new();
        let first = stage(&rams, clock, scheme.stores(), plan);
        let memory = first.memory()?;
        let memory: Arc<dyn Memory> = match scheme {
            FlashScheme::Base => Arc::new(UnflushedMemory(memory)),
            _ => Arc::new(memory),
        };
        first.create(&memory)?;
        let blocks = Arc::new(ZipfBlocks::new((file_bytes / REQUEST_BYTES) as u32, case.theta, 11));
        let index = scratch.map(LoggedIndex::new).transpose()?;
        let cache = first.open(&memory)?;
        let filled = Self { disk: cache.disk(NAME)?, cache, index, blocks };
        // The content comes by RAM disks, because simulated drives would need minutes for it.
        filled.run(1, file_bytes / REQUEST_BYTES * 2)?;
        if !case.is_simulated {
            return Ok(filled);
        }
        let Self { index, blocks, .. } = filled;
        let cache = stage(&simulated(&rams, clock), clock, scheme.stores(), plan).open(&memory)?;
        Ok(Self { disk: cache.disk(NAME)?, cache, index, blocks })
    }

    /// Runs `requests` requests of all threads. Returns how many ended in a second.
    pub fn run(&self, seed: u64, requests: u64) -> Result<f64> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let worker = scope.spawn(|| self.work(&is_over));
            let start = Instant::now();
            let clients = (0..THREADS)
                .map(|client| scope.spawn(move || self.client(seed * THREADS + client, requests / THREADS)));
            let clients: Vec<_> = clients.collect();
            let ended = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
            let ended = ended.collect::<Vec<_>>().into_iter().collect::<Result<()>>();
            let seconds = start.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            worker.join().expect("the worker does not panic")?;
            ended.map(|()| requests as f64 / seconds)
        })
    }

    /// Does the cache's background work.
    fn work(&self, is_over: &AtomicBool) -> Result<()> {
        while !is_over.load(Ordering::Relaxed) {
            let rest = self.cache.step()?;
            self.cache.rest(rest.min(REST));
        }
        Ok(())
    }

    /// Does `requests` requests, reads and writes in equal parts.
    fn client(&self, seed: u64, requests: u64) -> Result<()> {
        let mut random = BenchRandom::new(seed);
        let mut buffer = vec![0; REQUEST_BYTES as usize];
        for _ in 0..requests {
            let block = u64::from(self.blocks.draw(&mut random));
            if random.below(2) == 0 {
                fill_with(&mut buffer, block << 32 | 1);
                self.disk.write(block * REQUEST_BYTES, &buffer, Access::Cached)?;
                if let Some(index) = &self.index {
                    index.note_write(block)?;
                }
                continue;
            }
            self.disk.read(block * REQUEST_BYTES, &mut buffer)?;
            let is_good = word_of(&buffer).is_some_and(|word| word == 0 || word == block << 32 | 1);
            if !is_good {
                return Err(Error::server("the cache", format!("block {block} has wrong content")));
            }
        }
        Ok(())
    }
}
