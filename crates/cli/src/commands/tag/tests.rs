use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::*;

#[test]
fn a_pipe_that_does_not_wait_is_waited_for() {
    let (mut far, near) = UnixStream::pair().expect("a pair");
    near.set_nonblocking(true).expect("set");
    let writing = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        far.write_all(b"all of it").expect("written");
    });
    let mut read = read_ahead(OwnedFd::from(near).into()).unwrap_or_else(|why| panic!("{}", why.text()));
    writing.join().expect("it wrote");
    let mut got = String::new();
    assert_eq!(read.len(), 1, "it has ended");
    read[0].read_to_string(&mut got).expect("read");
    assert_eq!(got, "all of it");
}
