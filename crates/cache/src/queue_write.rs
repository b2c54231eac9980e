//! Changes of a cached disk: into slots, through the cache, and around it.
//!
//! ```text
//! write-back      slot, fence, reply                        the disk gets it later
//! write-through   slot, fence, write of the disk, reply     the slot is clean after the disk's next flush
//! around          dead marks, fence, write of the disk, reply
//! ```
//!
//! A change of a part of a block reads the rest of the block first, unless the block is in a slot.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::{Access, Op};
use ferrite_memory::{Result, Span, planted};

use crate::CacheMode;
use crate::around_flights::Around;
use crate::buffer_set::{SlotGrant, SlotUse};
use crate::cache_counters::BypassReason;
use crate::cache_layout::BLOCK;
use crate::cache_queue::{BlockPatch, CacheQueue, JobPart, PageRun, medium_error};
use crate::member_queues::{Member, MemberRequest};
use crate::new_version::{Expected, NewVersion};
use crate::page_word::{BlockKey, PageRef};

/// Consecutive bytes of a request that go around the cache, in bytes from the start of the disk.
struct AroundRun {
    span: Span,
    keys: Vec<BlockKey>,
}

/// The runs of one request, which start together once the marks of dropped versions are durable.
#[derive(Default)]
struct AroundRuns {
    runs: Vec<AroundRun>,
    has_mark: bool,
}

impl AroundRuns {
    fn add(&mut self, span: Span, key: BlockKey, has_mark: bool) {
        self.has_mark |= has_mark;
        match self.runs.last_mut() {
            Some(run) if run.span.at + run.span.len == span.at => {
                run.span.len += span.len;
                run.keys.push(key);
            }
            _ => self.runs.push(AroundRun { span, keys: vec![key] }),
        }
    }
}

/// How the change of one block went on.
enum BlockStep {
    /// It is in the cache, or on its way.
    Begun,
    /// It waits for a slot, or for another request.
    Waits,
}

impl CacheQueue {
    /// Begins the write, the trim or the zeroing `job` of `span`.
    pub fn begin_change(&mut self, job: u64, span: Span) {
        let settings = self.core.settings();
        let counters = &self.core.counters;
        let op = self.jobs[&job].request.op;
        match op {
            Op::Trim(_) => counters.trims.add(1),
            Op::Zero(_) => counters.zeroings.add(1),
            _ => counters.writes.add(1),
        }
        let stream_bytes = self.streams.note(span.at, span.len);
        let bypass = match settings.mode {
            _ if !matches!(op, Op::Write(_)) => Some(BypassReason::Mode),
            CacheMode::WriteAround => Some(BypassReason::Mode),
            _ if settings.bypass_bytes > 0 && stream_bytes > settings.bypass_bytes => Some(BypassReason::Sequential),
            CacheMode::WriteBack if self.core.is_too_dirty() => Some(BypassReason::TooDirty),
            _ => None,
        };
        let job_state = self.job(job);
        (job_state.bypass, job_state.next) = (bypass, Some(0));
        if matches!(op, Op::Write(_)) {
            self.core.counters.written_bytes.add(span.len);
        }
        match self.has_parked() {
            true => self.park(job),
            false => self.go_on(job),
        }
    }

    /// Goes on with the change `job` until all its bytes are on their way or one of them has to wait.
    pub fn go_on(&mut self, job: u64) {
        let span = self.jobs[&job].request.touched();
        let mut runs = AroundRuns::default();
        let is_ready = self.core.member_pass.is_given();
        while let Some(done) = self.jobs[&job].next.filter(|done| *done < span.len && is_ready) {
            let at = span.at + done;
            let len = (BLOCK - at % BLOCK).min(span.len - done);
            match self.change_block(job, Span::new(at, len), &mut runs) {
                Ok(BlockStep::Begun) => self.job(job).next = Some(done + len),
                Ok(BlockStep::Waits) => break,
                Err(error) => {
                    self.fail(job, error);
                    self.job(job).next = Some(span.len);
                }
            }
        }
        self.start_around(job, runs);
        if self.jobs[&job].next == Some(span.len) {
            self.job(job).next = None;
        } else {
            self.park(job);
        }
    }

