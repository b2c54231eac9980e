use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;

use super::*;

#[test]
fn a_server_that_takes_nobody_is_not_waited_for_without_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("bound");
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0, "one may wait");
    let connect = |limit| Link::connect(&Address::Unix(path.clone()), limit);
    let _waits = connect(Duration::from_secs(60)).expect("it waits there");
    std::thread::scope(|scope| {
        let (tell, message) = channel();
        scope.spawn(move || tell.send(connect(Duration::from_millis(50)).expect_err("no room").kind()));
        let seen = message.recv_timeout(Duration::from_secs(20));
        drop(listener);
        assert_eq!(seen, Ok(io::ErrorKind::TimedOut));
    });
    let refused = Link::connect(&Address::Unix(path), Duration::from_secs(60)).expect_err("nobody listens");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_path_that_no_socket_has_is_refused() {
    for path in ["a".repeat(108), "a\0b".into()] {
        let refused = Link::connect(&Address::Unix(path.into()), Duration::from_secs(60)).expect_err("no path");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
