//! A client beside the owner stores to files of which the kernel has copies (FM5).

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use ferrite_fs::share::ClientListener;
use ferrite_fs::share::layout::request::LeaseAccess;
use ferrite_fs::{Ino, Time};
use ferrite_fs_client::{FileLease, FsSession};

use super::{Bug, World, assert_guarded};

/// A lease on the file `f` of `world`, and what it came by.
struct Client {
    lease: FileLease,
    _door: ClientListener,
    _folder: tempfile::TempDir,
}

impl Client {
    fn new(world: &World, access: LeaseAccess) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool");
        std::fs::write(&pool, "").expect("written");
        let door = ClientListener::open(&world.fs, &pool, [1; 16]).expect("nobody else has it");
        let session = FsSession::connect(&pool, "files", Arc::new(|| Time(3_000_000_000))).expect("let in");
        let lease = session.lease(ino(world), access).expect("leased");
        Self { lease, _door: door, _folder: folder }
    }
}

fn ino(world: &World) -> Ino {
    world.fs.lookup(Ino::ROOT, b"f").expect("it was made").ino
}

fn said(world: &World, script: &str) -> String {
    String::from_utf8(world.sh(script).stdout).expect("text")
}

#[test]
fn fm5_the_kernels_copies_of_content_are_what_a_client_wrote() {
    assert_guarded(Bug::RightStays, |world| {
        assert_eq!(said(world, "printf before > f; cat f f"), "beforebefore");
        let client = Client::new(world, LeaseAccess::Write);
        let is_seen = client.lease.write(0, b"direct") == Some(6) && said(world, "cat f f") == "directdirect";
        // The kernel has its copy now: whatever is written from here on is not to pass it by.
        let _ = client.lease.write(0, b"behind");
        let mut bytes = [0; 6];
        world.fs.read(ino(world), 0, &mut bytes).expect("it reads");
        is_seen && said(world, "cat f").as_bytes() == bytes
    });
}

/// What a client may store to is no program with rights of its own (fs FG9).
#[test]
fn fm5_who_gives_a_program_rights_ends_a_clients_right() {
    assert_guarded(Bug::RightStays, |world| {
        let capability = format!(
            "perl -e '$cap = pack(\"V5\", 0x2000001, 1 << 10, 0, 0, 0); $f = \"f\"; \
             $name = \"security.capability\"; syscall({}, $f, $name, $cap, 20, 0) == 0 or die $!'",
            libc::SYS_setxattr
        );
        ["chmod 4755 f", "chmod 2755 f", &capability].iter().all(|give| {
            said(world, "rm -f f; printf program > f");
            let client = Client::new(world, LeaseAccess::Write);
            assert_eq!(client.lease.write(0, b"P"), Some(1));
            said(world, "chmod 755 f");
            assert_eq!(client.lease.write(0, b"p"), Some(1), "any other mode is no harm");
            let given = world.sh(give);
            assert!(given.status.success(), "{}", String::from_utf8_lossy(&given.stderr));
            client.lease.write(0, b"P").is_none()
        })
    });
}

#[test]
fn fm5_the_kernel_believes_no_attributes_while_a_client_appends() {
    assert_guarded(Bug::Believed, |world| {
        said(world, "printf 0 > f; stat f");
        let client = Client::new(world, LeaseAccess::Append);
        (2..6)
            .all(|size| client.lease.append(b"1").is_some() && said(world, "stat -c %s,%Y f") == format!("{size},3\n"))
    });
}

/// By a program that has the file open, and asks for no size.
#[test]
fn fm5_what_is_appended_behind_a_clients_bytes_is_read_there() {
    assert_guarded(Bug::Misplaced, |world| {
        said(world, "head -c 8192 /dev/zero > f");
        let file = OpenOptions::new().read(true).append(true).open(world.folder.path().join("f")).expect("it opens");
        let read = || {
            let mut bytes = [0; 10];
            file.read_exact_at(&mut bytes, 8192).map(|()| bytes)
        };
        assert!(read().is_err(), "nothing is there yet");
        let client = Client::new(world, LeaseAccess::Append);
        assert_eq!(client.lease.append(b"client"), Some((8192, 6)));
        (&file).write_all(&[b'm'; 12288]).expect("room");
        let is_right = || read().is_ok_and(|bytes| &bytes == b"clientmmmm");
        // A thread of its own notifies the kernel, and may have to wait for the processor.
        let looks = if world.bug == Some(Bug::Misplaced) { 200 } else { 4000 };
        (0..looks).any(|_| is_right() || (std::thread::sleep(Duration::from_millis(5)), false).1)
    });
}