    /// Begins the change of `span`, which lies in one block.
    fn change_block(&mut self, job: u64, span: Span, runs: &mut AroundRuns) -> Result<BlockStep> {
        let key = self.key(span.at / BLOCK);
        let (bypass, op) = (self.jobs[&job].bypass, self.jobs[&job].request.op);
        let is_trim = matches!(op, Op::Trim(_));
        if is_trim && span.len < BLOCK {
            return Ok(BlockStep::Begun);
        }
        if let Some(reason) = bypass
            && self.try_around(key, span, reason, runs)
        {
            return Ok(BlockStep::Begun);
        }
        if is_trim {
            // The dirty version stays: after a trim a block may read as before.
            return Ok(BlockStep::Begun);
        }
        let Some(grant) = self.core.take_slot(SlotUse::Dirty, false) else {
            let is_begun = self.try_around(key, span, BypassReason::BuffersFull, runs);
            return Ok(if is_begun { BlockStep::Begun } else { BlockStep::Waits });
        };
        if span.len < BLOCK {
            return Ok(self.begin_patch(job, key, span, grant));
        }
        self.with_bytes(job, span, |queue, data| {
            let version = NewVersion { key, dirty: true, hits: 0, data };
            queue.core.publish(grant, &version, Expected::Any);
            if queue.core.settings().mode == CacheMode::WriteThrough {
                queue.write_through(job, key, grant, data.to_vec());
            }
            queue.core.finish_slot(grant);
        });
        Ok(BlockStep::Begun)
    }

    /// Passes the bytes of the request for `span` to `work`.
    fn with_bytes(&mut self, job: u64, span: Span, work: impl FnOnce(&mut Self, &[u8])) {
        static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        if matches!(self.jobs[&job].request.op, Op::Zero(_)) {
            return work(self, &ZEROS[..span.len as usize]);
        }
        let request = &mut self.job(job).request;
        let (start, buffer) = (request.span.at, std::mem::take(&mut request.buffer));
        work(self, &buffer[(span.at - start) as usize..][..span.len as usize]);
        self.job(job).request.buffer = buffer;
    }

    /// Adds `span` of the block `key` to the runs that go around the cache, if it may (CA7).
    fn try_around(&mut self, key: BlockKey, span: Span, reason: BypassReason, runs: &mut AroundRuns) -> bool {
        // A block that is in the cache is updated there, unless that would not end.
        let drops = reason != BypassReason::Sequential;
        match self.core.begin_around(key, drops) {
            Around::Cached => false,
            Around::Begun { has_mark } => {
                self.core.counters.count_around(reason, span.len);
                runs.add(span, key, has_mark);
                true
            }
        }
    }

    /// Starts the runs, behind the marks of the versions that they replace (CA7).
    fn start_around(&mut self, job: u64, runs: AroundRuns) {
        let marked = match runs.has_mark && !planted!("cache: a change goes around before the mark is durable") {
            true => self.core.apply_marks().map_err(medium_error),
            false => Ok(()),
        };
        if let Err(error) = marked {
            runs.runs.iter().flat_map(|run| &run.keys).for_each(|key| self.core.end_around(*key));
            return self.fail(job, error);
        }
        let op = self.jobs[&job].request.op;
        let data_at = self.core.disks[usize::from(self.number)].data_at();
        for AroundRun { span, keys } in runs.runs {
            let mut buffer = Vec::new();
            if matches!(op, Op::Write(_)) {
                let request = &self.jobs[&job].request;
                let from = (span.at - request.span.at) as usize;
                buffer.extend_from_slice(&request.buffer[from..from + span.len as usize]);
            }
            self.note_disk_use();
            let span = Span::new(data_at + span.at, span.len);
            let request = MemberRequest { member: Member::Disk(self.number), op, span, buffer };
            self.start(job, request, JobPart::Around { job, keys });
        }
    }

    /// Writes the version in the slot of `grant` to the disk too, unless another request has replaced it. The slot is durable
    /// before: a crash in between leaves it dirty.
    fn write_through(&mut self, job: u64, key: BlockKey, grant: SlotGrant, buffer: Vec<u8>) {
        if let Err(error) = self.barrier() {
            return self.fail(job, error);
        }
        let _ = planted!("cache: ahead of a write through");
        if !self.core.begin_through(key, grant) {
            return;
        }
        let access = match self.jobs[&job].request.op {
            Op::Write(access) => access,
            _ => Access::Cached,
        };
        self.note_disk_use();
        let (op, span) = (Op::Write(access), self.on_disk(key.block(), 1));
        let request = MemberRequest { member: Member::Disk(self.number), op, span, buffer };
        let failures = self.core.disks[usize::from(self.number)].flush_failures.load(Ordering::SeqCst);
        self.start(job, request, JobPart::Through { job, key, grant, failures });
    }

    /// Begins the change of a part of the block `key`.
    fn begin_patch(&mut self, job: u64, key: BlockKey, span: Span, grant: SlotGrant) -> BlockStep {
        let mut part = Vec::new();
        self.with_bytes(job, span, |_, data| part.extend_from_slice(data));
        let offset = (span.at % BLOCK) as usize;
        match self.start_patch(job, BlockPatch { key, grant, from: None, offset, part }) {
            true => BlockStep::Begun,
            false => {
                self.core.finish_slot(grant);
                BlockStep::Waits
            }
        }
    }

