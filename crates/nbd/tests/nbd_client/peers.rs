//! Widely used servers, as installed on the machine.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk, Op, Request, Wait, Zeroing};
use ferrite_memory::Span;
use ferrite_nbd::client::{ConnectError, ConnectOptions, NbdDisk};
use tempfile::tempdir;

const SIZE: u64 = 8 << 20;

/// A running server; dropping it kills it.
struct Peer(Child);

impl Peer {
    fn start(program: &str, package: &str, args: &[&str]) -> Self {
        match Command::new(program).args(args).spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("{program}: {error}; install the Debian package {package}"),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The server may have ended by itself, which is harmless.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects and retries, because a server needs a moment to listen.
fn connect(uri: &str) -> NbdDisk {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match NbdDisk::connect(uri, &ConnectOptions::default()) {
            Ok(disk) => return disk,
            Err(ConnectError::Unreachable { source, .. })
                if Instant::now() < until
                    && matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn uri(socket: &Path, export: &str) -> String {
    format!("nbd+unix:///{export}?socket={}", socket.display())
}

/// Makes every request that a disk supports.
fn exercise(disk: &NbdDisk) {
    assert_eq!(disk.geometry().size, SIZE);
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 512 % 251) as u8).collect();
    disk.write(1 << 20, &bytes, Access::Cached).unwrap();
    disk.write(512, &[7; 512], Access::Fua).unwrap();
    disk.flush().unwrap();
    let mut back = vec![0; SIZE as usize];
    disk.read(0, &mut back).unwrap();
    assert!(back[512..1024] == [7; 512] && back[1 << 20..2 << 20] == bytes);
    assert!(back[2 << 20..].iter().all(|byte| *byte == 0));
    let hole = Span::new(1 << 20, 64 << 10);
    disk.write_zeroes(hole, Zeroing::default()).unwrap();
    disk.write_zeroes(Span::new(1 << 21, 4096), Zeroing { access: Access::Fua, keep_space: true, fast: false })
        .unwrap();
    disk.trim(Span::new(1 << 22, 1 << 20), Access::Fua).unwrap();
    disk.read(hole.at, &mut back[..2 << 16]).unwrap();
    assert!(back[..1 << 16].iter().all(|byte| *byte == 0) && back[1 << 16..2 << 16] == bytes[1 << 16..2 << 16]);
    let runs = disk.extents(Span::new(0, SIZE)).unwrap();
    assert!(runs.iter().map(|run| run.len).sum::<u64>() <= SIZE && !runs.is_empty());
    let (mut queue, mut done) = (disk.queue().unwrap().unwrap(), Vec::new());
    for token in 0..256 {
        let read = Request { token, op: Op::Read, span: Span::new(0, 0), buffer: vec![1; 4096] };
        assert!(queue.submit(Request { span: Span::new(token * 4096, 4096), ..read }).is_none());
    }
    while queue.in_flight() > 0 {
        queue.collect(Wait::Forever, &mut done).unwrap();
        for completion in done.drain(..) {
            completion.result.unwrap();
            let mut alone = vec![1; 4096];
            disk.read(completion.token * 4096, &mut alone).unwrap();
            assert!(alone == completion.buffer);
        }
    }
}

#[test]
fn nbdkit_serves_it() {
    let dir = tempdir().unwrap();
    let socket = dir.path().join("socket");
    let path = socket.to_str().unwrap();
    let _peer = Peer::start("nbdkit", "nbdkit", &["-f", "-U", path, "-e", "any", "memory", "8M"]);
    let disk = connect(&uri(&socket, "any"));
    exercise(&disk);
    let runs = disk.extents(Span::new(0, SIZE)).unwrap();
    assert!(runs.iter().any(|run| run.hole), "{runs:?}");
}

/// C6: the client replaces FUA, zeroes and structured replies if a server does not offer them.
#[test]
fn nbdkit_without_everything_serves_it() {
    let dir = tempdir().unwrap();
    let socket = dir.path().join("socket");
    let path = socket.to_str().unwrap();
    let filters = ["--filter=nozero", "--filter=fua", "memory", "8M", "zeromode=none"];
    let _peer = Peer::start("nbdkit", "nbdkit", &[&["-f", "--no-sr", "-U", path], &filters[..]].concat());
    let disk = connect(&uri(&socket, ""));
    exercise(&disk);
    let whole = disk.extents(Span::new(0, SIZE)).unwrap();
    assert!(whole.len() == 1 && !whole[0].zero, "without structured replies no extents are known: {whole:?}");
}

#[test]
fn nbdkit_tells_its_errors() {
    let dir = tempdir().unwrap();
    let socket = dir.path().join("socket");
    let path = socket.to_str().unwrap();
    let args = ["-f", "-U", path, "--filter=error", "memory", "8M", "error-pread=ENOSPC", "error-pread-rate=100%"];
    let _peer = Peer::start("nbdkit", "nbdkit", &args);
    let disk = connect(&uri(&socket, ""));
    disk.write(0, &[1; 512], Access::Cached).unwrap();
    let error = disk.read(0, &mut [0; 512]).unwrap_err();
    assert!(matches!(error, ferrite_memory::Error::NoSpace(_)), "{error}");
    disk.flush().unwrap();
}

#[test]
fn qemu_nbd_serves_it() {
    let dir = tempdir().unwrap();
    let (socket, image) = (dir.path().join("socket"), dir.path().join("image"));
    fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    let (path, image) = (socket.to_str().unwrap(), image.to_str().unwrap());
    let args = ["-k", path, "-f", "raw", "-x", "disk", "--discard=unmap", "-t", image];
    let _peer = Peer::start("qemu-nbd", "qemu-utils", &args);
    exercise(&connect(&uri(&socket, "disk")));
    let shown = NbdDisk::connect(&uri(&socket, "other"), &ConnectOptions::default()).err().expect("it connected");
    assert!(shown.to_string().contains("no such export"), "{shown}");
}

/// The server works over TCP, on a port of loopback that nbdkit finds free.
#[test]
fn nbdkit_serves_it_over_tcp() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let _peer = Peer::start("nbdkit", "nbdkit", &["-f", "-i", "127.0.0.1", "-p", &port, "memory", "8M"]);
    exercise(&connect(&format!("nbd://127.0.0.1:{port}/")));
}
