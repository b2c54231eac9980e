//! O1 and O2: one owner at a time, and no trace of a dead one.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use super::role::Other;
use super::*;

fn pool() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).expect("pool");
    (folder, path)
}

fn listen(path: &std::path::Path) -> Result<ListeningSocket> {
    ListeningSocket::start(&ours(claim(path).expect("claim")), Obedient::new().0)
}

fn holder(path: &std::path::Path) -> Holder {
    match claim(path).expect("claim") {
        Claim::Held(holder) => holder,
        Claim::Ours(_) => panic!("{} is free", path.display()),
    }
}

#[test]
fn o1_a_second_claim_is_told_who_holds_the_pool() {
    let (_folder, path) = pool();
    let lock = ours(claim(&path).expect("claim"));
    let held = holder(&path);
    assert_eq!(held.pid, Some(std::process::id()));
    assert!(held.to_string().starts_with(&format!("held by process {} (", std::process::id())), "{held}");
    drop(lock);
    ours(claim(&path).expect("free again"));
}

#[test]
fn o1_a_listening_owner_keeps_its_lock_even_if_it_drops_it() {
    let served = Served::new();
    assert_eq!(holder(&served.pool()).pid, Some(std::process::id()));
}

#[test]
fn o1_kill_frees_the_pool_and_the_next_owner_replaces_the_socket() {
    let (_folder, path) = pool();
    let other = Other::plays("own", &[path.to_str().expect("path")]);
    let held = holder(&path);
    assert_eq!(held.pid, Some(other.pid()));
    let command = held.command.clone().expect("command");
    assert!(command.contains("tests::role::play") && !command.starts_with('/'), "{command}");
    other.kill();

    let stale = path.with_extension("sock");
    assert!(fs::symlink_metadata(&stale).expect("what the dead owner left").file_type().is_socket());
    assert!(matches!(OwnerClient::connect(&path), Err(Error::NoOwner(_))));
    let lock = ours(claim(&path).expect("claim"));
    let listening = ListeningSocket::start(&lock, Obedient::new().0).expect("in place of the stale one");
    assert_eq!(listening.path(), stale.canonicalize().expect("path"));
    assert_eq!(fs::symlink_metadata(&stale).expect("socket").permissions().mode() & 0o777, 0o600);
    assert_eq!(
        ask(&mut OwnerClient::connect(&path).expect("connect"), json!({"do": "count", "n": 0})).expect("call"),
        0
    );
    listening.stop().expect("stop");
    assert!(!stale.exists(), "a clean stop leaves no socket");
}

/// O1: what it forked has no part in its lock.
#[test]
fn o1_kill_frees_the_pool_whatever_children_are_left() {
    let (_folder, path) = pool();
    let other = Other::plays("fork", &[path.to_str().expect("path")]);
    assert_eq!(holder(&path).pid, Some(other.pid()));
    other.kill_alone();
    ours(claim(&path).expect("free, though its child lives"));
}

#[test]
fn a_holder_that_takes_no_calls_is_named() {
    let (_folder, path) = pool();
    let other = Other::plays("hold", &[path.to_str().expect("path")]);
    let said = OwnerClient::connect(&path).expect_err("nobody listens").to_string();
    assert!(said.contains(&format!("held by process {}", other.pid())) && said.contains("takes no calls"), "{said}");
}

/// Returns true if clients reach the owner of a pool that replaced another pool, and the files `names` beside it, after
/// `stop` has stopped the earlier owner.
fn is_reached(names: &[&str], stop: impl FnOnce(ListeningSocket)) -> bool {
    let (folder, path) = pool();
    let old = listen(&path).expect("listen");
    names.iter().for_each(|name| fs::remove_file(folder.path().join(name)).expect("remove"));
    File::create(&path).expect("another pool");
    let new = listen(&path).expect("listen");
    stop(old);
    let answer = OwnerClient::connect(&path).and_then(|mut client| ask(&mut client, json!({"do": "count", "n": 0})));
    let stopped = new.stop();
    answer.is_ok_and(|answer| answer == 0) && stopped.is_ok()
}

/// O2: the owner of a pool that was renamed still listens beside the path, which another pool has now, with or without
/// an owner.
#[test]
fn o2_the_owner_of_a_renamed_pool_is_passed_by() {
    let (folder, path) = pool();
    let _old = listen(&path).expect("listen");
    fs::rename(&path, folder.path().join("renamed")).expect("renamed");
    File::create(&path).expect("another pool");
    let said = OwnerClient::connect(&path);
    assert!(matches!(said, Err(Error::NoOwner(_))), "{said:?}");
    // The kernel shows one process as the holder of both.
    let new = listen(&path).expect("listen");
    let mut client = OwnerClient::connect(&path).expect("its owner");
    assert_eq!(ask(&mut client, json!({"do": "count", "n": 0})).expect("call"), 0);
    assert_eq!(new.connections(), 1);
}

/// O2: an owner whose pool was replaced must not take away the socket of the new pool's owner.
#[test]
fn o2_a_stop_leaves_another_owners_socket_alone() {
    assert!(is_reached(&["pool"], |old| old.stop().expect("stop")));
}

/// O2: nor a socket that replaced its own after another process had removed that.
#[test]
fn o2_a_stop_leaves_a_socket_that_took_the_place_of_its_own() {
    assert!(is_reached(&["pool", "pool.sock"], |old| old.stop().expect("stop")));
}

#[test]
fn canary_a_stop_that_removes_whatever_socket_is_there_is_found() {
    let stop = |old: ListeningSocket| {
        let _bug = ferrite_memory::planted::plant("owner: socket of any owner is removed");
        old.stop().expect("stop");
    };
    assert!(!is_reached(&["pool", "pool.sock"], stop));
}

#[test]
fn o2_a_file_in_the_way_is_not_taken_for_a_stale_socket() {
    let (_folder, path) = pool();
    fs::write(path.with_extension("sock"), "precious").expect("file");
    let meta = fs::metadata(&path).expect("pool");
    let beside = &socket_place::SocketPlace::candidates_with(&path, &meta, None)[..1];
    let lock = ours(claim(&path).expect("claim"));
    let said =
        ListeningSocket::start_at(beside, lock, Obedient::new().0, ListenLimits::default()).expect_err("in the way");
    assert!(said.to_string().contains("not a socket"), "{said}");
    assert_eq!(fs::read(path.with_extension("sock")).expect("still there"), b"precious");
}

#[test]
fn what_cannot_hold_a_pool_is_refused_without_waiting() {
    let (folder, _) = pool();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let said = claim(&fifo);
    assert!(matches!(said, Err(LockError::NotAPool(_))), "{said:?}");
    claim(folder.path()).expect_err("a folder");
    let said = claim(&folder.path().join("nothing")).expect_err("nothing there").to_string();
    assert!(said.starts_with("opening") && said.contains("nothing"), "{said}");
}
