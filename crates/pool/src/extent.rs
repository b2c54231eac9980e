//! Runs of pages, and the streams that they make up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use ferrite_memory::Span;

use crate::layout::{CHUNK_PAGES, PAGE};

/// The use of an extent within its tag. A tag's stream of a role consists of its extents of that role, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role(pub u8);

impl Role {
    /// The content itself.
    pub const DATA: Self = Self(0);
    /// The data that locates the content.
    pub const MAP: Self = Self(1);
}

/// The zone that pages are allocated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    /// Pages of 4 KiB.
    Normal = 0,
    /// Chunks of 2 MiB.
    Super = 1,
}

/// A run of pages in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "ExtentTuple", into = "ExtentTuple")]
pub struct Extent {
    /// First page, counted from the start of the pool.
    pub page: u64,
    /// Pages in the run.
    pub pages: u32,
    /// The use of the run.
    pub role: Role,
    /// The zone of the run. An extent of the super zone consists of whole chunks.
    pub zone: Zone,
}

impl Extent {
    /// Returns the extent's bytes in the pool.
    pub fn span(self) -> Span {
        Span::new(self.page * PAGE, u64::from(self.pages) * PAGE)
    }

    /// Returns true if the extent lies in a pool of `pages` pages.
    pub fn is_within(self, pages: u64) -> bool {
        self.page.checked_add(self.pages.into()).is_some_and(|end| end <= pages)
    }

    /// Returns true if `next` continues the same run.
    pub(crate) fn continues_in(self, next: Self) -> bool {
        let crosses = self.zone == Zone::Normal && next.page.is_multiple_of(CHUNK_PAGES);
        let fits = self.pages.checked_add(next.pages).is_some();
        self.end() == next.page && (self.role, self.zone) == (next.role, next.zone) && fits && !crosses
    }

    /// Returns the page after the last one.
    pub fn end(self) -> u64 {
        self.page + u64::from(self.pages)
    }
}

/// An extent in a message: page, pages, role, and true for the super zone.
type ExtentTuple = (u64, u32, u8, bool);

impl From<ExtentTuple> for Extent {
    fn from(tuple: ExtentTuple) -> Self {
        let (page, pages, role, is_super) = tuple;
        Self { page, pages, role: Role(role), zone: if is_super { Zone::Super } else { Zone::Normal } }
    }
}

impl From<Extent> for ExtentTuple {
    fn from(it: Extent) -> Self {
        (it.page, it.pages, it.role.0, it.zone == Zone::Super)
    }
}

/// Returns the extent of the single page at byte `at`.
pub(crate) fn page_at(at: u64) -> Extent {
    Extent { page: at / PAGE, pages: 1, role: Role::MAP, zone: Zone::Normal }
}

/// Returns the parts of `extents` that are not in `keep`, or `None` if `keep` is not part of them or repeats a part.
pub(crate) fn dropped(extents: &[Extent], keep: &[Extent]) -> Option<Vec<Extent>> {
    let mut left: BTreeMap<u64, Extent> = extents.iter().map(|extent| (extent.page, *extent)).collect();
    for kept in keep {
        let (page, whole) = left.range(..=kept.page).next_back().map(|(page, extent)| (*page, *extent))?;
        if (whole.role, whole.zone) != (kept.role, kept.zone) || kept.end() > whole.end() {
            return None;
        }
        left.remove(&page);
        for (start, end) in [(whole.page, kept.page), (kept.end(), whole.end())] {
            if start < end {
                left.insert(start, Extent { page: start, pages: (end - start) as u32, ..whole });
            }
        }
    }
    Some(left.into_values().collect())
}

/// An extent on the medium.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExtentMedia {
    page: U64,
    pages: U32,
    role: u8,
    zone: u8,
    reserved: [u8; 2],
}

impl From<Extent> for ExtentMedia {
    fn from(extent: Extent) -> Self {
        Self {
            page: extent.page.into(),
            pages: extent.pages.into(),
            role: extent.role.0,
            zone: extent.zone as u8,
            reserved: [0; 2],
        }
    }
}

impl ExtentMedia {
    /// Returns the extent, or `None` if a pool of `pages` pages cannot have it.
    pub fn extent(self, pages: u64) -> Option<Extent> {
        let zone = match self.zone {
            0 => Zone::Normal,
            1 => Zone::Super,
            _ => return None,
        };
        let extent = Extent { page: self.page.get(), pages: self.pages.get(), role: Role(self.role), zone };
        let whole = zone == Zone::Normal
            || (extent.page.is_multiple_of(CHUNK_PAGES) && u64::from(extent.pages).is_multiple_of(CHUNK_PAGES));
        (whole && extent.is_within(pages) && extent.pages > 0).then_some(extent)
    }
}

/// The extents of one role as one run of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// For each extent, its end in the stream and its bytes in the pool.
    parts: Vec<(u64, Span)>,
}

impl Stream {
    /// Returns the stream of `role` among `extents`.
    pub fn new(extents: &[Extent], role: Role) -> Self {
        let mut end = 0;
        let parts = extents.iter().filter(|extent| extent.role == role).map(|extent| {
            end += extent.span().len;
            (end, extent.span())
        });
        Self { parts: parts.collect() }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.parts.last().map_or(0, |(end, _)| *end)
    }

    /// Returns true if the stream has no bytes.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the bytes of the pool from the stream's byte `at` to the end of its extent, or `None` behind the
    /// stream's end.
    pub fn locate(&self, at: u64) -> Option<Span> {
        let part = self.parts.partition_point(|(end, _)| *end <= at);
        let (end, span) = self.parts.get(part)?;
        let left = end - at;
        Some(Span::new(span.at + span.len - left, left))
    }

    /// Returns the runs in the pool that make up `span` of the stream, up to the stream's end.
    pub fn runs(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        let (mut at, mut left) = (span.at, span.len);
        std::iter::from_fn(move || {
            let run = self.locate(at).filter(|_| left > 0)?;
            let len = run.len.min(left);
            (at, left) = (at + len, left - len);
            Some(Span::new(run.at, len))
        })
    }
}

#[cfg(test)]
mod tests;
