use proptest::prelude::*;

use super::*;
use crate::layout::CHUNK;
use crate::tests::format_page::{rows, table};

#[test]
fn an_extent_is_as_documented() {
    assert_eq!(table("### Extent"), rows!(ExtentMedia { page, pages, role, zone, reserved }));
}

#[test]
fn what_cannot_lie_in_the_pool_is_no_extent() {
    let media =
        |page, pages, zone| ExtentMedia { zone, ..Extent { page, pages, role: Role(3), zone: Zone::Normal }.into() };
    assert_eq!(media(5, 3, 0).extent(8), Some(Extent { page: 5, pages: 3, role: Role(3), zone: Zone::Normal }));
    for bad in
        [media(5, 4, 0), media(5, 0, 0), media(u64::MAX, 2, 0), media(5, 3, 2), media(5, 512, 1), media(512, 3, 1)]
    {
        assert_eq!(bad.extent(8.max(if bad.zone == 1 { 4096 } else { 0 })), None, "{bad:?}");
    }
}

/// Extents of two roles, apart from each other.
fn extents() -> impl Strategy<Value = Vec<Extent>> {
    prop::collection::vec((1u32..5, 0u64..3, 0u8..2), 0..8).prop_map(|list| {
        let mut page = 1;
        let extents = list.into_iter().map(|(pages, gap, role)| {
            let extent = Extent { page: page + gap, pages, role: Role(role), zone: Zone::Normal };
            page = extent.end();
            extent
        });
        extents.collect()
    })
}

proptest! {
    /// A stream is its extents one behind the other: byte by byte the same as laying them out.
    #[test]
    fn a_stream_is_its_extents_in_order(extents in extents(), at in 0u64..90_000, len in 0u64..90_000) {
        let flat: Vec<u64> = extents.iter().filter(|extent| extent.role == Role::DATA)
            .flat_map(|extent| extent.page..extent.end()).collect();
        let stream = Stream::new(&extents, Role::DATA);
        prop_assert_eq!(stream.len(), flat.len() as u64 * PAGE);
        let expected = flat.get((at / PAGE) as usize).map(|page| page * PAGE + at % PAGE);
        prop_assert_eq!(stream.locate(at).map(|span| span.at), expected);
        let mut next = at;
        for run in stream.runs(Span::new(at, len)) {
            for byte in [run.at, run.at + run.len - 1] {
                let place = next + (byte - run.at);
                prop_assert_eq!(byte, flat[(place / PAGE) as usize] * PAGE + place % PAGE);
            }
            next += run.len;
        }
        prop_assert_eq!(next - at, len.min(stream.len().saturating_sub(at)), "runs stop at the end");
        prop_assert!(stream.locate(stream.len()).is_none() && stream.len() < CHUNK);
    }
}

#[test]
fn what_is_dropped_is_what_is_not_kept() {
    let extent = |page, pages| Extent { page, pages, role: Role::DATA, zone: Zone::Super };
    let all = [extent(0, 512), extent(2048, 1536)];
    assert_eq!(dropped(&all, &all), Some(vec![]));
    assert_eq!(dropped(&all, &[extent(2560, 512)]), Some(vec![extent(0, 512), extent(2048, 512), extent(3072, 512)]));
    for wrong in [&[extent(512, 512)][..], &[extent(3072, 1024)], &[extent(0, 512), extent(0, 512)]] {
        assert_eq!(dropped(&all, wrong), None, "{wrong:?}");
    }
    assert_eq!(dropped(&all, &[Extent { role: Role::MAP, ..extent(0, 512) }]), None);
}
