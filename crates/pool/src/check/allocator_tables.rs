//! The allocator's tables, compared with the pages that structures name.

use ferrite_memory::Memory;

use super::check_report::{CheckFinding, Severity};
use super::page_claims::{ExpectedChunk, PageClaims, parts};
use super::table_check::PlannedRepair;
use super::word_patch::{self, WordPatch};
use crate::chunk_pages::ChunkPages;
use crate::extent::Zone;
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE, is_meta, kind_at};
use crate::page_allocator::ChunkUse;

/// A chunk by the allocator's tables.
#[derive(Clone, Copy, Debug)]
struct ChunkTables {
    number: u64,
    /// The kind; `None` for an unknown byte.
    kind: Option<ChunkUse>,
    /// The pages that the bitmap marks, for any kind.
    marked: ChunkPages,
}

impl ChunkTables {
    fn load(memory: &dyn Memory, number: u64) -> Self {
        let mut kind = [0];
        memory.load(kind_at(number), &mut kind);
        Self { number, kind: ChunkUse::from_byte(kind[0]), marked: ChunkPages::load_bitmap(memory, number) }
    }

    /// Returns the pages that are in use in `zone`.
    fn used(&self, zone: Zone) -> ChunkPages {
        match (self.kind, zone) {
            (Some(ChunkUse::Super), Zone::Super) => ChunkPages::ALL,
            (Some(ChunkUse::Normal), Zone::Normal) => self.marked,
            _ => ChunkPages::default(),
        }
    }
}

/// The allocator's tables of a pool.
pub(super) struct AllocatorTables(Vec<ChunkTables>);

impl AllocatorTables {
    /// Reads the tables of a pool of `chunks` chunks.
    pub fn load(memory: &dyn Memory, chunks: u64) -> Self {
        Self((0..chunks).map(|number| ChunkTables::load(memory, number)).collect())
    }

    /// Returns the pages of the normal zone that are in use, by their number in the pool.
    pub fn normal_pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.0
            .iter()
            .flat_map(|chunk| chunk.used(Zone::Normal).runs().flatten().map(|page| chunk.number * CHUNK_PAGES + page))
    }

    /// Returns the damage of the tables. If `complete` is true, no damage can hide a name of a page, so a page that no
    /// structure names is free.
    pub fn against(&self, claims: &PageClaims<'_>, complete: bool) -> Vec<PlannedRepair> {
        let mut found = self.unmarked(claims);
        found.extend(self.0.iter().filter_map(|chunk| wrong_kind(*chunk, claims, complete)));
        found.extend(self.leaked(claims, complete));
        found.extend(self.stray(claims, complete));
        found
    }

    /// Finds pages that a structure names but that are not in use, or not in their zone: they may be allocated again.
    fn unmarked(&self, claims: &PageClaims<'_>) -> Vec<PlannedRepair> {
        let mut found = Vec::new();
        for (extent, who) in &claims.all {
            let (mut count, mut patches) = (0, Vec::new());
            for (chunk, pages) in parts(*extent).filter(|(chunk, _)| !is_meta(*chunk)) {
                let missing = pages.without(self.0[chunk as usize].used(extent.zone));
                if !missing.is_empty() {
                    count += missing.count();
                    patches.extend(patches_for(chunk, claims));
                }
            }
            if count > 0 {
                found.push(PlannedRepair::new(
                    CheckFinding {
                        severity: Severity::Error,
                        what: format!(
                            "{count} of the {} pages of {who} from byte {:#x} on are not in use by the allocator's tables",
                            extent.pages,
                            extent.span().at
                        ),
                        at: Some(extent.span().at),
                        tag: who.tag(),
                        repaired: None,
                    },
                    patches,
                    "marked as in use",
                ));
            }
        }
        found
    }

    /// Finds pages in use that no structure names.
    fn leaked(&self, claims: &PageClaims<'_>, complete: bool) -> Option<PlannedRepair> {
        let (mut count, mut first, mut patches) = (0, None, Vec::new());
        for chunk in self.0.iter().filter(|chunk| !is_meta(chunk.number)) {
            let leaked = match (chunk.kind, claims.expected.get(&chunk.number)) {
                (Some(ChunkUse::Super), None) => ChunkPages::ALL,
                (Some(ChunkUse::Normal), None) => chunk.marked,
                (Some(ChunkUse::Normal), Some(ExpectedChunk::Normal(named))) => chunk.marked.without(*named),
                _ => ChunkPages::default(),
            };
            if let Some(run) = leaked.runs().next() {
                count += leaked.count();
                first = first.or(Some(chunk.number * CHUNK + run.start * PAGE));
                match chunk.kind {
                    Some(ChunkUse::Super) => patches.push(word_patch::kind(chunk.number, ChunkUse::Free)),
                    _ => patches.extend(word_patch::unmark(chunk.number, leaked)),
                }
            }
        }
        (count > 0).then(|| {
            let what = format!("{count} pages ({} bytes) are in use, and no tag names them", count * PAGE);
            let finding = CheckFinding { severity: Severity::Warning, what, at: first, tag: None, repaired: None };
            planned_if(complete, finding, patches, "freed")
        })
    }

    /// Finds marks in chunks without pages of 4 KiB: the marks would count once the chunk is used for pages.
    fn stray(&self, claims: &PageClaims<'_>, complete: bool) -> Option<PlannedRepair> {
        let (mut count, mut first, mut patches) = (0, None, Vec::new());
        for chunk in self.0.iter().filter(|chunk| matches!(chunk.kind, Some(ChunkUse::Free | ChunkUse::Super))) {
            let is_right = matches!(
                (chunk.kind, claims.expected.get(&chunk.number)),
                (Some(ChunkUse::Free), None) | (Some(ChunkUse::Super), None | Some(ExpectedChunk::Super))
            );
            if is_right && !is_meta(chunk.number) && !chunk.marked.is_empty() {
                count += chunk.marked.count();
                first = first.or(Some(crate::layout::bitmap_at(chunk.number)));
                patches.extend(word_patch::unmark(chunk.number, chunk.marked));
            }
        }
        (count > 0).then(|| {
            let what = format!("{count} pages are marked in chunks that have no pages in use");
            let finding = CheckFinding { severity: Severity::Warning, what, at: first, tag: None, repaired: None };
            planned_if(complete, finding, patches, "unmarked")
        })
    }
}

