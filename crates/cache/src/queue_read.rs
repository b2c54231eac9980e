//! Reads of a cached disk: from a slot, from an SSD, or from the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::Op;
use ferrite_memory::{Result, Span, planted};

use crate::buffer_set::SlotUse;
use crate::cache_counters::BypassReason;
use crate::cache_layout::BLOCK;
use crate::cache_queue::{CacheQueue, JobPart, PageRun};
use crate::member_queues::{Member, MemberRequest};
use crate::new_version::{Expected, NewVersion};
use crate::page_word::{BlockKey, PageRef};

/// Where a block is read from.
enum ReadFrom {
    /// It was copied from a slot.
    Copied,
    /// This page of a table; its LEB has one more reader.
    Page(PageRef),
    /// The disk; true if the block may enter the cache.
    Disk(bool),
}

/// Consecutive blocks that one request to a member reads.
enum ReadRun {
    Pages { block: u64, page: PageRef, count: u32 },
    Blocks { block: u64, fills: Vec<bool> },
}

impl CacheQueue {
    /// Begins the read `job` of `span`.
    pub fn begin_read(&mut self, job: u64, span: Span) {
        self.core.counters.reads.add(1);
        let settings = self.core.settings();
        let stream_bytes = self.streams.note(span.at, span.len);
        let is_long = settings.bypass_bytes > 0 && stream_bytes > settings.bypass_bytes;
        self.job(job).fills = !is_long;
        let (first, end) = (span.at / BLOCK, (span.at + span.len).div_ceil(BLOCK));
        let mut run = None;
        for block in first..end {
            let from = self.look(job, block, !is_long);
            run = self.extend(job, run, block, from);
        }
        if let Some(run) = run {
            self.start_run(job, run);
        }
    }

    /// Copies the block from a slot, or finds where it is read from.
    fn look(&mut self, job: u64, block: u64, may_fill: bool) -> ReadFrom {
        let key = self.key(block);
        let core = Arc::clone(&self.core);
        let mut shard = core.index.lock(key);
        match core.find(&shard, key) {
            Some(page) if page.is_slot() => {
                core.count_hit(page);
                core.counters.buffer_hits.add(1);
                let request = &mut self.job(job).request;
                let (offset, part) = part_of(request.span.at, &mut request.buffer, block);
                core.memory.load_slot_data(page.number(), offset, part);
                ReadFrom::Copied
            }
            Some(page) => {
                let (table, _) = core.memory.table_of(page);
                core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
                core.count_hit(page);
                core.counters.ssd_hits.add(1);
                ReadFrom::Page(page)
            }
            None => {
                core.counters.misses.add(1);
                if !may_fill {
                    core.counters.count_around(BypassReason::Sequential, BLOCK);
                }
                ReadFrom::Disk(may_fill && core.admits(key) && shard.begin_fill(key))
            }
        }
    }

    /// Adds the block to the run, or starts the run and begins another one.
    fn extend(&mut self, job: u64, run: Option<ReadRun>, block: u64, from: ReadFrom) -> Option<ReadRun> {
        let pages = self.core.memory.layout().pages();
        match (run, from) {
            (Some(ReadRun::Pages { block: first, page, count }), ReadFrom::Page(next))
                if next.number() == page.number() + count && next.number() % pages != 0 =>
            {
                Some(ReadRun::Pages { block: first, page, count: count + 1 })
            }
            (Some(ReadRun::Blocks { block: first, mut fills }), ReadFrom::Disk(fill)) => {
                fills.push(fill);
                Some(ReadRun::Blocks { block: first, fills })
            }
            (run, from) => {
                if let Some(run) = run {
                    self.start_run(job, run);
                }
                match from {
                    ReadFrom::Copied => None,
                    ReadFrom::Page(page) => Some(ReadRun::Pages { block, page, count: 1 }),
                    ReadFrom::Disk(fill) => Some(ReadRun::Blocks { block, fills: vec![fill] }),
                }
            }
        }
    }

    fn start_run(&mut self, job: u64, run: ReadRun) {
        match run {
            ReadRun::Pages { block, page, count } => self.read_pages(job, block, page, count, 0),
            ReadRun::Blocks { block, fills } => self.read_blocks(job, block, fills),
        }
    }

    /// Reads blocks of the disk.
    fn read_blocks(&mut self, job: u64, block: u64, fills: Vec<bool>) {
        let core = planted!("cache: a shard is locked while a disk is read").then(|| Arc::clone(&self.core));
        let _shard = core.as_ref().map(|core| core.index.lock(self.key(block)));
        self.note_disk_use();
        self.core.disks[usize::from(self.number)].reads.fetch_add(1, Ordering::Relaxed);
        let span = self.on_disk(block, fills.len() as u64);
        let buffer = vec![0; span.len as usize];
        let request = MemberRequest { member: Member::Disk(self.number), op: Op::Read, span, buffer };
        self.start(job, request, JobPart::Blocks { job, block, fills });
    }

