//! The survey of a pool: the holders of its pages, and the tags that may be moved (X3).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::check::TagOwners;
use crate::extent::{Extent, page_at};
use crate::layout::{CHUNK_PAGES, PAGE, is_meta};
use crate::page_allocator::ChunkUse;
use crate::tag::Tag;
use crate::tag_table::TagEntry;
use crate::{Error, Pool};

/// A holder of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageHolder {
    /// A tag, for its own space.
    Tag(Arc<str>),
    /// A tag, for the list of its extents.
    List(Arc<str>),
    /// The tag table, for its page of this number.
    Table(usize),
    /// A grant.
    Grant,
}

/// The reasons why tags stay in place, by name.
pub(super) type RefusedTags = BTreeMap<Arc<str>, String>;

/// The state of a pool at the start of a sweep, kept up to date by it.
#[derive(Debug, Default)]
pub(super) struct PoolSurvey {
    /// By first page: the page after the last, and the holder.
    holders: BTreeMap<u64, (u64, PageHolder)>,
    /// The tags that may be moved, by name.
    pub movable: Vec<Arc<Tag>>,
    /// Chunks with data that has to stay.
    pub fixed: BTreeSet<u64>,
    /// The use of each chunk.
    pub kinds: Vec<ChunkUse>,
    /// For each chunk, true if it is free.
    pub idle: Vec<bool>,
}

impl PoolSurvey {
    /// Surveys `pool`. Adds tags that have to stay in place to `refused`.
    pub fn of(pool: &Pool, owners: &TagOwners, refused: &mut RefusedTags) -> Self {
        let mut survey = Self { kinds: pool.space().kinds(), idle: pool.space().idle(), ..Self::default() };
        let metas = (0..survey.kinds.len() as u64).filter(|chunk| is_meta(*chunk));
        survey.fixed.extend(metas);
        for extent in pool.grants().own_extents() {
            survey.enter(extent, PageHolder::Grant);
            survey.fix(&[extent]);
        }
        let table = pool.table();
        for (index, page) in table.pages.iter().enumerate().skip(1) {
            survey.enter(page_at(*page), PageHolder::Table(index));
        }
        for (name, entry) in &table.tags {
            survey.learn(entry);
            if let Some(why) = why_fixed(pool, owners, &entry.tag) {
                refused.entry(name.as_str().into()).or_insert(why);
            }
            match refused.contains_key(name.as_str()) {
                true => survey.fix(&entry.tag.extents),
                false => survey.movable.push(Arc::clone(&entry.tag)),
            }
        }
        survey
    }

    /// Returns the first holder of pages in `pages`, and its pages.
    pub fn first_in(&self, pages: &Range<u64>) -> Option<(PageHolder, Range<u64>)> {
        if pages.is_empty() {
            return None;
        }
        let reaches_in = self.holders.range(..=pages.start).next_back().filter(|(_, (end, _))| *end > pages.start);
        let (first, (end, who)) = reaches_in.or_else(|| self.holders.range(pages.clone()).next())?;
        Some((who.clone(), (*first).max(pages.start)..(*end).min(pages.end)))
    }

    /// Returns all holders of pages in `pages`, and their pages.
    pub fn all_in(&self, pages: Range<u64>) -> impl Iterator<Item = (PageHolder, Range<u64>)> {
        let mut rest = pages;
        std::iter::from_fn(move || {
            let found = self.first_in(&rest)?;
            rest.start = found.1.end;
            Some(found)
        })
    }

    /// Records that a tag was moved.
    pub fn relocated(&mut self, old: &TagEntry, new: &TagEntry) {
        for extent in old.tag.extents.iter().chain(&old.overflow) {
            self.holders.remove(&extent.page);
        }
        self.learn(new);
    }

    /// Records that a page of the tag table was moved.
    pub fn table_moved(&mut self, index: usize, to: Extent) {
        self.holders.retain(|_, (_, who)| *who != PageHolder::Table(index));
        self.enter(to, PageHolder::Table(index));
    }

    fn learn(&mut self, entry: &TagEntry) {
        let name: Arc<str> = entry.tag.name.as_str().into();
        entry.tag.extents.iter().for_each(|extent| self.enter(*extent, PageHolder::Tag(Arc::clone(&name))));
        entry.overflow.iter().for_each(|extent| self.enter(*extent, PageHolder::List(Arc::clone(&name))));
    }

    fn enter(&mut self, extent: Extent, who: PageHolder) {
        self.holders.insert(extent.page, (extent.end(), who));
    }

    fn fix(&mut self, extents: &[Extent]) {
        let chunks = extents.iter().flat_map(|it| it.page / CHUNK_PAGES..it.end().div_ceil(CHUNK_PAGES));
        self.fixed.extend(chunks);
    }
}

/// Returns the reason why `tag` has to stay in place, if it has to.
fn why_fixed(pool: &Pool, owners: &TagOwners, tag: &Tag) -> Option<String> {
    if owners.of(tag.kind).is_none() {
        return Some(format!("it is of kind {} ({}), which this program cannot move", tag.kind.0, tag.kind.name()));
    }
    let is_granted = tag.extents.iter().any(|extent| pool.grants().touch(*extent));
    is_granted.then(|| "another process still holds a grant on it: end that first".into())
}

/// Returns true if a tag stays in place because of `error`; other errors end the defragmentation.
pub(super) fn is_refusal(error: &Error) -> bool {
    !matches!(error, Error::Medium(_) | Error::Poisoned(_) | Error::Full { .. } | Error::Limit(_))
}

/// Returns the bytes of `pages` pages.
pub(super) fn bytes(pages: u64) -> u64 {
    pages * PAGE
}
