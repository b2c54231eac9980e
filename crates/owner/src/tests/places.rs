//! Where the control socket is put, whatever the pool is called.

use std::fs;

use super::role::Other;
use super::*;
use crate::socket_place::SocketPlace;

/// Serves a pool at `path` from `candidates`, and asks it something.
fn serve_and_ask(path: &std::path::Path, candidates: &[SocketPlace]) -> PathBuf {
    let lock = ours(claim(path).expect("claim"));
    let path = lock.path().to_owned();
    let listening =
        ListeningSocket::start_at(candidates, lock, Obedient::new().0, ListenLimits::default()).expect("listen");
    let pool = fs::metadata(&path).expect("pool");
    let mut client = OwnerClient::connect_at(candidates, &path, &pool, NEVER).expect("connect");
    assert_eq!(ask(&mut client, json!({"do": "count", "n": 1})).expect("call"), 1);
    let place = listening.path().to_owned();
    drop(client);
    listening.stop().expect("stop");
    assert!(!place.exists());
    place
}

#[test]
fn a_path_longer_than_a_socket_may_have_is_reached_through_its_folder() {
    let folder = tempfile::tempdir().expect("folder");
    let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).expect("folders");
    let path = deep.join("pool");
    let pool = File::create(&path).expect("pool").metadata().expect("pool");
    let place = serve_and_ask(&path, &SocketPlace::candidates_with(&path, &pool, None));
    assert_eq!(place, deep.join("pool.sock"));
}

#[test]
fn a_name_too_long_for_a_socket_falls_back_to_the_runtime_folder() {
    let folder = tempfile::tempdir().expect("folder");
    for len in [100, 252, 255] {
        let path = folder.path().join("p".repeat(len));
        let pool = File::create(&path).expect("pool").metadata().expect("pool");
        let candidates = SocketPlace::candidates_with(&path, &pool, Some(folder.path().as_os_str()));
        let place = serve_and_ask(&path, &candidates);
        assert_eq!(place.parent(), Some(folder.path().join("ferrite").as_path()));
    }
}

/// A name of the advised length fits; the error about a longer one says what to do.
#[test]
fn a_name_too_long_for_a_socket_says_what_to_do() {
    let folder = tempfile::Builder::new().prefix(&"d".repeat(100)).tempdir().expect("folder");
    let serve = |len| {
        let path = folder.path().join("p".repeat(len));
        File::create(&path).expect("pool");
        let beside = [SocketPlace::beside(&path).expect("a name")];
        let lock = ours(claim(&path).expect("claim"));
        ListeningSocket::start_at(&beside, lock, Obedient::new().0, ListenLimits::default()).map(drop)
    };
    serve(80).expect("it fits");
    let said = serve(100).expect_err("too long").to_string();
    assert!(said.contains("80 bytes at most") && said.contains("XDG_RUNTIME_DIR"), "{said}");
}

#[test]
fn a_symbolic_link_leads_to_the_same_owner() {
    let served = Served::new();
    let link = served.folder.path().join("link");
    std::os::unix::fs::symlink(served.pool(), &link).expect("link");
    ask(&mut OwnerClient::connect(&link).expect("connect"), json!({"do": "echo"})).expect("call");
    assert!(matches!(claim(&link).expect("claim"), Claim::Held(_)));
}

/// The owner has the pool by one name, the client by another: a second link to the same file.
#[test]
fn a_hard_link_leads_to_the_same_owner() {
    let served = Served::new();
    let other = tempfile::tempdir_in(served.folder.path()).expect("folder");
    let link = other.path().join("link");
    fs::hard_link(served.pool(), &link).expect("link");
    assert_eq!(
        ask(&mut OwnerClient::connect(&link).expect("connect"), json!({"do": "count", "n": 3})).expect("call"),
        3
    );
    assert!(matches!(claim(&link).expect("claim"), Claim::Held(_)));
}

/// O2: a socket on which another process listens stays; the owner uses its next place.
#[test]
fn o2_a_live_socket_in_the_way_stays() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    let pool = File::create(&path).expect("pool").metadata().expect("pool");
    let theirs = std::os::unix::net::UnixListener::bind(folder.path().join("pool.sock")).expect("their socket");
    let places = SocketPlace::candidates_with(&path, &pool, Some(folder.path().as_os_str()));
    let start = |places| {
        ListeningSocket::start_at(
            places,
            ours(claim(&path).expect("claim")),
            Obedient::new().0,
            ListenLimits::default(),
        )
    };
    let said = start(&places[..1]).expect_err("in the way").to_string();
    assert!(said.contains("another server listens there"), "{said}");
    let listening = start(&places).expect("at the next place");
    assert_eq!(listening.path().parent(), Some(folder.path().join("ferrite").as_path()));
    UnixStream::connect(folder.path().join("pool.sock")).expect("theirs is still there");
    drop(theirs);
}

/// O2: a client skips the socket of another pool's owner in the first place of this pool's.
#[test]
fn o2_a_client_passes_by_the_owner_of_another_pool() {
    let folder = tempfile::tempdir().expect("folder");
    let (theirs, path) = (folder.path().join("theirs"), folder.path().join("pool"));
    File::create(&theirs).expect("another pool");
    let other = Other::plays("own", &[theirs.to_str().expect("path")]);
    let pool = File::create(&path).expect("pool").metadata().expect("pool");
    let own = SocketPlace::candidates_with(&path, &pool, None)[..1].to_vec();
    let listening =
        ListeningSocket::start_at(&own, ours(claim(&path).expect("claim")), Obedient::new().0, ListenLimits::default())
            .expect("listen");
    let places = [SocketPlace::beside(&theirs).expect("a place"), own[0].clone()];
    let client = OwnerClient::connect_at(&places, &path, &pool, NEVER).expect("connect");
    assert_eq!(client.owner_pid(), std::process::id());
    drop(client);
    listening.stop().expect("stop");
    other.kill();
}

#[test]
fn a_device_leaves_nothing_in_its_folder() {
    let device = std::path::Path::new("/dev/null");
    let candidates = SocketPlace::candidates_with(device, &fs::metadata(device).expect("device"), None);
    assert!(!format!("{candidates:?}").contains("/dev"), "{candidates:?}");
}
