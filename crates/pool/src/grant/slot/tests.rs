//! The slot's bytes against docs/format.md.

use super::*;
use crate::proof::page::{rows, table};

#[test]
fn a_slot_is_as_documented() {
    let expected = rows!(Slot {
        crc,
        rights,
        serial,
        tag_generation,
        pid,
        namespace,
        start_ticks,
        boot_id,
        extents,
        reserved,
        overflow,
        unused,
        inline
    });
    assert_eq!(table("### Grant slot"), expected);
}
