//! Servers of this process, and processes that serve nothing.

use ferrite_disk::{Access, RamDisk};

use super::*;

#[test]
fn a_disk_of_this_process_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let server = NbdServer::here("ferrite", Arc::new(RamDisk::new(1 << 20)), &socket).expect("it listens");
    assert_eq!(server.connect().expect("it answers").size(), 1 << 20);
    server.disk().expect("it answers").write(4096, &[7; 4096], Access::Cached).expect("written");
    let mut read = [0; 4096];
    server.disk().expect("it answers twice").read(4096, &mut read).expect("read");
    assert_eq!(read, [7; 4096]);
}

#[test]
fn a_socket_that_cannot_be_made_is_told() {
    let started = NbdServer::here("ferrite", Arc::new(RamDisk::new(1 << 20)), Path::new("/no/such/folder/socket"));
    let error = started.err().expect("there is no such folder").to_string();
    assert!(error.starts_with("ferrite: it cannot listen: "), "{error}");
}

#[test]
fn a_server_that_ends_before_it_answers_is_an_error_with_what_it_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("sh");
    command.args(["-c", "echo the port is taken >&2; exit 1"]);
    let error =
        NbdServer::start("peer", &mut command, &folder.path().join("socket")).err().expect("it ends").to_string();
    assert_eq!(error, "peer: it ended (exit status: 1): the port is taken");
}

#[test]
fn requests_that_fail_name_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let server =
        NbdServer::here("ferrite", Arc::new(RamDisk::new(1 << 20)), &folder.path().join("s")).expect("it listens");
    let error = server.failed(io::ErrorKind::UnexpectedEof.into()).to_string();
    assert!(error.starts_with("requests to ferrite: "), "{error}");
    drop(server);
    let gone = NbdServer { name: "peer", socket: folder.path().join("none"), _running: Box::new(()) };
    let error = gone.disk().err().expect("nothing listens").to_string();
    assert!(error.starts_with("peer: ") && error.contains("none"), "{error}");
    let error = gone.connect().expect_err("nothing listens").to_string();
    assert!(error.starts_with("requests to peer: "), "{error}");
}
