//! Files that are reached by several ways at once.

use crate::direct::{Place, counted, python};
use crate::mount::can_mount;
use crate::server::assert_sound;

/// Appends records and looks for torn ones.
const RECORDS: &str = include_str!("direct/records.py");

/// FG11: the kernel makes two requests of an append that begins within a page.
#[test]
fn an_append_through_the_mount_is_whole_beside_direct_ones() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = place.start();
    for size in ["6000", "3000", "6000"] {
        let (told, counts) = counted(python(RECORDS, &place.at.join("records")).arg(size));
        println!("{counts}");
        assert_eq!(told, "True 0\n", "FG11: all bytes are there, and none are torn: {size}");
        let both = ["direct", "mount"].map(|way| counts[way]["calls"].as_u64());
        assert!(both.iter().all(|calls| *calls > Some(100)), "both ways were used: {counts}");
    }
    server.interrupt();
    assert_sound(&place.pool);
}
