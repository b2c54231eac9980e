//! Sizes of disks, and the folders of killed experiments.

use super::*;

#[test]
fn a_disk_has_room_for_what_its_file_system_keeps() {
    assert_eq!(EXT4.disk_bytes(100 << 20), 100 << 20);
    assert_eq!(XFS.disk_bytes(1 << 20), XFS_BYTES_MIN, "XFS is not made smaller");
    assert_eq!(XFS.disk_bytes(1 << 30), (1 << 30) + XFS_OWN_BYTES);
}

#[test]
fn mount_points_are_found_in_a_folder_and_nowhere_else() {
    assert!(points(Path::new("/")).contains(&PathBuf::from("/proc")));
    assert_eq!(points(Path::new("/proc")).last(), Some(&PathBuf::from("/proc")), "the outermost is unmounted last");
    assert!(points(Path::new("/no/such/folder")).is_empty());
}

/// A folder of a running experiment must stay when another one starts.
#[test]
fn folders_of_killed_experiments_are_cleared() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = |name: String| {
        let path = root.path().join(name);
        fs::create_dir_all(path.join("mounts/disk0")).expect("made");
        path
    };
    let (killed, running) = (folder("999999999-0".into()), folder(format!("{}-7", std::process::id())));
    clear(root.path());
    assert!(!killed.exists() && running.exists());
}
