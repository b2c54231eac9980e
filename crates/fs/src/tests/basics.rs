//! One thing at a time.

use super::support::*;
use crate::{Allocate, Credentials, Error, FileKind, FileSystem, Ino, Rename, Seek, SetAttr, SetXattr};

fn file(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("it is made").ino
}

#[test]
fn a_file_is_made_written_read_and_removed() {
    let fs = new_fs();
    // The folder's own page stays.
    file(&fs, "other");
    let free = fs.statfs().free_bytes;
    let ino = file(&fs, "a");
    assert_eq!(fs.write(ino, 0, b"hello").expect("room"), 5);
    assert_eq!(fs.append(ino, b" world").expect("room"), (5, 6));
    assert_eq!(content(&fs, ino).expect("it reads"), b"hello world");
    assert_eq!(fs.lookup(Ino::ROOT, b"a").expect("it is there").ino, ino);
    assert_sound(&fs);
    fs.unlink(Ino::ROOT, b"a").expect("it goes");
    assert!(matches!(fs.lookup(Ino::ROOT, b"a"), Err(Error::NotFound)));
    assert!(matches!(fs.getattr(ino), Err(Error::Stale)));
    assert_sound(&fs);
    assert_eq!(fs.statfs().free_bytes, free, "inodes' chunks aside, space is back");
}

/// A program that removes a file to make room asks how much there is then.
#[test]
fn what_was_removed_is_free_when_that_is_asked_for() {
    let fs = new_fs();
    // The folder's own page stays.
    file(&fs, "other");
    let used = || fs.statfs().total_bytes - fs.statfs().free_bytes;
    let before = used();
    for held in [false, true] {
        let ino = file(&fs, "large");
        fs.write(ino, 0, &vec![1; 12 << 20]).expect("room");
        if held {
            fs.hold(ino).expect("there");
        }
        assert!(used() >= before + (12 << 20));
        fs.unlink(Ino::ROOT, b"large").expect("it goes");
        if held {
            assert!(used() >= before + (12 << 20), "it is still read");
            fs.release(ino, 1);
        }
        assert_eq!(used(), before);
    }
}

#[test]
fn large_and_sparse_files_keep_their_bytes() {
    let fs = new_fs();
    let ino = file(&fs, "big");
    let block: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let places = [0, 1 << 20, (1 << 33) + 5, (8 << 40) + 4095, (1 << 46) + 1];
    for at in places {
        assert_eq!(fs.write(ino, at, &block).expect("room"), block.len());
        assert_sound(&fs);
    }
    for at in places {
        let mut found = vec![0; block.len()];
        fs.read(ino, at, &mut found).expect("it reads");
        assert!(found == block, "at {at}");
    }
    let mut hole = [1; 100];
    fs.read(ino, 1 << 30, &mut hole).expect("it reads");
    assert_eq!(hole, [0; 100]);
    assert_eq!(fs.seek(ino, 2 << 20, Seek::Data).expect("there is"), 1 << 33);
    assert_eq!(fs.seek(ino, 8 << 40, Seek::Hole).expect("there is"), (8 << 40) + (300 << 10));
    resize(&fs, ino, 10).expect("it is cut");
    run_steps(&fs);
    assert_sound(&fs);
    assert_eq!(fs.getattr(ino).expect("there").allocated_bytes % 4096, 0);
    resize(&fs, ino, 5000).expect("it grows");
    let found = content(&fs, ino).expect("it reads");
    assert_eq!(found[..10], block[..10]);
    assert!(found[10..].iter().all(|byte| *byte == 0), "what was cut off does not come back");
}

