//! Clients with many requests in flight at disks that work on many at once, and devices that fail under them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::programs::{client, ferrite};
use crate::server::{Server, folder, ok, refused, run, signal};

fn export(address: &str, socket: &Path) -> Server {
    Server::start_as_program(&["disk", "export", address, "--unix", socket.to_str().expect("text")])
}

/// Writes blocks with 32 requests in flight, and reads back and compares all of them.
fn fio(socket: &Path, mib: u64) -> Command {
    let mut program = client("fio");
    program.args(["--name=deep", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--verify=crc32c"]);
    program.args(["--verify_state_save=0", "--do_verify=1", "--verify_fatal=1", &format!("--size={mib}M")]);
    program.arg(format!("--uri=nbd+unix:///?socket={}", socket.display()));
    program
}

/// N17, Q1: with many requests in flight on one connection, each reply is the right one, on files and on drives.
#[test]
fn many_requests_of_one_connection_are_answered_rightly() {
    for (drive, on_memory) in [("", false), ("", true), ("ssd-nvme:", true), ("hdd-15000:ssd-sata:", true)] {
        let folder = folder(on_memory);
        let (image, socket) = (folder.path().join("image"), folder.path().join("socket"));
        fs::write(&image, vec![0; 8 << 20]).expect("written");
        let server = export(&format!("{drive}{}", image.display()), &socket);
        run(&mut fio(&socket, if drive.contains("hdd") { 1 } else { 8 }));
        server.interrupt();
    }
}

/// A device that fails is an error to its client, with the place, and what it answered before stays.
#[test]
fn a_device_that_fails_is_an_error_and_no_loss() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, copy, socket) = (path("image"), path("copy"), folder.path().join("socket"));
    fs::write(&image, vec![3; 4 << 20]).expect("written");
    for plan in ["error@from=1", "drop@from=1", "truncate=2M"] {
        let said = refused(ferrite().args(["disk", "copy", &format!("fault:{plan}:{image}"), &copy]), 1);
        assert!(!said.contains("panicked") && !Path::new(&copy).exists(), "{plan}: {said}");
    }
    ok(&["disk", "copy", &format!("fault:none:{image}"), &copy]);
    assert!(fs::read(&copy).expect("read") == fs::read(&image).expect("read"));
    let server = export(&format!("fault:error@op=write,span=1M-2M:{image}"), &socket);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let io = |command: &str| client("qemu-io").args(["-f", "raw", "-c", command, &uri]).output().expect("run");
    assert!(io("write -P 5 0 4k").status.success());
    assert!(!io("write -P 5 1M 4k").status.success(), "the device refuses it");
    assert!(io("read -P 3 1M 4k").status.success(), "nothing of it arrived");
    server.interrupt();
    assert!(fs::read(&image).expect("read")[..4096] == [5; 4096]);
}

/// A request that never ends holds back neither the others of its connection nor those of another client.
#[test]
fn a_device_that_hangs_holds_back_only_its_requests() {
    let folder = folder(true);
    let (image, socket) = (folder.path().join("image"), folder.path().join("socket"));
    fs::write(&image, vec![3; 8 << 20]).expect("written");
    let server = export(&format!("fault:hang@op=read,span=0-4K:{}", image.display()), &socket);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let mut waiting = client("qemu-io").args(["-f", "raw", "-c", "read 0 4k", &uri]).spawn().expect("it starts");
    run(client("qemu-io").args(["-f", "raw", "-c", "read -P 3 4k 4k", "-c", "write -P 4 8k 4k", &uri]));
    assert!(waiting.try_wait().expect("asked").is_none(), "a read that hangs has ended");
    signal(waiting.id(), "KILL");
    waiting.wait().expect("ended");
    server.kill();
    assert!(fs::read(&image).expect("read")[8192..12288] == [4; 4096]);
}

/// Two programs that write to one file would destroy each other's data.
#[test]
fn a_file_that_is_served_for_writing_is_not_opened_again() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, other) = (path("image"), path("other"));
    fs::write(&image, vec![3; 1 << 20]).expect("written");
    let server = export(&image, &folder.path().join("socket"));
    let said = refused(ferrite().args(["disk", "copy", &image, &other]), 1);
    assert!(said.contains(&image) && said.contains("open"), "{said}");
    server.interrupt();
    ok(&["disk", "copy", &image, &other]);
}
