//! One load on one subject: what it writes to the SSD, what it finds in memory, and how fast it is.

use std::process::Command;
use std::time::Instant;

use ferrite_disk::DiskStats;
use ferrite_sim::ftl::FlashFigures;

use super::page_reference::{ExactLru, fewest_written, flat};
use super::tier_plan::{LoadKind, TierLoad};
use super::tier_subject::TierSubject;
use crate::loads::postmark;
use crate::records::{FileOrder, PAGE_BYTES, PageLoad, ServerLoad};
use crate::scratch::Scratch;
use crate::{Result, program};

/// Reads that find out which pages are in memory.
const PROBES: u64 = 2000;

/// The figures of a load on a subject.
pub struct TierFigures {
    /// Bytes written to the SSD until all content was there.
    pub written_bytes: u64,
    /// Bytes of a write request on average.
    pub request_bytes: f64,
    /// The part of random reads that needed no request to the SSD.
    pub hit_ratio: Option<f64>,
    /// What a scan of a file gave, of which a part was in use.
    pub scan: Option<ScanFigures>,
    /// Operations a second until they were durable.
    pub rate: f64,
    /// Operations a second until all content was on the SSD.
    pub drained_rate: f64,
    /// The figures of a drive of each scheme, from the making of the file system on.
    pub flash: Vec<FlashFigures>,
}

/// The figures of a scan of a large file, of which a part that memory holds was in use.
pub struct ScanFigures {
    /// Megabytes a second.
    pub rate: f64,
    /// The part of random reads of what was in use that needed no request to the SSD behind the scan.
    pub hit_ratio: f64,
}

/// Runs `load` on `subject`, whose file system is empty.
pub fn measure(subject: TierSubject, load: &TierLoad, scratch: &Scratch) -> Result<TierFigures> {
    fill(&subject, load)?;
    subject.drain()?;
    subject.trace();
    let (before, start) = (subject.stats(), Instant::now());
    let operations = run(&subject, load, scratch)?;
    subject.persist()?;
    let durable = start.elapsed();
    subject.drain()?;
    let (drained, after) = (start.elapsed(), subject.stats());
    let hit_ratio = probe(&subject, load)?;
    let scan = scan(&subject, load)?;
    let flash = subject.finish()?;
    let (written_bytes, writes) = written(&before, &after);
    Ok(TierFigures {
        written_bytes,
        request_bytes: written_bytes as f64 / writes.max(1) as f64,
        hit_ratio,
        scan,
        rate: operations as f64 / durable.as_secs_f64(),
        drained_rate: operations as f64 / drained.as_secs_f64(),
        flash,
    })
}

/// Returns the bytes and the requests of writes between two counts.
fn written(before: &DiskStats, after: &DiskStats) -> (u64, u64) {
    let bytes = |stats: &DiskStats| stats.written_bytes + stats.zeroed_bytes;
    let requests = |stats: &DiskStats| stats.writes + stats.zeroings;
    (bytes(after) - bytes(before), requests(after) - requests(before))
}

/// Makes the files of `load`.
fn fill(subject: &TierSubject, load: &TierLoad) -> Result<()> {
    match load.kind {
        LoadKind::Pages { load, file_bytes } => {
            subject.order(&FileOrder::Prepare { files: load.files, file_bytes }).map(drop)
        }
        LoadKind::Server(load) => subject.order(&FileOrder::Serve(ServerLoad { operations: 0, ..load })).map(drop),
        LoadKind::Postmark { .. } => Ok(()),
    }
}

/// Runs the operations of `load`. Returns their number.
fn run(subject: &TierSubject, load: &TierLoad, scratch: &Scratch) -> Result<u64> {
    match load.kind {
        LoadKind::Pages { load, .. } => subject.order(&FileOrder::Pages(load)).map(|_| load.requests),
        LoadKind::Server(load) => subject.order(&FileOrder::Serve(load)).map(|_| load.operations),
        LoadKind::Postmark { files, transactions } => {
            let folders = format!("set subdirectories {}\n", files.div_ceil(100));
            let orders = scratch.path("orders");
            let postmark = postmark::command(&orders, subject.point(), files, transactions, &folders)?;
            program::run(&mut subject.command(&postmark))?;
            Ok(files + transactions)
        }
    }
}

/// The reads behind a load that find out what is in memory.
fn probes(load: &PageLoad) -> PageLoad {
    PageLoad { requests: PROBES.min(load.requests), reads_permille: 1000, sync_every: 0, seed: load.seed + 1, ..*load }
}

/// Reads pages at random. Returns the part of them that needed no request to the SSD.
fn probe(subject: &TierSubject, load: &TierLoad) -> Result<Option<f64>> {
    let LoadKind::Pages { load, .. } = load.kind else { return Ok(None) };
    let (reads, before) = (probes(&load), subject.stats().reads);
    subject.order(&FileOrder::Pages(reads))?;
    let missed = (subject.stats().reads - before).min(reads.requests);
    Ok(Some(1.0 - missed as f64 / reads.requests as f64))
}

/// Reads the file of a load whose requests went to a part of it, from its beginning to its end.
fn scan(subject: &TierSubject, load: &TierLoad) -> Result<Option<ScanFigures>> {
    let LoadKind::Pages { load: requests, file_bytes } = load.kind else { return Ok(None) };
    if requests.window_bytes == file_bytes {
        return Ok(None);
    }
    let (file, start) = (subject.point().join("data-0"), Instant::now());
    let mut read = Command::new("dd");
    read.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=1M", "status=none"]);
    program::run(&mut subject.command(&read))?;
    let rate = file_bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    Ok(probe(subject, load)?.map(|hit_ratio| ScanFigures { rate, hit_ratio }))
}

/// What exact policies do with a load.
pub struct ReferenceFigures {
    /// Bytes that a least recently used memory writes.
    pub lru_bytes: u64,
    /// Bytes that any policy writes at least.
    pub fewest_bytes: u64,
    /// The part of the random reads that a least recently used memory has.
    pub lru_hit_ratio: f64,
}

/// Computes the references of `load` for a memory of `memory_bytes`. Returns `None` if its requests are not known.
pub fn reference(load: &TierLoad, memory_bytes: u64) -> Option<ReferenceFigures> {
    let LoadKind::Pages { load, file_bytes } = load.kind else { return None };
    let (capacity, file_pages) = ((memory_bytes / PAGE_BYTES) as usize, file_bytes / PAGE_BYTES);
    let mut lru = ExactLru::new(capacity);
    (0..load.files * file_pages).for_each(|page| lru.request(page, false));
    lru.drain();
    let all = || load.requests().map(|request| flat(request, file_pages));
    all().for_each(|(page, is_read)| lru.request(page, is_read));
    let written = lru.drain().written_pages;
    let reads = probes(&load);
    reads.requests().map(|request| flat(request, file_pages)).for_each(|(page, is_read)| lru.request(page, is_read));
    Some(ReferenceFigures {
        lru_bytes: written * PAGE_BYTES,
        fewest_bytes: fewest_written(capacity, all()) * PAGE_BYTES,
        lru_hit_ratio: lru.drain().hits as f64 / reads.requests as f64,
    })
}
