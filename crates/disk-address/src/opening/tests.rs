use std::os::unix::fs::PermissionsExt;

use ferrite_disk::Access;
use ferrite_pool::tie::{Generation, TieRecord, TieRole};

use super::*;
use crate::tests::make_pool;

/// Returns the message of a refusal.
#[track_caller]
fn refused(opened: Result<Arc<dyn Disk>>) -> String {
    match opened {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_made_file_is_a_disk_for_its_user_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    make_file(&path, 8192).expect("made");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let disk = open_file(&path, false).expect("opened");
    disk.write(4096, &[3; 4096], Access::Cached).expect("written");
    disk.flush().expect("flushed");
    assert_eq!(fs::read(&path).expect("read")[4096..], [3; 4096]);
    let error = refused(open_file(&path, true));
    assert!(error.contains("image") && error.contains("open"), "{error}");
    drop(disk);
    let read_only = open_file(&path, true).expect("opened");
    assert!(read_only.geometry().read_only && read_only.write(0, &[1; 512], Access::Cached).is_err());
    let error = make_file(&path, 4096).expect_err("it exists").to_string();
    assert!(error.starts_with("making ") && error.contains("image: File exists"), "{error}");
    assert_eq!(fs::metadata(&path).expect("there").len(), 8192, "an existing file keeps its content");
}

/// A file that cannot be a disk is refused before any of it is changed, with what to do.
#[test]
fn what_cannot_be_a_disk_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let missing = refused(open_file(&at("missing"), false));
    assert!(missing.contains("there is no file ") && missing.contains("POOL:NAME"), "{missing}");
    let is_folder = refused(open_file(folder.path(), true));
    assert!(is_folder.contains("is a folder: name a file in it"), "{is_folder}");
    fs::write(at("part"), [7; 1000]).expect("written");
    let part = refused(open_file(&at("part"), false));
    assert!(part.contains("has 1000 bytes") && part.contains("behind byte 512"), "{part}");
    assert!(part.contains("`truncate --size=%512`"), "{part}");
    make_pool(&at("pool"));
    let pool = refused(open_file(&at("pool"), false));
    assert!(pool.contains("holds a pool, which would be lost"), "{pool}");
    assert!(open_file(&at("pool"), true).is_ok(), "a pool may be read as the file that it is");
    assert!(refused(open_file("/dev/null".as_ref(), true)).contains("neither a file nor a block device"));
    let error = make_file(&at("none/image"), 4096).expect_err("there is no folder").to_string();
    assert!(error.contains("none/image: No such file"), "{error}");
}

#[test]
fn a_member_of_a_pool_is_opened_for_writing_only_as_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let generation = Generation::first(5);
    let record = TieRecord { role: TieRole::Disk, pool: [7; 16], object: [8; 16], generation, previous: None };
    fs::write(&path, [&record.encode()[..], &[0; 8192]].concat().split_at(8192).0).expect("written");
    let error = refused(open_file(&path, false));
    assert!(error.contains("disk is a disk of a cache of pool 07070707-"), "{error}");
    assert!(open_file(&path, true).is_ok(), "a member may be read as the file that it is");
    let member = open_member_file(&path, false).expect("opened");
    member.write(0, &[0; 4096], Access::Cached).expect("written");
    drop(member);
    assert!(open_file(&path, false).is_ok(), "without its record it is any file");
    make_pool(&folder.path().join("pool"));
    assert!(refused(open_member_file(&folder.path().join("pool"), false)).contains("holds a pool"));
}

#[test]
fn an_export_that_cannot_be_reached_is_named_with_its_uri() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("none");
    let unix = ferrite_nbd::client::unix_uri("d", &socket);
    let rows = [
        ("nbds://h/d", "does not speak TLS"),
        ("http://h/d", "an unknown scheme"),
        ("nbd+unix:///d", "socket=PATH"),
        ("nbd://h:x/d", "the port"),
        (unix.as_str(), "cannot connect"),
    ];
    for (uri, why) in rows {
        let error = refused(open_nbd(uri, true));
        assert!(error.starts_with(uri) && error.contains(why), "{error}");
    }
}
