use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::thread;

use super::*;

/// Creates the leftover of a dead server. A process that another test is just starting may hold the socket a moment
/// longer.
fn leave_socket(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
    while UnixStream::connect(path).is_ok() {
        thread::yield_now();
    }
}

/// If two servers start at once on the socket of a dead server, one listens and the other gets an error.
#[test]
fn two_that_start_at_once_do_not_take_each_others_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    for round in 0..300 {
        leave_socket(&path);
        let start = Barrier::new(2);
        let bind = || {
            start.wait();
            Listener::bind(&path)
        };
        let bound = thread::scope(|scope| [scope.spawn(bind), scope.spawn(bind)].map(|it| it.join().unwrap()));
        let alive: Vec<&Listener> = bound.iter().flatten().collect();
        assert_eq!(alive.len(), 1, "round {round}");
        assert!(bound.iter().any(|it| matches!(it, Err(ListenError::Busy(_)))), "round {round}");
        UnixStream::connect(&path).unwrap_or_else(|error| panic!("round {round}: it was taken away: {error}"));
        alive[0].close();
    }
}
