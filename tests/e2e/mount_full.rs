//! Mounts that share a pool, a full pool, and read-only mounts.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use crate::direct::{python, run_directly};
use crate::mount::{Place, can_mount, start};
use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run};
use crate::tree::{assert_equal, unpack};

fn is_full<T>(done: std::io::Result<T>) -> bool {
    done.is_err_and(|why| why.kind() == ErrorKind::StorageFull)
}

/// Writes until the file system is full, and returns the number of bytes.
fn fill(file: &Path) -> u64 {
    let mut file = OpenOptions::new().create(true).append(true).open(file).expect("opened");
    let block = vec![0x5A_u8; 1 << 20];
    let mut total = 0;
    for len in [1 << 20, 4096, 1] {
        loop {
            match file.write(&block[..len]) {
                Ok(written) => total += written as u64,
                Err(why) => {
                    assert_eq!(why.kind(), ErrorKind::StorageFull, "{why}");
                    break;
                }
            }
        }
    }
    total
}

#[test]
fn a_file_system_that_is_not_mounted_gives_what_others_lack() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let (path, point) = (folder.path().join("pool"), folder.path().join("mnt"));
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "128M"]);
    for beside in [false, true] {
        let server = start(&path, &point, &[]);
        assert!(!beside || fs::read(point.join("kept")).expect("read") == [7; 5000]);
        fs::write(point.join("kept"), [7; 5000]).expect("written");
        fill(&point.join("large"));
        fs::remove_file(point.join("large")).expect("removed");
        server.interrupt();
        let server = beside.then(|| Server::start(&path, &["--no-attach"]));
        ok(&["disk", "create", pool, "d", "--size", "20M"]);
        ok(&["disk", "remove", pool, "d"]);
        drop(server);
        assert_sound(&path);
    }
}

/// The space that `df` shows goes to the first writer: the same file system, another one, or a new disk.
#[test]
fn freed_space_is_there_for_others_at_once() {
    let Some(Place { folder, pool, at: one }) = Place::new() else { return };
    let two = folder.path().join("two");
    let _server = start(&pool, &one, &["--size", "128M", "--disk", "d=8M"]);
    let pool = pool.to_str().expect("text");
    ok(&["fs", "create", pool, "two"]);
    ok(&["fs", "mount", pool, "two", two.to_str().expect("text")]);
    let most = vec![7; 80 << 20];
    for at in [&one, &two, &one] {
        fs::write(at.join("fill"), &most).unwrap_or_else(|why| panic!("{}: {why}", at.display()));
        fs::remove_file(at.join("fill")).expect("removed");
    }
    ok(&["disk", "create", pool, "large", "--size", "60M"]);
    assert_sound(Path::new(pool));
}

/// A full pool refuses only operations that need space. It loses no data when its server is killed then, and accepts
/// files again after some were removed.
#[test]
fn a_full_pool_still_deletes_and_outlives_a_kill() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    let server = start(&pool, &at, &["--size", "128M", "--disk", "d=8M"]);
    let kept: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    fs::write(at.join("kept"), &kept).expect("written");
    let total = fill(&at.join("big"));
    assert!(total > 80 << 20, "{total} bytes fill 128 MiB");
    assert!(is_full(fs::write(at.join("more"), b"more")), "there is space still");
    fs::rename(at.join("kept"), at.join("moved")).expect("a name takes the place of one");
    server.kill();
    let server = start(&pool, &at, &[]);
    assert!(fs::read(at.join("moved")).expect("there") == kept, "what was there before is damaged");
    assert_eq!(fs::metadata(at.join("big")).expect("there").len(), total);
    assert!(is_full(File::create(at.join("again")).and_then(|mut file| file.write_all(&vec![0; 8 << 20]))));
    fs::remove_file(at.join("big")).expect("removed");
    let big = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        fs::write(at.join("big"), vec![1; 64 << 20]).is_ok()
    });
    assert!(big, "the space of what was removed is not back");
    assert!(fs::read(at.join("moved")).expect("there") == kept, "what was there before is damaged");
    server.interrupt();
    assert_sound(&pool);
}