#[test]
fn a_directory_holds_many_names_and_lists_each_once() {
    let fs = new_fs();
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("it is made").ino;
    let free = fs.statfs().free_bytes;
    let count = 3000_u32;
    let name =
        |i: u32| [b"name-".as_slice(), &i.to_le_bytes().map(|byte| byte | 0x80), i.to_string().as_bytes()].concat();
    for i in 0..count {
        fs.create_file(dir, &name(i), &new(FileKind::File)).expect("it is made");
    }
    assert_sound(&fs);
    let (mut cookie, mut seen) = (0, std::collections::BTreeSet::new());
    loop {
        let mut got = 0;
        fs.readdir(dir, cookie, &mut |entry| {
            if got == 100 {
                return false;
            }
            got += 1;
            cookie = entry.cookie;
            assert!(seen.insert(entry.name.to_vec()), "listed twice");
            true
        })
        .expect("it lists");
        if got == 0 {
            break;
        }
    }
    assert_eq!(seen.len() as u32, count + 2);
    let listed = fs.list(dir, 0, 5000).expect("it lists");
    assert_eq!(listed.len() as u32, count);
    assert!(listed.iter().all(|entry| Some(fs.lookup(dir, &entry.name).expect("there")) == entry.attr));
    assert!(matches!(fs.rmdir(Ino::ROOT, b"dir"), Err(Error::NotEmpty)));
    for i in 0..count {
        fs.unlink(dir, &name(i)).expect("it goes");
    }
    assert_sound(&fs);
    fs.rmdir(Ino::ROOT, b"dir").expect("it goes");
    assert_sound(&fs);
    assert!(fs.statfs().free_bytes + (2 << 20) >= free);
}

#[test]
fn names_and_limits_are_refused_cleanly() {
    let fs = new_fs();
    let dir = Ino::ROOT;
    let long = [b'x'; 256];
    assert!(matches!(fs.create_file(dir, &long, &new(FileKind::File)), Err(Error::NameTooLong)));
    assert!(fs.create_file(dir, &long[..255], &new(FileKind::File)).is_ok());
    assert!(matches!(fs.create_file(dir, b"a/b", &new(FileKind::File)), Err(Error::Invalid(_))));
    assert!(matches!(fs.create_file(dir, b"", &new(FileKind::File)), Err(Error::Invalid(_))));
    let every: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let ino = fs.create_file(dir, &every, &new(FileKind::File)).expect("any bytes are a name").ino;
    assert_eq!(fs.lookup(dir, &every).expect("it is found").ino, ino);
    assert!(matches!(fs.create_file(dir, &every, &new(FileKind::File)), Err(Error::Exists)));
    assert!(matches!(fs.write(ino, u64::MAX - 1, b"x"), Err(Error::FileTooBig)));
    assert!(matches!(fs.read(dir, 0, &mut [0]), Err(Error::IsDirectory)));
    assert!(matches!(fs.unlink(dir, b"none"), Err(Error::NotFound)));
    assert!(matches!(fs.lookup(ino, b"x"), Err(Error::NotDirectory)));
    assert!(matches!(fs.getattr(Ino(999_999_999)), Err(Error::Stale)));
    assert!(matches!(fs.link(dir, dir, b"again"), Err(Error::NotPermitted(_))));
}