    /// Reads pages from a copy that was not tried: each alone if the first one has none. A page without one comes from
    /// elsewhere.
    fn read_pages(&mut self, job: u64, block: u64, page: PageRef, count: u32, tried: u8) {
        let Some((request, run)) = self.page_request(page, count, tried) else {
            if count == 1 {
                return self.read_elsewhere(job, block, page);
            }
            for number in 0..count {
                let page = PageRef::page(page.number() + number);
                self.read_pages(job, block + u64::from(number), page, 1, tried);
            }
            return;
        };
        self.start(job, request, JobPart::Pages { job, block, run });
    }

    /// Returns the request that reads `count` pages from `page` on, from a copy that is not in `tried`.
    pub fn page_request(&self, page: PageRef, count: u32, tried: u8) -> Option<(MemberRequest, PageRun)> {
        let (copy, place) = self.core.copy_of(page, tried)?;
        let run = PageRun { page, count, ssd: place.ssd, tried: tried | 1 << copy };
        Some((self.core.page_request(place, page, count), run))
    }

    /// Verifies the pages that an SSD gave (CA10) and copies them out.
    pub fn end_pages(&mut self, job: u64, block: u64, run: PageRun, read: Result<Vec<u8>>) {
        for number in 0..run.count {
            let (block, page) = (block + u64::from(number), PageRef::page(run.page.number() + number));
            let bytes = read.as_ref().map(|bytes| &bytes[number as usize * BLOCK as usize..][..BLOCK as usize]);
            if let Some(good) = self.core.verified(page, run.ssd, bytes) {
                let request = &mut self.job(job).request;
                let (offset, part) = part_of(request.span.at, &mut request.buffer, block);
                part.copy_from_slice(&good[offset as usize..][..part.len()]);
                self.core.end_reader(page);
            } else {
                self.read_pages(job, block, page, 1, run.tried);
            }
        }
    }

    /// Reads a block none of whose copies on SSDs can be read: a clean one from the disk, which a dirty one must not be
    /// (CA10).
    fn read_elsewhere(&mut self, job: u64, block: u64, page: PageRef) {
        let key = self.key(block);
        let is_dropped = self.core.drop_clean(key, page);
        let is_newest = !is_dropped && {
            let shard = self.core.index.lock(key);
            self.core.find(&shard, key) == Some(page)
        };
        self.core.end_reader(page);
        if is_newest {
            let error = self.core.unreadable(key, page);
            return self.fail(job, error);
        }
        // The block has another version now.
        let from = self.look(job, block, false);
        if let Some(run) = self.extend(job, None, block, from) {
            self.start_run(job, run);
        }
    }

    /// Copies out the blocks that the disk gave, and puts admitted ones into the cache.
    pub fn end_blocks(&mut self, job: u64, block: u64, fills: &[bool], read: Result<Vec<u8>>) {
        for (index, fill) in fills.iter().enumerate() {
            let block = block + index as u64;
            let bytes = read.as_ref().ok().map(|bytes| &bytes[index * BLOCK as usize..][..BLOCK as usize]);
            if *fill {
                self.fill(self.key(block), bytes);
            }
            if let Some(bytes) = bytes {
                let request = &mut self.job(job).request;
                let (offset, part) = part_of(request.span.at, &mut request.buffer, block);
                part.copy_from_slice(&bytes[offset as usize..][..part.len()]);
            }
        }
        self.note_result(job, read.map(|_| ()));
    }

    /// Puts a block that was read from the disk into the cache, if no request changed the block since (CA8).
    fn fill(&self, key: BlockKey, data: Option<&[u8]>) {
        let grant = data.and_then(|_| self.core.take_slot(SlotUse::Clean, false));
        let (Some(grant), Some(data)) = (grant, data) else {
            self.core.index.lock(key).end_fill(key);
            return;
        };
        let version = NewVersion { key, dirty: false, hits: 0, data };
        let counters = &self.core.counters;
        match self.core.publish(grant, &version, Expected::Fill) {
            true => counters.fills.add(1),
            false => counters.fills_overtaken.add(1),
        }
        self.core.finish_slot(grant);
    }
}

/// Returns the part of the request at byte `at` that lies in block `block`, and where that part begins in the block.
pub(crate) fn part_of(at: u64, buffer: &mut [u8], block: u64) -> (u64, &mut [u8]) {
    let start = (block * BLOCK).max(at);
    let end = ((block + 1) * BLOCK).min(at + buffer.len() as u64);
    (start - block * BLOCK, &mut buffer[(start - at) as usize..(end - at) as usize])
}
