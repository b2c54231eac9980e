use std::os::unix::fs::FileExt;

use super::*;

#[test]
fn braces_stand_for_the_path_wherever_they_are() {
    for (word, whole) in [("{}", "/r"), ("mem-path={},x={}", "mem-path=/r,x=/r"), ("{ }", "{ }"), ("", "")] {
        assert_eq!(with_path(OsStr::new(word), "/r"), whole, "{word}");
    }
}

#[test]
fn the_regions_file_has_its_size_and_refuses_writes() {
    let file = region_file(8 << 20).expect("made");
    assert_eq!(file.metadata().expect("described").len(), 8 << 20);
    assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err() && file.set_len(9 << 20).is_err());
}