#[test]
fn an_unlinked_file_lives_while_it_is_held_and_not_longer() {
    let memory = new_memory(ferrite_crash::Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let ino = file(&fs, "held");
    fs.write(ino, 0, &[5; 10_000]).expect("room");
    fs.hold(ino).expect("it is there");
    fs.unlink(Ino::ROOT, b"held").expect("it goes");
    assert_sound(&fs);
    assert_eq!(content(&fs, ino).expect("it reads"), [5; 10_000]);
    assert!(!fs.step().expect("nothing to do while it is held"));
    let crashed = std::sync::Arc::new(memory.kill());
    let after = open(&crashed, None).expect("it opens");
    run_steps(&after);
    assert_sound(&after);
    assert!(matches!(after.getattr(ino), Err(Error::Stale)), "a crash ends it");
    fs.release(ino, 1);
    assert!(matches!(fs.getattr(ino), Err(Error::Stale)));
    assert_sound(&fs);
}

#[test]
fn a_file_without_a_name_is_given_one() {
    let fs = new_fs();
    let ino = file(&fs, "f");
    fs.hold(ino).expect("it is there");
    fs.unlink(Ino::ROOT, b"f").expect("it goes");
    assert_eq!(fs.getattr(ino).expect("it is held").links, 0);
    fs.write(ino, 0, b"x").expect("room");
    assert_eq!(fs.link(ino, Ino::ROOT, b"named").expect("it is named").links, 1);
    fs.release(ino, 1);
    assert_eq!(fs.lookup(Ino::ROOT, b"named").expect("it is there").ino, ino);
    assert_sound(&fs);
}

#[test]
fn space_is_given_punched_and_zeroed() {
    let fs = new_fs();
    let ino = file(&fs, "f");
    fs.allocate(ino, 0..100_000, Allocate::KeepSize).expect("room");
    assert_eq!(fs.getattr(ino).expect("there").size, 0);
    assert!(fs.getattr(ino).expect("there").allocated_bytes >= 100_000);
    fs.write(ino, 0, &[7; 50_000]).expect("room");
    fs.allocate(ino, 4_000..20_000, Allocate::Punch).expect("it is punched");
    let found = content(&fs, ino).expect("it reads");
    assert!(found[..4_000].iter().all(|b| *b == 7) && found[20_000..].iter().all(|b| *b == 7));
    assert!(found[4_000..20_000].iter().all(|b| *b == 0));
    assert_eq!(fs.seek(ino, 4_000, Seek::Hole).expect("there is"), 4_096);
    fs.allocate(ino, 30_000..60_000, Allocate::Zero).expect("it is zeroed");
    let found = content(&fs, ino).expect("it reads");
    assert_eq!(found.len(), 60_000);
    assert!(found[30_000..].iter().all(|b| *b == 0) && found[29_999] == 7);
    fs.allocate(ino, 60_000..90_000, Allocate::Grow).expect("it grows");
    assert!(content(&fs, ino).expect("it reads")[60_000..].iter().all(|b| *b == 0));
    assert_sound(&fs);
}

#[test]
fn renames_replace_refuse_and_exchange() {
    let fs = new_fs();
    let (a, b) = (file(&fs, "a"), file(&fs, "b"));
    let dir = fs.create_file(Ino::ROOT, b"d", &new(FileKind::Directory)).expect("it is made").ino;
    let at = |dir, name: &[u8]| fs.lookup(dir, name).map(|attr| attr.ino).ok();
    assert!(matches!(fs.rename((Ino::ROOT, b"a"), (Ino::ROOT, b"b"), Rename::NoReplace), Err(Error::Exists)));
    fs.rename((Ino::ROOT, b"a"), (Ino::ROOT, b"b"), Rename::Exchange).expect("they change places");
    assert_eq!((at(Ino::ROOT, b"a"), at(Ino::ROOT, b"b")), (Some(b), Some(a)));
    fs.rename((Ino::ROOT, b"a"), (dir, b"x"), Rename::Replace).expect("it moves");
    assert_eq!((at(Ino::ROOT, b"a"), at(dir, b"x")), (None, Some(b)));
    fs.rename((Ino::ROOT, b"b"), (dir, b"x"), Rename::Replace).expect("it replaces");
    assert_eq!(at(dir, b"x"), Some(a));
    assert!(matches!(fs.getattr(b), Err(Error::Stale)));
    let inner = fs.create_file(dir, b"inner", &new(FileKind::Directory)).expect("it is made").ino;
    assert!(matches!(fs.rename((Ino::ROOT, b"d"), (inner, b"y"), Rename::Replace), Err(Error::Invalid(_))));
    fs.rename((dir, b"inner"), (Ino::ROOT, b"out"), Rename::Replace).expect("it moves");
    assert_eq!(fs.lookup(inner, b"..").expect("there").ino, Ino::ROOT);
    assert_eq!(fs.getattr(dir).expect("there").links, 2);
    fs.rename((Ino::ROOT, b"out"), (Ino::ROOT, b"out2"), Rename::Replace).expect("it moves");
    fs.rename((Ino::ROOT, b"d"), (Ino::ROOT, b"out2"), Rename::Exchange).expect("directories change places");
    let by = Credentials { uid: 5, gid: 6 };
    fs.rename((Ino::ROOT, b"out2"), (inner, b"moved"), Rename::Whiteout(by)).expect("it moves");
    let white = fs.lookup(Ino::ROOT, b"out2").expect("left");
    assert_eq!((white.kind, white.mode, white.rdev, white.uid, white.links), (FileKind::CharDevice, 0, 0, 5, 1));
    assert_eq!(fs.lookup(inner, b"moved").expect("there").ino, dir);
    let both = Rename::WhiteoutNoReplace(by);
    assert!(matches!(fs.rename((inner, b"moved"), (Ino::ROOT, b"out2"), both), Err(Error::Exists)));
    fs.rename((inner, b"moved"), (inner, b"again"), both).expect("it moves");
    assert_eq!(
        (at(inner, b"again"), fs.lookup(inner, b"moved").expect("left").kind),
        (Some(dir), FileKind::CharDevice)
    );
    assert_sound(&fs);
    fs.rename((Ino::ROOT, b"d"), (inner, b"self"), Rename::Replace).expect_err("a directory into itself");
    assert_sound(&fs);
}

#[test]
fn attributes_and_acls_are_kept_and_change_the_mode() {
    let fs = new_fs();
    let ino = file(&fs, "f");
    for (name, len) in [(b"user.small".as_slice(), 10), (b"user.large", 60_000), (b"user.empty", 0)] {
        fs.set_xattr(ino, name, &vec![3; len], SetXattr::Any).expect("room");
        assert_eq!(fs.xattr(ino, name).expect("there").len(), len);
    }
    assert!(matches!(fs.set_xattr(ino, b"user.small", b"", SetXattr::Create), Err(Error::Exists)));
    assert!(matches!(fs.set_xattr(ino, b"user.none", b"", SetXattr::Replace), Err(Error::NoAttribute)));
    assert!(matches!(fs.set_xattr(ino, b"user.huge", &[0; 70_000], SetXattr::Any), Err(Error::AttributeTooBig)));
    fs.remove_xattr(ino, b"user.large").expect("it goes");
    assert_eq!(fs.xattrs(ino).expect("listed").len(), 2);
    assert_sound(&fs);
    let acl = |entries: &[(u16, u16, u32)]| {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    };
    let none = u32::MAX;
    let named = acl(&[(1, 6, none), (2, 7, 55), (4, 4, none), (16, 5, none), (32, 0, none)]);
    fs.set_xattr(ino, b"system.posix_acl_access", &named, SetXattr::Any).expect("an ACL");
    assert_eq!(fs.getattr(ino).expect("there").mode, 0o650);
    fs.setattr(ino, &SetAttr { mode: Some(0o604), ..SetAttr::default() }).expect("it is changed");
    let masked = acl(&[(1, 6, none), (2, 7, 55), (4, 4, none), (16, 0, none), (32, 4, none)]);
    assert_eq!(fs.xattr(ino, b"system.posix_acl_access").expect("there"), masked);
    let plain = acl(&[(1, 7, none), (4, 5, none), (32, 5, none)]);
    fs.set_xattr(ino, b"system.posix_acl_access", &plain, SetXattr::Any).expect("an ACL");
    assert_eq!(fs.getattr(ino).expect("there").mode, 0o755);
    assert!(matches!(fs.xattr(ino, b"system.posix_acl_access"), Err(Error::NoAttribute)));
    let dir = fs.create_file(Ino::ROOT, b"d", &new(FileKind::Directory)).expect("made").ino;
    fs.set_xattr(dir, b"system.posix_acl_default", &named, SetXattr::Any).expect("an ACL");
    let made = crate::NewFile { mode: 0o666, umask: 0o077, ..new(FileKind::File) };
    let child = fs.create_file(dir, b"child", &made).expect("made");
    assert_eq!(child.mode, 0o640, "the default ACL takes the place of the umask");
    assert!(fs.xattr(child.ino, b"system.posix_acl_access").is_ok());
    assert_sound(&fs);
}

/// As on any file system of Linux: programs try a name to find out what there is.
#[test]
fn names_of_attributes_that_no_file_has_are_refused() {
    let fs = new_fs();
    let ino = file(&fs, "f");
    let unknown: [&[u8]; 6] = [b"", b"plain", b"User.a", b"system.nfs4_acl", b"system.posix_acl_accessx", b"btrfs.a"];
    for name in unknown {
        assert!(matches!(fs.set_xattr(ino, name, b"1", SetXattr::Any), Err(Error::Unsupported(_))), "{name:?}");
        assert!(matches!(fs.xattr(ino, name), Err(Error::Unsupported(_))), "{name:?}");
        assert!(matches!(fs.remove_xattr(ino, name), Err(Error::Unsupported(_))), "{name:?}");
    }
    for name in [&b"user."[..], b"trusted.", b"security."] {
        assert!(matches!(fs.set_xattr(ino, name, b"1", SetXattr::Any), Err(Error::Invalid(_))), "{name:?}");
    }
    for name in [&b"user.a"[..], b"trusted.a", b"security.a"] {
        fs.set_xattr(ino, name, b"1", SetXattr::Any).expect("room");
    }
    assert_eq!(fs.xattrs(ino).expect("listed").len(), 3);
}

/// A request for more than there is leaves the rest to others.
#[test]
fn space_that_cannot_be_given_is_not_kept() {
    let fs = new_fs();
    let (one, other) = (file(&fs, "one"), file(&fs, "other"));
    fs.write(one, 0, &[7; 5000]).expect("room");
    let before = (fs.getattr(one).expect("there"), fs.statfs().free_bytes);
    for how in [Allocate::Grow, Allocate::KeepSize] {
        let refused = fs.allocate(one, 0..1 << 40, how);
        assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
        let attr = fs.getattr(one).expect("there");
        // Its index may be a page deeper for each time.
        let more = attr.allocated_bytes - before.0.allocated_bytes;
        assert!(attr.size == before.0.size && more <= 4 * 4096, "{how:?}: {more}");
    }
    run_steps(&fs);
    assert_eq!(fs.write(other, 0, &vec![1; 4 << 20]).expect("room for others"), 4 << 20);
    assert_eq!(content(&fs, one).expect("it reads"), [7; 5000]);
    assert!(fs.statfs().free_bytes + (5 << 20) >= before.1);
    assert_sound(&fs);
}

#[test]
fn a_full_file_system_says_so_and_can_still_delete() {
    let fs = new_fs();
    let mut made = Vec::new();
    let error = loop {
        let name = format!("f{}", made.len());
        match fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)) {
            Ok(attr) => {
                made.push(name);
                match fs.write(attr.ino, 0, &vec![1; 1 << 20]) {
                    Ok(written) if written == 1 << 20 => {}
                    Ok(_) => {}
                    Err(error) => break error,
                }
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::NoSpace), "{error}");
    assert_sound(&fs);
    for name in &made {
        fs.unlink(Ino::ROOT, name.as_bytes()).expect("deleting needs no space");
    }
    run_steps(&fs);
    assert_sound(&fs);
    let ino = file(&fs, "again");
    assert_eq!(fs.write(ino, 0, &vec![1; 4 << 20]).expect("room again"), 4 << 20);
}

