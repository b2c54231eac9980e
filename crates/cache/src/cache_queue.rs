//! A thread's queue to a cached disk.
//!
//! A request is divided into parts: blocks that are copied at once, and requests to members. It completes when all its
//! parts have ended. A request that needs a slot while no buffer is free waits in `parked` and goes on later.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferrite_disk::{Access, Completion, Disk, Op, Queue, ReadyEvent, Request, Wait};
use ferrite_memory::{Error, Result, Span};

use crate::buffer_set::SlotGrant;
use crate::cache_core::CacheCore;
use crate::cache_counters::BypassReason;
use crate::cache_layout::BLOCK;
use crate::cached_disk::CachedDisk;
use crate::member_queues::{Member, MemberEnd, MemberQueues, MemberRequest};
use crate::page_word::{BlockKey, PageRef};
use crate::request_streams::RequestStreams;

/// A client's request.
pub(crate) struct CacheJob {
    pub request: Request,
    pub result: Result<()>,
    /// Parts that have not ended.
    pub parts: usize,
    /// The next byte of a change, counted from the start of the request; `None` if all its bytes are on their way.
    pub next: Option<u64>,
    /// The reason why the change goes around the cache where it can.
    pub bypass: Option<BypassReason>,
    /// True if blocks that were read may enter the cache.
    pub fills: bool,
}

/// A part of a request that waits for a member.
pub(crate) enum JobPart {
    /// Pages of an SSD, the first one `page`, that a reader counts on.
    Pages { job: u64, block: u64, run: PageRun },
    /// Blocks of the disk; each says whether it may enter the cache.
    Blocks { job: u64, block: u64, fills: Vec<bool> },
    /// Bytes of the request that go to the disk around the cache.
    Around { job: u64, keys: Vec<BlockKey> },
    /// A block that went to the slot and goes to the disk, of which so many flushes had failed when the write began.
    Through { job: u64, key: BlockKey, grant: SlotGrant, failures: u64 },
    /// A change of a part of a block, which needs the rest.
    Patch { job: u64, patch: BlockPatch },
    /// A flush of the disk's writes up to this number.
    Flush { job: u64, upto: u64 },
}

/// Pages that are read from an SSD.
#[derive(Clone, Copy)]
pub(crate) struct PageRun {
    pub page: PageRef,
    pub count: u32,
    /// The SSD.
    pub ssd: u8,
    /// A bit for each place of the table that was tried, this one too.
    pub tried: u8,
}

/// A change of a part of a block.
pub(crate) struct BlockPatch {
    pub key: BlockKey,
    pub grant: SlotGrant,
    /// The version that is read; `None` for the disk's.
    pub from: Option<PageRun>,
    /// Where the part begins in the block.
    pub offset: usize,
    pub part: Vec<u8>,
}

/// The queue.
pub(crate) struct CacheQueue {
    pub core: Arc<CacheCore>,
    pub number: u8,
    /// The size of the disk in bytes.
    geometry: ferrite_disk::Geometry,
    pub members: MemberQueues,
    pub jobs: HashMap<u64, CacheJob>,
    pub parts: HashMap<u64, JobPart>,
    parked: VecDeque<u64>,
    waiting_patches: Vec<(u64, BlockPatch)>,
    ended: VecDeque<Completion>,
    event: Arc<ReadyEvent>,
    pub streams: RequestStreams,
    next_job: u64,
    /// Dropped last: until then the disk is in use.
    _user: DiskUser,
}

/// A queue of a client, which keeps its disk in the cache.
struct DiskUser {
    core: Arc<CacheCore>,
    number: u8,
}

