use std::ffi::OsStr;

use super::*;

/// Different names stay different, and no name contains control sequences for a terminal or a picture.
#[test]
fn names_are_shown_as_they_can_be() {
    let shown = |bytes: &[u8]| shown(Path::new(OsStr::from_bytes(bytes)));
    assert_eq!(shown("hm_0 <&> \u{e4}\u{4e00}".as_bytes()), "hm_0 <&> \u{e4}\u{4e00}");
    assert_eq!(shown(b"bad\xff\x1b[31m\n"), "bad\\xff\\u{1b}[31m\\n");
    assert_ne!(shown(b"bad\xff"), shown(b"bad\xfe"));
}
