//! Clients that each have one request in flight, in one thread on a clock that jumps to the next event of any drive.
//!
//! Every read is compared with the versions that its block may have, so a run also shows that nothing is lost.

use std::sync::Arc;

use ferrite_cache::Cache;
use ferrite_disk::{Access, Completion, Disk, Op, Queue, Request, Wait};
use ferrite_memory::Span;

use super::drive_set::DriveSet;
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::cache_stage::REQUEST_BYTES;
use crate::pattern_disk::{fill_with, word_of};
use crate::zipf_blocks::ZipfBlocks;

/// Clients.
pub const CLIENTS: usize = 4;
/// The time from a completion to the client's next request: a system call and the program's own work.
const THINK_NS: u64 = 10_000;

/// The load of all clients.
pub struct LoopLoad {
    /// Draws the blocks.
    pub blocks: ZipfBlocks,
    /// Reads of each thousand requests.
    pub reads_permille: u64,
}

/// The counts of requests that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Reads with another content than any that the block may have.
    pub wrong: u64,
}

/// A client.
struct LoopClient {
    queue: Box<dyn Queue>,
    /// When the next request is due; `None` while one is in flight.
    ready_ns: Option<u64>,
    submitted_ns: u64,
    buffer: Vec<u8>,
    block: u32,
    is_write: bool,
    /// The oldest version that a read may return.
    oldest: u32,
}

/// The versions of a block: how many writes of it were begun, and how many have ended.
#[derive(Clone, Copy, Default)]
struct BlockVersion {
    begun: u32,
    ended: u32,
}

/// The clients, and what they work on.
pub struct ClosedLoop<'a> {
    drives: &'a DriveSet,
    cache: Option<Arc<Cache>>,
    load: LoopLoad,
    clients: Vec<LoopClient>,
    versions: Vec<BlockVersion>,
    random: BenchRandom,
    counts: LoopCounts,
    /// The nanoseconds of each request that has ended, while they are wanted.
    latencies_ns: Option<Vec<f64>>,
    /// When the cache's worker is due.
    worker_ns: u64,
}

/// Returns the word of a version of a block. Version 0 is the disk's, of zeros.
fn word(block: u32, version: u32) -> u64 {
    if version == 0 { 0 } else { u64::from(block) << 32 | u64::from(version) }
}

