//! Pieces of streams: the places of a tag's pages.

use std::collections::BTreeMap;
use std::ops::Range;

use ferrite_memory::Span;

use crate::extent::{Extent, Role, Zone};

/// A run of pages, and its position in the stream of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamPiece {
    /// First page, counted from the stream's start.
    pub at: u64,
    pub extent: Extent,
}

/// Pages of a stream that move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamPart {
    pub role: Role,
    /// First page, counted from the stream's start.
    pub at: u64,
    /// The new places.
    pub to: Vec<Extent>,
}

/// Neighbours of one zone in a stream, in any places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneRun {
    pub role: Role,
    /// First page, counted from the stream's start.
    pub at: u64,
    pub pages: u64,
    /// The place of its first page in the pool.
    pub page: u64,
    pub extents: u64,
}

impl StreamPiece {
    /// Returns the part of the piece in pages `range` of its stream, if any.
    pub fn of_stream(self, range: &Range<u64>) -> Option<Self> {
        let (first, end) = (self.at.max(range.start), (self.at + u64::from(self.extent.pages)).min(range.end));
        (first < end).then(|| {
            let (page, pages) = (self.extent.page + first - self.at, (end - first) as u32);
            Self { at: first, extent: Extent { page, pages, ..self.extent } }
        })
    }

    /// Returns the part of the piece in pages `range` of the pool, if any.
    pub fn of_pool(self, range: &Range<u64>) -> Option<Self> {
        let (first, end) = (self.extent.page.max(range.start), self.extent.end().min(range.end));
        (first < end).then(|| Self {
            at: self.at + first - self.extent.page,
            extent: Extent { page: first, pages: (end - first) as u32, ..self.extent },
        })
    }
}

/// Returns the pieces of a tag with these extents, one for each extent.
pub(super) fn pieces(extents: &[Extent]) -> Vec<StreamPiece> {
    let mut ends = BTreeMap::<Role, u64>::new();
    let pieces = extents.iter().map(|extent| {
        let end = ends.entry(extent.role).or_default();
        let at = *end;
        *end += u64::from(extent.pages);
        StreamPiece { at, extent: *extent }
    });
    pieces.collect()
}

/// Returns the runs of `zone` in a tag with these extents.
pub(super) fn runs(extents: &[Extent], zone: Zone) -> Vec<ZoneRun> {
    let (mut found, mut open) = (Vec::<ZoneRun>::new(), BTreeMap::<Role, usize>::new());
    for StreamPiece { at, extent } in pieces(extents) {
        if extent.zone != zone {
            open.remove(&extent.role);
            continue;
        }
        let run = *open.entry(extent.role).or_insert_with(|| {
            found.push(ZoneRun { role: extent.role, at, pages: 0, page: extent.page, extents: 0 });
            found.len() - 1
        });
        found[run].pages += u64::from(extent.pages);
        found[run].extents += 1;
    }
    found
}

/// Returns `extents` sorted by role, neighbours joined. The streams stay the same.
pub(super) fn joined(extents: &[Extent]) -> Vec<Extent> {
    let (mut sorted, mut joined) = (extents.to_vec(), Vec::<Extent>::new());
    sorted.sort_by_key(|extent| extent.role);
    for extent in sorted {
        match joined.last_mut() {
            Some(last) if last.continues_in(extent) => last.pages += extent.pages,
            _ => joined.push(extent),
        }
    }
    joined
}

/// Returns `extents` with `part` in its new place, joined, and the extents that it leaves.
pub(super) fn replaced(extents: &[Extent], part: &StreamPart) -> (Vec<Extent>, Vec<Extent>) {
    let pages: u64 = part.to.iter().map(|extent| u64::from(extent.pages)).sum();
    let (before, range, behind) = (0..part.at, part.at..part.at + pages, part.at + pages..u64::MAX);
    let (mut new, mut left) = (Vec::new(), Vec::new());
    for piece in pieces(extents) {
        if piece.extent.role != part.role {
            new.push(piece.extent);
            continue;
        }
        new.extend(piece.of_stream(&before).map(|kept| kept.extent));
        if let Some(old) = piece.of_stream(&range) {
            if left.is_empty() {
                new.extend(&part.to);
            }
            left.push(old.extent);
        }
        new.extend(piece.of_stream(&behind).map(|kept| kept.extent));
    }
    (joined(&new), left)
}

/// Returns the copies, from and to, that move the bytes of `old` to `new` in the same order.
pub(super) fn copies(old: &[Extent], new: &[Extent]) -> Vec<(Span, Span)> {
    let (mut copies, mut from) = (Vec::new(), old.iter().map(|extent| extent.span()));
    let mut rest = Span::new(0, 0);
    for mut to in new.iter().map(|extent| extent.span()) {
        while to.len > 0 {
            if rest.len == 0 {
                rest = from.next().expect("as many pages as before");
            }
            let len = to.len.min(rest.len);
            copies.push((Span::new(rest.at, len), Span::new(to.at, len)));
            (rest, to) = (Span::new(rest.at + len, rest.len - len), Span::new(to.at + len, to.len - len));
        }
    }
    copies
}

#[cfg(test)]
mod tests;