/// Finds a chunk of unknown kind, a chunk wrongly marked as tables, or a chunk of tables marked otherwise.
fn wrong_kind(chunk: ChunkTables, claims: &PageClaims<'_>, complete: bool) -> Option<PlannedRepair> {
    let number = chunk.number;
    let is_wrong = match chunk.kind {
        None => true,
        Some(kind) => (kind == ChunkUse::Meta) != is_meta(number),
    };
    let finding = is_wrong.then(|| CheckFinding {
        severity: Severity::Error,
        what: format!("the kind of chunk {number} is damaged"),
        at: Some(kind_at(number)),
        tag: None,
        repaired: None,
    })?;
    Some(match claims.expected.get(&number) {
        _ if is_meta(number) => PlannedRepair::new(
            finding,
            vec![word_patch::kind(number, ChunkUse::Meta)],
            "marked as one of the pool's own tables",
        ),
        None => {
            let patches =
                word_patch::unmark(number, chunk.marked).chain([word_patch::kind(number, ChunkUse::Free)]).collect();
            planned_if(complete, finding, patches, "marked as free, because no tag names a page of it")
        }
        Some(ExpectedChunk::Torn) => PlannedRepair::report_only(finding),
        Some(_) => PlannedRepair::new(finding, patches_for(number, claims), "set to the kind that its pages need"),
    })
}

/// Returns the patches that make `chunk` what the names of its pages imply. Marks of pages without a name stay.
fn patches_for(chunk: u64, claims: &PageClaims<'_>) -> Vec<WordPatch> {
    match claims.expected.get(&chunk) {
        Some(ExpectedChunk::Super) => vec![word_patch::kind(chunk, ChunkUse::Super)],
        Some(ExpectedChunk::Normal(pages)) => {
            word_patch::mark(chunk, *pages).chain([word_patch::kind(chunk, ChunkUse::Normal)]).collect()
        }
        Some(ExpectedChunk::Torn) | None => Vec::new(),
    }
}

fn planned_if(complete: bool, mut finding: CheckFinding, patches: Vec<WordPatch>, done: &str) -> PlannedRepair {
    if complete {
        return PlannedRepair::new(finding, patches, done);
    }
    finding.what += "; they may belong to a damaged tag, so they stay until that is repaired";
    PlannedRepair::report_only(finding)
}