    /// Changes the block if its newest version is in a slot, else begins to read the block. Returns false if it has to
    /// wait for another request; then the grant is still the caller's.
    fn start_patch(&mut self, job: u64, patch: BlockPatch) -> bool {
        let core = Arc::clone(&self.core);
        let mut block = [0; BLOCK as usize];
        if core.patch_slot(patch.grant, patch.key, patch.offset, &patch.part, &mut block) {
            self.end_of_patch(job, &patch, &block);
            return true;
        }
        let mut shard = core.index.lock(patch.key);
        let (request, from) = match core.find(&shard, patch.key) {
            // Another request has put it into a slot.
            Some(page) if page.is_slot() => return false,
            Some(page) => {
                let (table, _) = core.memory.table_of(page);
                core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
                let Some((request, run)) = self.page_request(page, 1, 0) else {
                    core.end_reader(page);
                    drop(shard);
                    self.patch_unreadable(job, patch, page);
                    return true;
                };
                (request, Some(run))
            }
            None if shard.begin_fill(patch.key) => {
                let span = self.on_disk(patch.key.block(), 1);
                let buffer = vec![0; BLOCK as usize];
                (MemberRequest { member: Member::Disk(self.number), op: Op::Read, span, buffer }, None)
            }
            None => return false,
        };
        drop(shard);
        self.start(job, request, JobPart::Patch { job, patch: BlockPatch { from, ..patch } });
        true
    }

    /// Puts the part into the block that was read, and the block into the slot, if no other request changed the block since.
    pub fn end_patch(&mut self, job: u64, patch: BlockPatch, read: Result<Vec<u8>>) {
        let key = patch.key;
        let (read, expected) = match patch.from {
            Some(PageRun { page, ssd, tried, .. }) => {
                let good = self.core.verified(page, ssd, read.as_ref().map(Vec::as_slice)).map(<[u8]>::to_vec);
                self.core.end_reader(page);
                let Some(good) = good else { return self.patch_again(job, patch, page, tried) };
                (good, Expected::Version(page))
            }
            None => match read {
                Ok(read) => (read, Expected::Fill),
                Err(error) => {
                    self.core.index.lock(key).end_fill(key);
                    self.core.finish_slot(patch.grant);
                    return self.note_result(job, Err(error));
                }
            },
        };
        let mut block = read;
        block[patch.offset..patch.offset + patch.part.len()].copy_from_slice(&patch.part);
        let version = NewVersion { key, dirty: true, hits: 0, data: &block };
        if self.core.publish(patch.grant, &version, expected) {
            return self.end_of_patch(job, &patch, &block);
        }
        self.repeat_patch(job, patch);
    }

    /// Tries the other copy of a page, or what there is without any.
    fn patch_again(&mut self, job: u64, patch: BlockPatch, page: PageRef, tried: u8) {
        let (table, _) = self.core.memory.table_of(page);
        self.core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
        match self.page_request(page, 1, tried) {
            Some((request, run)) => {
                self.start(job, request, JobPart::Patch { job, patch: BlockPatch { from: Some(run), ..patch } });
            }
            None => {
                self.core.end_reader(page);
                self.patch_unreadable(job, patch, page);
            }
        }
    }

    /// A version that no SSD gives is dropped if it is clean, and the disk's is read; else the change fails.
    fn patch_unreadable(&mut self, job: u64, patch: BlockPatch, page: PageRef) {
        if self.core.drop_clean(patch.key, page) {
            return self.repeat_patch(job, patch);
        }
        let error = self.core.unreadable(patch.key, page);
        self.fail(job, error);
        self.core.finish_slot(patch.grant);
    }

    fn repeat_patch(&mut self, job: u64, patch: BlockPatch) {
        let (grant, key, offset, part) = (patch.grant, patch.key, patch.offset, patch.part.clone());
        if !self.start_patch(job, patch) {
            // Another request changes the block around the cache: this one goes on behind it.
            let again = BlockPatch { key, grant, from: None, offset, part };
            self.job(job).parts += 1;
            self.wait_with_patch(job, again);
        }
    }

    /// Starts the changes again that waited for another request.
    pub fn go_on_with_patches(&mut self) {
        for (job, patch) in self.take_waiting_patches() {
            self.job(job).parts -= 1;
            self.repeat_patch(job, patch);
            self.complete(job);
        }
    }

    /// Ends a change of a part of a block, whose new version is in its slot.
    fn end_of_patch(&mut self, job: u64, patch: &BlockPatch, block: &[u8]) {
        if self.core.settings().mode == CacheMode::WriteThrough {
            self.write_through(job, patch.key, patch.grant, block.to_vec());
        }
        self.core.finish_slot(patch.grant);
    }
}
