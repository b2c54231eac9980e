//! The slot's bytes against docs/format.md.

use super::*;
use crate::tests::format_page::{rows, table};

#[test]
fn a_slot_is_as_documented() {
    let expected = rows!(GrantSlot {
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

/// A serial behind which no other fits is no grant's.
#[test]
fn a_serial_that_nobody_counts_up_to_is_refused() {
    let decoded = |serial: u64| {
        let mut slot = GrantSlot::new_zeroed();
        (slot.rights, slot.serial) = (1.into(), serial.into());
        decode_slot(&slot.seal(), 0, 100)
    };
    assert!(decoded(SERIAL_BOUND - 1).unwrap().is_some());
    for serial in [SERIAL_BOUND, u64::MAX] {
        assert!(decoded(serial).unwrap_err().to_string().contains("the grant slot (serial)"));
    }
}
