use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

fn bind(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    place_socket(path, |fresh| UnixListener::bind(fresh))
}

/// If many servers want the name of a dead one at once, one gets it, and no other file stays.
#[test]
fn one_of_many_gets_the_name_of_a_dead_server() {
    for round in 0..50 {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("left"));
        let bound: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(|| bind(&path))).collect();
            all.into_iter().filter_map(|one| one.join().expect("no panic").ok()).collect()
        });
        assert!(!bound.is_empty(), "{round}");
        UnixStream::connect(&path).expect("it is reached");
        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "{round}");
    }
}

#[test]
fn a_live_socket_and_a_file_stay() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    let (live, identity) = bind(&path).expect("bound");
    let found = fs::metadata(&path).expect("there");
    assert_eq!(identity, (found.dev(), found.ino()));
    assert_eq!(bind(&path).expect_err("it lives").kind(), io::ErrorKind::AddrInUse);
    drop(live);
    bind(&path).expect("it is stale");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "precious").expect("written");
    assert_eq!(bind(&path).expect_err("a file").kind(), io::ErrorKind::AlreadyExists);
}

/// A server gets its name in a folder that another user has locked.
#[test]
fn a_locked_folder_is_no_hindrance() {
    let folder = tempfile::tempdir().expect("folder");
    let locked = File::open(folder.path()).expect("opened");
    locked.lock().expect("locked");
    bind(&folder.path().join("socket")).expect("bound");
}