#[test]
fn what_a_removed_file_had_is_free_for_who_meets_no_space() {
    let fs = new_fs();
    let fill = |name: &str, append: bool| {
        let (ino, piece, mut sum) = (file(&fs, name), vec![1; 64 << 10], 0);
        loop {
            let written = if append { fs.append(ino, &piece).map(|(_, len)| len) } else { fs.write(ino, sum, &piece) };
            match written {
                Ok(len) => sum += len as u64,
                Err(Error::NoSpace) => return sum,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let first = fill("f", false);
    for append in [false, true] {
        // Nothing is done in between: it is an orphan still.
        fs.unlink(Ino::ROOT, b"f").expect("it goes");
        let next = fill("f", append);
        assert!(next.abs_diff(first) < 1 << 20, "{next} bytes for {first}");
    }
    fs.unlink(Ino::ROOT, b"f").expect("it goes");
    let ino = file(&fs, "g");
    fs.allocate(ino, 0..first - (1 << 20), Allocate::Grow).expect("room");
    assert_sound(&fs);
}

#[test]
fn symbolic_links_of_every_length_are_read_back() {
    let fs = new_fs();
    for len in [1, 63, 64, 65, 4095] {
        let target = vec![b't'; len];
        let name = format!("l{len}");
        let ino = fs.symlink(Ino::ROOT, name.as_bytes(), &target, ME).expect("it is made").ino;
        assert_eq!(fs.readlink(ino).expect("it is read"), target);
    }
    assert!(matches!(fs.symlink(Ino::ROOT, b"long", &[b't'; 4096], ME), Err(Error::NameTooLong)));
    assert_sound(&fs);
}