#[test]
fn two_mounts_and_a_disk_work_at_once_in_one_pool() {
    let Some(Place { folder, pool: path, .. }) = Place::new() else { return };
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "512M", "--disk", "d=64M"]);
    let points = ["one", "two"].map(|name| folder.path().join(name));
    for (name, point) in ["one", "two"].iter().zip(&points) {
        ok(&["fs", "create", pool, name]);
        ok(&["fs", "mount", pool, name, point.to_str().expect("text")]);
    }
    std::thread::scope(|scope| {
        points.iter().for_each(|point| drop(scope.spawn(|| unpack(point))));
        run(client("qemu-io").args(["-f", "raw", "-c", "write -P 7 0 64M", "-c", "read -P 7 0 64M", &server.uri("d")]));
    });
    run(client("qemu-io").args(["-f", "raw", "-c", "read -P 7 0 64M", &server.uri("d")]));
    points.iter().for_each(|point| assert_equal(point));
    server.interrupt();
    assert_sound(&path);
}

#[test]
fn a_read_only_mount_refuses_every_change() {
    let Some(Place { folder: _folder, pool: path, at }) = Place::new() else { return };
    let (pool, point) = (path.to_str().expect("text"), at.to_str().expect("text"));
    let _server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["fs", "create", pool, "f"]);
    ok(&["fs", "mount", pool, "f", point]);
    fs::write(at.join("file"), b"content").expect("written");
    ok(&["fs", "unmount", pool, "f"]);
    ok(&["fs", "mount", pool, "f", point, "--read-only"]);
    assert_eq!(fs::read(at.join("file")).expect("read"), b"content");
    assert_eq!(json(&["fs", "stat", pool, "f"])["read_only"], true);
    for change in
        ["echo x >> file", "echo x > new", "rm file", "mv file other", "mkdir d", "touch file", "chmod 1 file"]
    {
        let said =
            refused(client("sh").args(["-c", change]).current_dir(&at), if change.starts_with("echo") { 2 } else { 1 });
        assert!(said.contains("Read-only"), "{change}: {said}");
    }
    ok(&["fs", "unmount", pool, "f"]);
    assert_eq!(json(&["fs", "stat", pool, "f"])["space"]["inodes"], 2);
}

/// The height of one file's index contradicts its words. A repair reports that and what to do, and changes nothing.
/// Mounted to be read only, that file fails with EIO, and all else can be copied out.
#[test]
fn fd1_a_file_system_that_no_repair_can_decide_is_mounted_to_be_read_only_and_copied_out() {
    const MODE: u32 = 0o100_412;
    const BYTES: u64 = 123_457;
    const HEIGHT: usize = 2;
    let Some(Place { folder: _folder, pool: path, at }) = Place::new() else { return };
    let (pool, point) = (path.to_str().expect("text"), at.to_str().expect("text"));
    let server = start(&path, &at, &["--size", "64M"]);
    fs::create_dir(at.join("folder")).expect("made");
    fs::write(at.join("folder/sound"), b"content").expect("written");
    fs::write(at.join("hurt"), vec![7; BYTES as usize]).expect("written");
    fs::set_permissions(at.join("hurt"), Permissions::from_mode(MODE)).expect("changed");
    File::open(at.join("hurt")).and_then(|file| file.sync_all()).expect("durable");
    server.interrupt();
    assert_sound(&path);
    let bytes = fs::read(&path).expect("read");
    let is_hurt = |inode: &&[u8]| {
        let size = u64::from_le_bytes(inode[16..24].try_into().expect("eight")) << 16 >> 16;
        u32::from(u16::from_le_bytes([inode[0], inode[1]])) == MODE && size == BYTES
    };
    let mut inodes = bytes.chunks(256).enumerate().filter(|(_, inode)| is_hurt(inode));
    let (number, inode) = inodes.next().expect("the inode");
    assert!(inodes.next().is_none() && inode[HEIGHT] == 1);
    let at_height = (number * 256 + HEIGHT) as u64;
    OpenOptions::new().write(true).open(&path).and_then(|file| file.write_all_at(&[3], at_height)).expect("damaged");
    let before = fs::read(&path).expect("read")[number * 256..][..256].to_vec();
    let said = refused(ferrite().args(["pool", "check", pool, "--repair"]), 1);
    assert!(
        said.contains("fits the height of its index (byte ") && said.contains("ferrite fs mount --read-only"),
        "{said}"
    );
    assert!(!said.contains("repaired:") && fs::read(&path).expect("read")[number * 256..][..256] == before);
    let _server = Server::start(&path, &["--no-attach"]);
    ok(&["fs", "mount", pool, "files", point, "--read-only"]);
    assert_eq!(fs::read(at.join("folder/sound")).expect("read"), b"content");
    assert_eq!(fs::read(at.join("hurt")).expect_err("damaged").raw_os_error(), Some(libc::EIO));
}