impl Drop for DiskUser {
    fn drop(&mut self) {
        self.core.disks[usize::from(self.number)].queues.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CacheQueue {
    /// Returns a queue to `disk`.
    ///
    /// # Errors
    /// [`Error::Io`] if the host has no descriptor left.
    pub fn new(disk: &CachedDisk) -> Result<Self> {
        let (core, event) = (Arc::clone(disk.core()), Arc::new(ReadyEvent::new()?));
        core.disks[usize::from(disk.number())].queues.fetch_add(1, Ordering::SeqCst);
        let user = DiskUser { core: Arc::clone(&core), number: disk.number() };
        Ok(Self {
            members: MemberQueues::new(Arc::clone(&core), Arc::clone(&event))?,
            core,
            number: disk.number(),
            geometry: disk.geometry(),
            jobs: HashMap::new(),
            parts: HashMap::new(),
            parked: VecDeque::new(),
            waiting_patches: Vec::new(),
            ended: VecDeque::new(),
            event,
            streams: RequestStreams::default(),
            next_job: 0,
            _user: user,
        })
    }

    /// Refuses what no disk does.
    fn admit(&self, request: &Request) -> Result<()> {
        let span = request.touched();
        let ferrite_disk::Geometry { size, sector_bytes, .. } = self.geometry;
        if !span.fits(size) || !span.aligned_to(u64::from(sector_bytes)) {
            return Err(Error::OutOfRange { at: span.at, len: span.len, size, sector_bytes });
        }
        let is_change = !matches!(request.op, Op::Read | Op::Flush);
        if is_change && self.core.settings().mode == crate::CacheMode::ReadOnly {
            return Err(Error::ReadOnly);
        }
        let disk = &self.core.disks[usize::from(self.number)];
        if !disk.is_open() {
            return Err(Error::io(
                format!("the disk {:?} of a cache", disk.config.export),
                std::io::Error::other(format!("not served: {}", disk.why())),
            ));
        }
        match request.op {
            Op::Zero(how) if how.fast => Err(Error::Unsupported("fast zeroes".into())),
            _ => Ok(self.core.memory.lease().check_poison().map_err(medium_error)?),
        }
    }

    fn begin(&mut self, job: u64) {
        let (op, span) = (self.jobs[&job].request.op, self.jobs[&job].request.touched());
        match op {
            Op::Read => self.begin_read(job, span),
            Op::Flush => self.begin_flush(job),
            Op::Write(_) | Op::Trim(_) | Op::Zero(_) => self.begin_change(job, span),
        }
    }

    fn begin_flush(&mut self, job: u64) {
        self.core.counters.flushes.add(1);
        let disk = &self.core.disks[usize::from(self.number)];
        let upto = disk.writes.load(Ordering::SeqCst);
        if upto > disk.flushed.load(Ordering::SeqCst) {
            let op = Op::Flush;
            let request =
                MemberRequest { member: Member::Disk(self.number), op, span: Span::new(0, 0), buffer: vec![] };
            self.start(job, request, JobPart::Flush { job, upto });
        }
        if let Err(error) = self.barrier() {
            self.fail(job, error);
        }
    }

    /// Makes every slot durable, on a memory whose fences are not.
    pub fn barrier(&self) -> Result<()> {
        match self.core.memory.memory().fence_is_durable() {
            true => Ok(()),
            false => self.core.memory.lease().barrier().map_err(medium_error),
        }
    }

    /// Starts a request to a member as a part of `job`.
    pub fn start(&mut self, job: u64, request: MemberRequest, part: JobPart) {
        self.job(job).parts += 1;
        let token = self.members.submit(request);
        self.parts.insert(token, part);
    }

    /// Returns the job `job`.
    pub fn job(&mut self, job: u64) -> &mut CacheJob {
        self.jobs.get_mut(&job).expect("a job lives until its last part has ended")
    }

    /// Notes the first error of `job`.
    pub fn fail(&mut self, job: u64, error: Error) {
        let job = self.job(job);
        if job.result.is_ok() {
            job.result = Err(error);
        }
    }

    /// Processes the requests to members that have ended, and those that these begin and that end at once.
    fn work(&mut self, wait: Wait) -> Result<()> {
        self.go_on_with_parked();
        let mut ends = self.members.collect(if self.ended.is_empty() { wait } else { Wait::No })?;
        while !ends.is_empty() {
            for MemberEnd { token, result, buffer } in ends {
                let part = self.parts.remove(&token).expect("a request to a member is part of a job");
                let job = self.end_part(part, result, buffer);
                self.job(job).parts -= 1;
                self.complete(job);
            }
            // A second look at the devices would make all clients wait for it, and reply to few.
            ends = self.members.take_ended();
        }
        Ok(())
    }

    /// Goes on with the requests that wait for a buffer or for another request. The event is armed before the attempt, so
    /// that a buffer that becomes free behind it ends the next wait.
    fn go_on_with_parked(&mut self) {
        self.event.clear();
        if self.parked.is_empty() && self.waiting_patches.is_empty() {
            return;
        }
        self.core.wait_with(&self.event);
        while let Some(job) = self.parked.pop_front() {
            self.go_on(job);
            self.complete(job);
            // The first request that still waits keeps its turn.
            if self.parked.back() == Some(&job) {
                self.parked.rotate_right(1);
                break;
            }
        }
        self.go_on_with_patches();
    }

    /// Handles the end of a part. Returns its job.
    fn end_part(&mut self, part: JobPart, result: Result<()>, buffer: Vec<u8>) -> u64 {
        match part {
            JobPart::Pages { job, block, run } => {
                self.end_pages(job, block, run, result.map(|()| buffer));
                job
            }
            JobPart::Blocks { job, block, fills } => {
                self.end_blocks(job, block, &fills, result.map(|()| buffer));
                job
            }
            JobPart::Around { job, keys } => {
                self.note_disk_write();
                keys.iter().for_each(|key| self.core.end_around(*key));
                self.note_result(job, result);
                job
            }
            JobPart::Through { job, key, grant, failures } => {
                let number = self.note_disk_write();
                let failed = self.core.disks[usize::from(self.number)].flush_failures.load(Ordering::SeqCst);
                let is_kept = result.is_ok() && failed == failures;
                self.core.end_through(key, grant, is_kept.then_some(number));
                // The version is in its slot: the worker writes it to the disk again.
                if let Err(error) = result {
                    self.core.disks[usize::from(self.number)].errors.fetch_add(1, Ordering::Relaxed);
                    self.fail(job, error);
                }
                job
            }
            JobPart::Patch { job, patch } => {
                self.end_patch(job, patch, result.map(|()| buffer));
                job
            }
            JobPart::Flush { job, upto } => {
                self.core.disks[usize::from(self.number)].end_flush(upto, result.is_ok());
                if let Err(error) = result {
                    self.fail(job, error);
                }
                job
            }
        }
    }

    fn note_disk_write(&self) -> u64 {
        self.core.disks[usize::from(self.number)].writes.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Notes the result of a request to the disk.
    pub fn note_result(&mut self, job: u64, result: Result<()>) {
        if let Err(error) = result {
            self.core.disks[usize::from(self.number)].errors.fetch_add(1, Ordering::Relaxed);
            self.fail(job, error);
        }
    }

    /// Completes `job` if nothing of it is left.
    pub fn complete(&mut self, job: u64) {
        let Some(known) = self.jobs.get(&job).filter(|job| job.parts == 0 && job.next.is_none()) else { return };
        let is_fua = matches!(known.request.op, Op::Write(Access::Fua) | Op::Trim(Access::Fua))
            || matches!(known.request.op, Op::Zero(how) if how.access == Access::Fua);
        if is_fua && let Err(error) = self.barrier() {
            self.fail(job, error);
        }
        let CacheJob { request, result, .. } = self.jobs.remove(&job).expect("it was just found");
        self.ended.push_back(request.complete(result));
    }

    /// Returns true if requests wait. A later change waits behind them, so that none of them starves.
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Parks `job` until a buffer is free or a conflicting request has ended.
    pub fn park(&mut self, job: u64) {
        self.core.counters.stalls.add(1);
        self.parked.push_back(job);
        self.core.worker_event.signal();
    }

    /// Parks a change of a part of a block until another request has ended.
    pub fn wait_with_patch(&mut self, job: u64, patch: BlockPatch) {
        self.waiting_patches.push((job, patch));
    }

    /// Returns the changes of parts of blocks that wait.
    pub fn take_waiting_patches(&mut self) -> Vec<(u64, BlockPatch)> {
        std::mem::take(&mut self.waiting_patches)
    }

    /// Returns the key of block `block` of the disk.
    pub fn key(&self, block: u64) -> BlockKey {
        BlockKey::new(self.number, block)
    }

    /// Returns the span on the disk of `count` blocks from `block` on.
    pub fn on_disk(&self, block: u64, count: u64) -> Span {
        Span::new(self.core.disks[usize::from(self.number)].block_at(block), count * BLOCK)
    }

    /// Notes that the disk serves a client.
    pub fn note_disk_use(&self) {
        let now_ns = self.core.clock.now_ns();
        self.core.disks[usize::from(self.number)].used_ns.store(now_ns, Ordering::Relaxed);
    }
}

impl Queue for CacheQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        if let Err(refused) = self.admit(&request) {
            return Some(request.complete(Err(refused)));
        }
        if !self.parked.is_empty() {
            self.go_on_with_parked();
        }
        let job = self.next_job;
        self.next_job += 1;
        let new = CacheJob { request, result: Ok(()), parts: 0, next: None, bypass: None, fills: true };
        self.jobs.insert(job, new);
        self.begin(job);
        self.complete(job);
        // A member that works in its caller's thread has ended at once, and a parked request is tried once more.
        let is_waiting = !self.parked.is_empty() || !self.waiting_patches.is_empty();
        if (self.members.has_ended() || is_waiting)
            && let Err(error) = self.work(Wait::No)
        {
            self.fail_all(&error);
        }
        match self.ended.len() {
            0 => None,
            1 if !self.jobs.contains_key(&job) => self.ended.pop_front(),
            _ => {
                // They are collected, so the descriptor says so (Q4).
                self.event.signal();
                None
            }
        }
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.ended.is_empty() {
            self.work(Wait::No)?;
            let deadline_ns = match wait {
                Wait::AtMost(limit) => Some(self.core.clock.now_ns() + limit.as_nanos() as u64),
                Wait::No | Wait::Forever => None,
            };
            while self.ended.is_empty() && !self.jobs.is_empty() && wait != Wait::No {
                let left_ns = deadline_ns.map(|at_ns| at_ns.saturating_sub(self.core.clock.now_ns()));
                if left_ns == Some(0) {
                    break;
                }
                self.work(left_ns.map_or(Wait::Forever, |ns| Wait::AtMost(Duration::from_nanos(ns))))?;
            }
        }
        let count = self.ended.len();
        completions.extend(self.ended.drain(..));
        Ok(count)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        if !self.ended.is_empty() {
            self.event.signal();
        }
        self.members.descriptor()
    }

    fn in_flight(&self) -> usize {
        self.jobs.len() + self.ended.len()
    }
}

impl CacheQueue {
    /// Ends every job with an error, because a queue of the host failed.
    fn fail_all(&mut self, error: &Error) {
        let text = error.to_string();
        let jobs: Vec<u64> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.fail(job, Error::io("a queue of the cache", std::io::Error::other(text.clone())));
        }
    }
}

/// Returns the error of a pool as one of a disk.
pub(crate) fn medium_error(error: ferrite_pool::Error) -> Error {
    match error {
        ferrite_pool::Error::Medium(error) => error,
        ferrite_pool::Error::Poisoned(why) => Error::Poisoned(why),
        other => Error::io("the pool", std::io::Error::other(other)),
    }
}

impl Drop for CacheQueue {
    /// Waits for the requests to members, because other requests of their blocks wait for their ends. A hung SSD ends them
    /// after its timeout.
    fn drop(&mut self) {
        self.parked.clear();
        while !self.parts.is_empty() {
            let Ok(ends) = self.members.collect(Wait::Forever) else { return };
            for MemberEnd { token, result, buffer } in ends {
                let part = self.parts.remove(&token).expect("a request to a member is part of a job");
                let job = self.end_part(part, result, buffer);
                self.job(job).parts -= 1;
            }
        }
        for (_, patch) in self.take_waiting_patches() {
            self.core.finish_slot(patch.grant);
        }
    }
}
