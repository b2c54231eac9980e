use super::*;

/// A mount point with a blank in its name is found, and unmounted, under its real name.
#[test]
fn reads_a_line_with_escapes_and_optional_fields() {
    let line = br"36 35 7:3 / /mnt/a\040b\134c rw,noatime shared:1 master:2 - ext4 /dev/loop3 rw,errors=continue";
    let mount = MountEntry::parse(line).expect("a whole line");
    assert_eq!(mount.device, libc::makedev(7, 3));
    assert_eq!(mount.point, Path::new(r"/mnt/a b\c"));
    assert_eq!((mount.kind.as_str(), mount.source.as_path()), ("ext4", Path::new("/dev/loop3")));
}

/// A mount in an exported folder goes with its peers. A mount that was bound elsewhere by hand stays.
#[test]
fn what_shares_a_folder_goes_with_it() {
    let table = [
        "1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw",
        "2 1 8:1 /srv /export rw shared:1 - ext4 /dev/sda1 rw",
        "3 1 8:1 /srv /slave rw master:1 - ext4 /dev/sda1 rw",
        "4 1 8:1 /srv /private rw - ext4 /dev/sda1 rw",
        "5 1 0:50 / /srv/mnt rw shared:9 - fuse.ferrite pool rw",
        "6 2 0:50 / /export/mnt rw shared:9 - fuse.ferrite pool rw",
        "7 3 0:50 / /slave/mnt rw master:9 - fuse.ferrite pool rw",
        "8 4 0:50 / /private/mnt rw shared:9 - fuse.ferrite pool rw",
        "9 1 0:50 / /srv/copy rw shared:9 - fuse.ferrite pool rw",
        "10 99 0:50 / /elsewhere rw shared:9 - fuse.ferrite pool rw",
    ];
    let all: Vec<MountEntry> = table.iter().filter_map(|line| MountEntry::parse(line.as_bytes())).collect();
    let going: Vec<u64> = all.iter().filter(|mount| mount.goes_with(&all[4], &all)).map(|mount| mount.id).collect();
    assert_eq!(going, [5, 6, 7]);
}

/// A `stat` of a path on a mount whose server is gone waits forever.
#[test]
fn what_may_lie_on_a_mount_is_no_device() {
    assert!(["/dev/sda1", "/dev/mapper/a", "/dev/ferrite/disk0"].iter().all(|path| may_be_a_device(Path::new(path))));
    assert!(["/dev/shm/mnt/file", "/mnt/dev/sda1", "pipe:[7]"].iter().all(|path| !may_be_a_device(Path::new(path))));
}

#[test]
fn lines_cut_short_are_skipped() {
    for line in [&b""[..], b"36 35", b"36 35 7:3 / /mnt rw -", b"36 35 x:y / /mnt rw - ext4 /dev/loop3 rw"] {
        assert_eq!(MountEntry::parse(line), None);
    }
}