/// `up --read-only` applies to its file system, too.
#[test]
fn a_server_that_refuses_writes_mounts_so() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    start(&pool, &at, &["--size", "64M", "--disk", "d=8M"]).interrupt();
    let _server = start(&pool, &at, &["--read-only"]);
    let refused = fs::write(at.join("file"), b"x").expect_err("written");
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
}

/// A user without root mounts by fusermount3. If root runs the test, it uses the user `nobody` and a FUSE device that
/// all users may open.
#[test]
fn a_user_mounts_by_fusermount() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let home = folder.path();
    let script = r#"
set -e
F=$1; H=$2; mkdir $H/dev; chown -R nobody $H
fs_copy=$H/ferrite; cp $F $fs_copy; chmod 755 $fs_copy
# The copies of other mounts would keep them from ending.
awk '$3 == "fuse.ferrite" { print $2 }' /proc/mounts | xargs -r -n1 umount -l
mount -t tmpfs -o mode=755 none $H/dev || { echo "skipped: no mounts in a namespace"; exit 0; }
mknod -m 666 $H/dev/fuse c 10 229; mount --bind $H/dev/fuse /dev/fuse || { echo "skipped: no device"; exit 0; }
HOME=$H exec setpriv --reuid nobody --regid nogroup --clear-groups bash -ec '
cd $HOME; ./ferrite pool create p --size 64M > log; ./ferrite fs create p f >> log
# Whatever fails, nothing of this lives on.
trap "kill -9 \$server" EXIT
serve() {
    ./ferrite fs mount p f m > $1 2>&1 & server=$!
    for i in $(seq 600); do grep -q "on " $1 && return; sleep 0.05; done
    cat $1; false
}
serve first; id -u > m/file; test "$(stat -c %U m/file)" = nobody; cat m/file
kill -9 $server; wait $server || true
serve second; cat m/file; kill -TERM $server; wait $server; test -z "$(ls m)"
trap - EXIT; ./ferrite pool check p; echo ended'
"#;
    let mut program = client("unshare");
    program.args(["--mount", "--propagation", "private", "bash", "-c", script, "-"]);
    let message = run(program.arg(ferrite_path()).arg(home));
    if message.contains("skipped: ") {
        println!("{message}");
        return;
    }
    assert!(message.contains("ended"), "{message}");
}

/// Stores to pages of a hole, and prints the results of msync and of two fsyncs.
const STORE: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1] + '/m', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20)
for page in range(64): m[page * 4096] = 65
def told(call):
    try: call()
    except OSError as why: return why.errno
print(told(m.flush), told(lambda: os.fsync(fd)), told(lambda: os.fsync(fd)))
os.close(fd)";
/// Reads a byte of each page twice, so that the second read is direct if possible.
const READ: &str = "
import os, sys
fd = os.open(sys.argv[1] + '/m', os.O_RDONLY)
print(*[[os.pread(fd, 1, page * 4096)[0] for page in range(64)] for time in range(2)])";

/// If stored content does not fit, all readers lose it alike, before and after a kill, and an fsync reports the loss.
#[test]
fn crash_a_store_to_a_mapping_of_a_hole_in_a_full_pool_has_one_outcome() {
    for with_run in [false, true] {
        let Some(place) = Place::new() else { return };
        let server = start(&place.pool, &place.at, &["--size", "64M", "--no-disk"]);
        fill(&place.at.join("fill"));
        let by = |script| {
            let mut program = python(script, &place.at);
            if with_run { run_directly(&mut program) } else { run(&mut program) }
        };
        assert_eq!(by(STORE), "28 28 None\n", "under `ferrite run`: {with_run}");
        let (through, directly) = (|| run(&mut python(READ, &place.at)), || run_directly(&mut python(READ, &place.at)));
        // The kernel drops its copy a moment later.
        let agree = || through() == directly();
        let forgotten = (0..100).any(|_| {
            agree() || {
                std::thread::sleep(Duration::from_millis(50));
                false
            }
        });
        assert!(forgotten, "{} through the mount, {} directly", through(), directly());
        let before = through();
        assert!(before.contains("0, 0, 0"), "some was lost: {before}");
        server.kill();
        let server = start(&place.pool, &place.at, &["--no-disk"]);
        assert_eq!((through(), directly()), (before.clone(), before));
        drop(server);
    }
}
