//! Pieces of streams: which pages of a tag lie where.

use std::collections::BTreeMap;
use std::ops::Range;

use ferrite_memory::Span;

use crate::extent::{Extent, Role, Zone};

/// A run of pages, and where it is in the stream of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First page, counted from the stream's start.
    pub at: u64,
    pub extent: Extent,
}

/// Pages of a stream that are to lie somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub role: Role,
    /// First page, counted from the stream's start.
    pub at: u64,
    /// Where they are to lie.
    pub to: Vec<Extent>,
}

/// Neighbours of one zone in a stream, wherever they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub role: Role,
    /// First page, counted from the stream's start.
    pub at: u64,
    pub pages: u64,
    /// Where its first page lies in the pool.
    pub page: u64,
    pub extents: u64,
}

impl Piece {
    /// What of it is in pages `range` of its stream.
    pub fn of_stream(self, range: &Range<u64>) -> Option<Self> {
        let (first, end) = (self.at.max(range.start), (self.at + u64::from(self.extent.pages)).min(range.end));
        (first < end).then(|| {
            let (page, pages) = (self.extent.page + first - self.at, (end - first) as u32);
            Self { at: first, extent: Extent { page, pages, ..self.extent } }
        })
    }

    /// What of it lies in pages `range` of the pool.
    pub fn of_pool(self, range: &Range<u64>) -> Option<Self> {
        let (first, end) = (self.extent.page.max(range.start), self.extent.end().min(range.end));
        (first < end).then(|| Self {
            at: self.at + first - self.extent.page,
            extent: Extent { page: first, pages: (end - first) as u32, ..self.extent },
        })
    }
}

/// The pieces of a tag with these extents, an extent each.
pub(super) fn pieces(extents: &[Extent]) -> Vec<Piece> {
    let mut ends = BTreeMap::<Role, u64>::new();
    let pieces = extents.iter().map(|extent| {
        let end = ends.entry(extent.role).or_default();
        let at = *end;
        *end += u64::from(extent.pages);
        Piece { at, extent: *extent }
    });
    pieces.collect()
}

/// The runs of `zone` in a tag with these extents.
pub(super) fn runs(extents: &[Extent], zone: Zone) -> Vec<Run> {
    let (mut found, mut open) = (Vec::<Run>::new(), BTreeMap::<Role, usize>::new());
    for Piece { at, extent } in pieces(extents) {
        if extent.zone != zone {
            open.remove(&extent.role);
            continue;
        }
        let run = *open.entry(extent.role).or_insert_with(|| {
            found.push(Run { role: extent.role, at, pages: 0, page: extent.page, extents: 0 });
            found.len() - 1
        });
        found[run].pages += u64::from(extent.pages);
        found[run].extents += 1;
    }
    found
}

/// `extents` role by role, neighbours joined. The streams are the same.
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

/// `extents` with `part` where it is to lie, joined; and the extents that this leaves.
pub(super) fn replaced(extents: &[Extent], part: &Part) -> (Vec<Extent>, Vec<Extent>) {
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

/// What is copied where, so that the bytes at `old` come to lie at `new` in the same order.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(page: u64, pages: u32, role: u8) -> Extent {
        Extent { page, pages, role: Role(role), zone: Zone::Normal }
    }

    /// The page of every page of every stream.
    fn streams(extents: &[Extent]) -> BTreeMap<(Role, u64), u64> {
        let pieces = pieces(extents).into_iter();
        pieces
            .flat_map(|it| (0..it.extent.pages.into()).map(move |i| ((it.extent.role, it.at + i), it.extent.page + i)))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// X1: page by page, only the part lies elsewhere, and what it leaves is where it was.
        #[test]
        fn x1_a_part_is_replaced_and_nothing_else(
            shape in prop::collection::vec((1u32..6, 0u8..2, 0u64..2), 1..9), at in 0u64..12, sizes in prop::collection::vec(1u32..4, 1..4)
        ) {
            let mut page = 0;
            let extents: Vec<Extent> = shape.into_iter().map(|(pages, role, gap)| {
                page += u64::from(pages) + gap;
                extent(page - u64::from(pages), pages, role)
            }).collect();
            let mut to_page = 1000;
            let to: Vec<Extent> = sizes.into_iter().map(|pages| {
                to_page += 10;
                extent(to_page, pages, 0)
            }).collect();
            let (before, pages) = (streams(&extents), to.iter().map(|it| u64::from(it.pages)).sum::<u64>());
            prop_assume!((at..at + pages).all(|page| before.contains_key(&(Role(0), page))));
            let (new, left) = replaced(&extents, &Part { role: Role(0), at, to: to.clone() });
            let mut expected = before.clone();
            let places = to.iter().flat_map(|it| it.page..it.end());
            for (page, place) in (at..at + pages).zip(places) {
                expected.insert((Role(0), page), place);
            }
            prop_assert_eq!(streams(&new), expected);
            let was: Vec<u64> = left.iter().flat_map(|it| it.page..it.end()).collect();
            prop_assert_eq!(was, (at..at + pages).map(|page| before[&(Role(0), page)]).collect::<Vec<_>>());
            let copied: u64 = copies(&left, &to).iter().map(|(from, to)| { assert_eq!(from.len, to.len); from.len }).sum();
            prop_assert_eq!(copied, pages * crate::layout::PAGE);
        }
    }

    #[test]
    fn runs_are_of_one_zone_and_one_role() {
        let superpage = Extent { page: 1024, pages: 512, role: Role::DATA, zone: Zone::Super };
        let extents = [extent(3, 2, 0), extent(9, 1, 1), extent(20, 4, 0), superpage, extent(40, 1, 0)];
        let run = |role, at, pages, page, extents| Run { role: Role(role), at, pages, page, extents };
        assert_eq!(runs(&extents, Zone::Normal), [run(0, 0, 6, 3, 2), run(1, 0, 1, 9, 1), run(0, 518, 1, 40, 1)]);
        assert_eq!(runs(&extents, Zone::Super), [run(0, 6, 512, 1024, 1)]);
    }
}