impl<'a> ClosedLoop<'a> {
    /// Clients of `disk`, which is behind `cache` if there is one.
    pub fn new(
        drives: &'a DriveSet,
        cache: Option<Arc<Cache>>,
        disk: &dyn Disk,
        load: LoopLoad,
        seed: u64,
    ) -> Result<Self> {
        let client = |number: u64| -> Result<LoopClient> {
            Ok(LoopClient {
                queue: disk.queue()?.expect("a simulated drive and a cached disk have queues"),
                ready_ns: Some(drives.now_ns() + number),
                submitted_ns: 0,
                buffer: vec![0; REQUEST_BYTES as usize],
                block: 0,
                is_write: false,
                oldest: 0,
            })
        };
        Ok(Self {
            drives,
            cache,
            load,
            clients: (0..CLIENTS as u64).map(client).collect::<Result<_>>()?,
            versions: vec![BlockVersion::default(); (disk.geometry().size / REQUEST_BYTES) as usize],
            random: BenchRandom::new(seed),
            counts: LoopCounts::default(),
            latencies_ns: None,
            worker_ns: 0,
        })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> LoopCounts {
        self.counts
    }

    /// Runs until `requests` more requests have ended.
    pub fn run(&mut self, requests: u64) -> Result<()> {
        let goal = self.ended() + requests;
        self.run_until(|of| of.ended() >= goal)
    }

    /// Runs until the clock shows `until_ns`.
    pub fn run_until_ns(&mut self, until_ns: u64) -> Result<()> {
        self.run_until(|of| of.drives.now_ns() >= until_ns)
    }

    /// Runs until `least` more requests have ended, then while `continues` returns true, up to `most` requests. Returns the
    /// nanoseconds of each request that ended.
    pub fn latencies_ns(&mut self, [least, most]: [u64; 2], continues: impl Fn() -> bool) -> Result<Vec<f64>> {
        let begun = self.ended();
        self.latencies_ns = Some(Vec::new());
        self.run_until(|of| of.ended() >= begun + most || (of.ended() >= begun + least && !continues()))?;
        Ok(self.latencies_ns.take().unwrap_or_default())
    }

    fn ended(&self) -> u64 {
        self.counts.reads + self.counts.writes
    }

    fn run_until(&mut self, is_over: impl Fn(&Self) -> bool) -> Result<()> {
        let mut completions = Vec::new();
        while !is_over(self) {
            for number in 0..self.clients.len() {
                self.clients[number].queue.collect(Wait::No, &mut completions)?;
                for completion in completions.drain(..) {
                    self.end(number, completion);
                }
                self.submit_if_due(number);
            }
            self.work()?;
            let ready = self.clients.iter().filter_map(|client| client.ready_ns);
            self.drives.advance(ready.fold(self.worker_ns, u64::min));
        }
        Ok(())
    }

    /// Lets the cache's worker do what can be done now.
    fn work(&mut self) -> Result<()> {
        let rest_ns = match &self.cache {
            Some(cache) => cache.step()?.as_nanos() as u64,
            None => 1_000_000_000,
        };
        self.worker_ns = self.drives.now_ns() + rest_ns.max(1);
        Ok(())
    }

    fn submit_if_due(&mut self, number: usize) {
        let now_ns = self.drives.now_ns();
        if self.clients[number].ready_ns.is_none_or(|ready_ns| ready_ns > now_ns) {
            return;
        }
        let is_write = self.random.below(1000) >= self.load.reads_permille;
        let mut block = self.load.blocks.draw(&mut self.random);
        // Two writes of one block at once have no order, so that no read could be judged.
        while is_write && self.is_being_written(block) {
            block = self.load.blocks.draw(&mut self.random);
        }
        let version = &mut self.versions[block as usize];
        let client = &mut self.clients[number];
        let mut buffer = std::mem::take(&mut client.buffer);
        (client.ready_ns, client.block, client.is_write, client.oldest) = (None, block, is_write, version.ended);
        client.submitted_ns = now_ns;
        let op = if is_write {
            version.begun += 1;
            fill_with(&mut buffer, word(block, version.begun));
            Op::Write(Access::Cached)
        } else {
            Op::Read
        };
        let span = Span::new(u64::from(block) * REQUEST_BYTES, REQUEST_BYTES);
        if let Some(completion) = client.queue.submit(Request { token: 0, op, span, buffer }) {
            self.end(number, completion);
        }
    }

    fn is_being_written(&self, block: u32) -> bool {
        self.clients.iter().any(|client| client.ready_ns.is_none() && client.is_write && client.block == block)
    }

    /// Counts a request of client `number` that has ended, and plans the next one.
    fn end(&mut self, number: usize, completion: Completion) {
        let client = &mut self.clients[number];
        let version = &mut self.versions[client.block as usize];
        let is_good = completion.result.is_ok();
        self.counts.failed += u64::from(!is_good);
        if client.is_write {
            self.counts.writes += 1;
            // A write that failed may have happened or not.
            version.ended = if is_good { version.begun } else { version.ended };
        } else {
            self.counts.reads += 1;
            let possible = (client.oldest..=version.begun).map(|version| word(client.block, version));
            let read = word_of(&completion.buffer);
            let is_wrong = is_good && !possible.into_iter().any(|word| Some(word) == read);
            self.counts.wrong += u64::from(is_wrong);
        }
        client.buffer = completion.buffer;
        client.buffer.resize(REQUEST_BYTES as usize, 0);
        let now_ns = self.drives.now_ns();
        client.ready_ns = Some(now_ns + THINK_NS);
        if let Some(latencies_ns) = &mut self.latencies_ns {
            latencies_ns.push((now_ns - client.submitted_ns) as f64);
        }
    }
}
