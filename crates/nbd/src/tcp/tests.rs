use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;

/// A client whose socket accepts no option, because it is gone, is rejected; the listening socket has not failed.
#[test]
fn a_client_that_cannot_be_prepared_for_is_turned_away() {
    let door = TcpDoor::bind((Ipv4Addr::LOCALHOST, 0).into(), TcpOptions::default()).expect("a door");
    let (ours, _theirs) = UnixStream::pair().expect("a pair");
    assert!(door.welcome(TcpStream::from(OwnedFd::from(ours))).is_none(), "it knows no options of TCP");
    let client = TcpStream::connect(door.address()).expect("a client");
    assert!(door.welcome(client).is_some());
}
