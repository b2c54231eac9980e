//! The tag table's bytes against docs/format.md.

use super::*;
use crate::tag_table::encode_header;
use crate::tests::format_page::{rows, table};

#[test]
fn a_slot_is_as_documented() {
    let expected = rows!(TagSlot {
        crc,
        kind,
        name_len,
        size,
        generation,
        overflow,
        extents,
        reserved,
        reserved2,
        attributes,
        inline,
        name,
        reserved3
    });
    assert_eq!(table("### Tag slot"), expected);
}

#[test]
fn a_page_of_extents_is_as_documented() {
    assert_eq!(table("### Page of extents"), rows!(OverflowPage { crc, extents, next, reserved, extent }));
}

#[test]
fn a_tag_page_is_as_documented() {
    let rows = table("### Tag page");
    let header = encode_header(0x1234_5000);
    let part = |index: usize| &header[rows[index].0 as usize..][..rows[index].1 as usize];
    assert_eq!((part(0), part(2)), (&b"TAGS"[..], &0x1234_5000_u64.to_le_bytes()[..]));
    let mut without = header;
    without[4..8].fill(0);
    assert_eq!(part(1), crc32fast::hash(&without).to_le_bytes());
    let slots = crate::tag_table::SLOTS * SLOT_BYTES as u64;
    assert_eq!((rows[3].0, rows[3].1), (crate::tag_table::FIRST, slots));
    assert_eq!((rows[4].0, rows[4].1), (crate::tag_table::copies(rows[3].0)[1], slots));
}
