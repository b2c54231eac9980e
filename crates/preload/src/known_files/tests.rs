use super::*;

/// Returns the kernel's data about inode 7 of `device` on `mount`.
fn found(device: u32, mount: u64) -> libc::statx {
    let file = tempfile::tempfile().expect("a file");
    let mut found = asked(std::os::fd::AsRawFd::as_raw_fd(&file)).expect("told");
    (found.stx_dev_major, found.stx_dev_minor, found.stx_ino) = (0, device, 7);
    (found.stx_mnt_id, found.stx_mask) = (mount, MOUNT);
    found
}

/// Mounts of one file system, as by `mount --bind`, have the same files; a file that is mapped through one of them is
/// mapped in all.
#[test]
fn a_file_is_the_same_one_by_all_mounts_of_its_file_system() {
    let mut known = KnownFiles::default();
    for mount in 1..4 {
        known.mounts.insert(mount, Some(Arc::new(FerriteMount::nowhere())));
    }
    let mut file = |device, mount| known.file(&found(device, mount)).expect("ours");
    let (one, bound, other) = (file(50, 1), file(50, 2), file(51, 3));
    assert!(one.0 == bound.0 && Arc::ptr_eq(&one.1, &bound.1));
    assert!(one.0 != other.0 && !Arc::ptr_eq(&one.1, &other.1));
}
