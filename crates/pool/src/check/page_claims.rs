//! The pages that structures of the pool name.

use std::collections::BTreeMap;
use std::fmt;

use crate::chunk_pages::ChunkPages;
use crate::extent::{Extent, Zone, page_at};
use crate::layout::{CHUNK_PAGES, is_meta};
use crate::tag_table::TagTable;

/// A structure that names pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PageClaimant<'a> {
    /// The tag with this name.
    Tag(&'a str),
    /// The tag table.
    Table,
    /// A grant.
    Grant,
}

impl PageClaimant<'_> {
    /// Returns the tag's name, if it is a tag.
    pub fn tag(self) -> Option<String> {
        if let Self::Tag(name) = self { Some(name.into()) } else { None }
    }
}

impl fmt::Display for PageClaimant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(name) => write!(f, "tag {name:?}"),
            Self::Table => f.write_str("the tag table"),
            Self::Grant => f.write_str("a grant"),
        }
    }
}

/// The state of a chunk that the names of its pages imply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedChunk {
    /// One superpage.
    Super,
    /// These pages of it.
    Normal(ChunkPages),
    /// Both at once, which is a contradiction.
    Torn,
}

/// Every page that a structure names.
pub(super) struct PageClaims<'a> {
    /// The named extents, in order of pages.
    pub all: Vec<(Extent, PageClaimant<'a>)>,
    /// The implied state of each chunk; all other chunks have to be free.
    pub expected: BTreeMap<u64, ExpectedChunk>,
}

/// Pages that two structures name.
pub(super) struct DoubleClaim<'a> {
    pub page: u64,
    pub pages: u64,
    pub by: [PageClaimant<'a>; 2],
}

impl<'a> PageClaims<'a> {
    /// Returns the pages that `table` and `grants` name.
    pub fn of(table: &'a TagTable, grants: &[Extent]) -> Self {
        let chained = table.pages.iter().skip(1).map(|page| (page_at(*page), PageClaimant::Table));
        let tags = table.tags.iter().flat_map(|(name, entry)| {
            entry.tag.extents.iter().chain(&entry.overflow).map(move |extent| (*extent, PageClaimant::Tag(name)))
        });
        let grants = grants.iter().map(|extent| (*extent, PageClaimant::Grant));
        let mut all: Vec<(Extent, PageClaimant<'a>)> = chained.chain(tags).chain(grants).collect();
        all.sort_unstable();
        let mut expected = BTreeMap::new();
        all.iter().for_each(|(extent, _)| expect(&mut expected, *extent));
        Self { all, expected }
    }

    /// Returns the pages that two structures name.
    pub fn doubles(&self) -> Vec<DoubleClaim<'a>> {
        let (mut doubles, mut reach) = (Vec::new(), None::<(u64, PageClaimant<'a>)>);
        for (extent, who) in &self.all {
            if let Some((end, other)) = reach.filter(|(end, _)| *end > extent.page) {
                let pages = end.min(extent.end()) - extent.page;
                doubles.push(DoubleClaim { page: extent.page, pages, by: [other, *who] });
            }
            reach = reach.filter(|(end, _)| *end >= extent.end()).or(Some((extent.end(), *who)));
        }
        doubles
    }

    /// Returns true if a structure names `page`.
    pub fn names(&self, page: u64) -> bool {
        match self.expected.get(&(page / CHUNK_PAGES)) {
            Some(ExpectedChunk::Normal(pages)) => pages.contains(page % CHUNK_PAGES),
            other => other.is_some(),
        }
    }

    /// Returns the named extents that overlap the pool's own tables.
    pub fn in_tables(&self) -> impl Iterator<Item = (Extent, PageClaimant<'a>)> + '_ {
        self.all.iter().copied().filter(|(extent, _)| parts(*extent).any(|(chunk, _)| is_meta(chunk)))
    }
}

/// Returns the chunks of `extent`, with its pages in each.
pub(super) fn parts(extent: Extent) -> impl Iterator<Item = (u64, ChunkPages)> {
    let (first, end) = (extent.page / CHUNK_PAGES, extent.end().div_ceil(CHUNK_PAGES));
    (first..end).map(move |chunk| {
        let (start, mut pages) = (chunk * CHUNK_PAGES, ChunkPages::default());
        pages.insert(extent.page.max(start) - start..extent.end().min(start + CHUNK_PAGES) - start);
        (chunk, pages)
    })
}

fn expect(expected: &mut BTreeMap<u64, ExpectedChunk>, extent: Extent) {
    for (chunk, mut pages) in parts(extent) {
        let now = match (extent.zone, expected.get(&chunk)) {
            (Zone::Super, None | Some(ExpectedChunk::Super)) => ExpectedChunk::Super,
            (Zone::Normal, None) => ExpectedChunk::Normal(pages),
            (Zone::Normal, Some(ExpectedChunk::Normal(others))) => {
                others.runs().for_each(|run| pages.insert(run));
                ExpectedChunk::Normal(pages)
            }
            _ => ExpectedChunk::Torn,
        };
        expected.insert(chunk, now);
    }
}
