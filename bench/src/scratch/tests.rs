//! Folders that are dropped, and folders of killed experiments.

use super::*;

/// Memory that is left behind is lost to all programs until the next boot.
#[test]
fn nothing_is_left_behind_by_the_dropped_or_the_killed() {
    let place = tempfile::tempdir().expect("a folder");
    let killed = place.path().join(format!("{PREFIX}999999999-0"));
    fs::create_dir(&killed).expect("made");
    let scratch = Scratch::new(place.path()).expect("made");
    scratch.file("x", 100).expect("made");
    assert!(!killed.exists() && scratch.path("x").exists());
    drop(scratch);
    assert_eq!(fs::read_dir(place.path()).expect("there").count(), 0);
}
