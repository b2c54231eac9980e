//! Identities as people write them.

use super::*;

#[test]
fn an_identity_is_written_in_five_groups() {
    let uuid = [0x24, 0xd8, 0x2a, 0xb2, 0x3d, 0xfc, 0x4e, 0xb6, 0xbf, 0x3f, 0x93, 0xf2, 0x34, 0xd9, 0x60, 0x0d];
    assert_eq!(show_uuid(&uuid), "24d82ab2-3dfc-4eb6-bf3f-93f234d9600d");
    assert_eq!(show_uuid(&[0; 16]), "00000000-0000-0000-0000-000000000000");
}
