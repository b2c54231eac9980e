use super::*;

#[test]
fn a_line_is_read_whatever_is_optional_in_it() {
    let line = br"36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
    let mount = MountLine::parse(line).expect("a mount");
    assert_eq!((mount.id, mount.major, mount.minor, mount.kind.as_str()), (36, 98, 0, "ext3"));
    assert_eq!((mount.parent, &mount.groups[..]), (35, &["master:1".to_owned(), "shared:2".to_owned()][..]));
    assert_eq!((&mount.point, &mount.source), (&PathBuf::from("/mnt 2\\x"), &PathBuf::from("/dev/root")));
    assert!(mount.all_options().any(|option| option == "errors=continue"));
    for hostile in [&b""[..], b"1", b"1 2 3 / / rw - ext4 /dev/vda rw", b"1 2 3:4 / / rw ext4", b"\xff \xff"] {
        assert!(MountLine::parse(hostile).is_none(), "{hostile:?}");
    }
}

#[test]
fn the_innermost_and_last_mount_holds_a_path() {
    let table = ["1 0 8:1 / / rw - ext4 a rw", "2 1 8:2 / /a rw - ext4 b rw", "3 1 8:3 / /a rw - ext4 c rw"];
    let mounts: Vec<MountLine> = table.iter().filter_map(|line| MountLine::parse(line.as_bytes())).collect();
    let of = |path| holder(&mounts, Path::new(path)).map(|mount| mount.id);
    assert_eq!((of("/a/b"), of("/ab"), of("/a"), of("a")), (Some(3), Some(1), Some(3), None));
}
