//! One load on one subject: what it writes to the SSD, what it finds in memory, and how fast it is.

use std::process::Command;
use std::time::Instant;

use ferrite_disk::DiskStats;
use ferrite_fs::TierStats;
use ferrite_sim::ftl::FlashFigures;

use super::conquest_rule;
use super::load_trace::{LoadTrace, TraceStep, TraceVerb, probes};
use super::page_reference::{ExactLru, fewest_written, most_hits};
use super::tier_plan::{LoadKind, TierLoad};
use super::tier_subject::TierSubject;
use crate::loads::postmark;
use crate::records::{FileOrder, PAGE_BYTES, ServerLoad};
use crate::scratch::Scratch;
use crate::{Result, program};

/// Pages of a segment, without its summary.
const SEGMENT_PAGES: u64 = 127;

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
    /// What cleaning did, of a file system with a tier.
    pub cleaning: Option<CleaningFigures>,
    /// Bytes of the load's content that memory had at the end, of a file system with a tier.
    pub content_bytes: Option<u64>,
}

/// The cleaning of segments during a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningFigures {
    /// Pages of the segments that were cleaned.
    pub recycled_pages: u64,
    /// The part of them that had to move.
    pub moved_pages: u64,
}

impl CleaningFigures {
    fn between(before: &TierStats, after: &TierStats) -> Self {
        let recycled_pages = (after.cleaned_segments - before.cleaned_segments) * SEGMENT_PAGES;
        Self { recycled_pages, moved_pages: after.moved_pages - before.moved_pages }
    }

    /// The part of the recycled pages that did not have to move (figure 3.16).
    pub fn efficiency(self) -> Option<f64> {
        let part = self.moved_pages.min(self.recycled_pages) as f64 / self.recycled_pages as f64;
        (self.recycled_pages > 0).then_some(1.0 - part)
    }
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
    let (before, tier_before, start) = (subject.stats(), subject.tier_stats()?, Instant::now());
    let operations = run(&subject, load, scratch)?;
    subject.persist()?;
    let durable = start.elapsed();
    subject.drain()?;
    let (drained, after) = (start.elapsed(), subject.stats());
    let tier_after = subject.tier_stats()?;
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
        cleaning: tier_before.zip(tier_after.as_ref()).map(|(before, after)| CleaningFigures::between(&before, after)),
        content_bytes: tier_after.map(|after| load.live_bytes.saturating_sub(after.pages.away * PAGE_BYTES)),
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

/// What an exact policy does with a load.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceFigures {
    /// The name in reports.
    pub name: &'static str,
    /// Bytes that it writes until all content is on the SSD.
    pub written_bytes: Option<u64>,
    /// The part of the random reads that it has in memory.
    pub hit_ratio: Option<f64>,
}

/// The sizes of the memories of references.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceSize {
    /// Bytes of our pool.
    pub memory_bytes: u64,
    /// Bytes of content that our pool had, without its own tables, names and index.
    pub content_bytes: Option<u64>,
}

/// The references of a load, and the size below which files are small for Conquest.
pub struct LoadReferences {
    /// The references.
    pub figures: Vec<ReferenceFigures>,
    /// Bytes.
    pub small_below: u64,
}

/// Computes the references of `load`. Returns `None` if its requests are not known.
pub fn references(load: &TierLoad, size: ReferenceSize) -> Option<LoadReferences> {
    let trace = LoadTrace::of(load)?;
    let memory_pages = (size.memory_bytes / PAGE_BYTES) as usize;
    let reads = trace.probes.len() as f64;
    let ratio = |hits: u64| (!trace.probes.is_empty()).then(|| hits as f64 / reads);
    let bytes = |pages: u64| Some(pages * PAGE_BYTES);
    let (written, hits) = lru(&trace, memory_pages);
    let mut figures =
        vec![ReferenceFigures { name: super::LRU, written_bytes: bytes(written), hit_ratio: ratio(hits) }];
    if let (Some(content), LoadKind::Pages { .. }) = (size.content_bytes, &load.kind) {
        let (written, hits) = lru(&trace, (content / PAGE_BYTES) as usize);
        let (written_bytes, hit_ratio) = (bytes(written), ratio(hits));
        figures.push(ReferenceFigures { name: super::LRU_OF_CONTENT, written_bytes, hit_ratio });
    }
    let conquest = conquest_rule::counts(&trace, memory_pages);
    figures.push(ReferenceFigures {
        name: super::CONQUEST,
        written_bytes: bytes(conquest.written_pages),
        hit_ratio: ratio(conquest.probe_hits),
    });
    let before: Vec<TraceStep> = trace.fill.iter().chain(&trace.run).copied().collect();
    figures.push(ReferenceFigures {
        name: crate::report::BOUND,
        written_bytes: bytes(fewest_written(memory_pages, &trace.run)),
        hit_ratio: ratio(most_hits(memory_pages, &before, &trace.probes)),
    });
    Some(LoadReferences { figures, small_below: conquest.small_below })
}

/// Returns the pages that a least recently used memory writes for the measured requests, and its hits of random reads.
fn lru(trace: &LoadTrace, capacity: usize) -> (u64, u64) {
    let mut lru = ExactLru::new(capacity);
    let mut carry_out = |steps: &[TraceStep]| {
        for step in steps {
            match step.verb {
                TraceVerb::Read => step.pages().for_each(|page| lru.request(page, true)),
                TraceVerb::Write => step.pages().for_each(|page| lru.request(page, false)),
                TraceVerb::Remove => lru.forget(step.pages()),
                // What is in memory is durable.
                TraceVerb::Sync => {}
            }
        }
        lru.drain()
    };
    carry_out(&trace.fill);
    (carry_out(&trace.run).written_pages, carry_out(&trace.probes).hits)
}
