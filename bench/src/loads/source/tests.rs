//! Parts of a source tree.

use std::process::Command;

use super::*;

/// A tree that does not unpack, or that is larger than was asked for, fails the loads on it.
#[test]
fn a_part_of_a_tree_unpacks() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    for bytes in [64 << 10, 1 << 20] {
        let scratch = Scratch::new(folder.path()).expect("made");
        let Some(archive) = make(&scratch, bytes).expect("it is made") else {
            return println!("not tested: this machine has no source");
        };
        let len = std::fs::metadata(&archive).expect("there").len();
        assert!(len > bytes / 2 && len < bytes + (64 << 10), "{len} of {bytes}");
        let home = scratch.folder("home").expect("made");
        program::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&home)).expect("it unpacks");
        assert!(std::fs::read_dir(home).expect("there").count() > 0, "{bytes}");
    }
}
