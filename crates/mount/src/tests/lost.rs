//! Content that was stored to a mapping, or kept back by the kernel, and does not fit (ML1).

use std::time::Instant;

use ferrite_fs::{DataMode, Ino};

use super::{Bug, PATIENCE, World, assert_guarded};

/// Stores to pages of a hole in a full file system. Prints what msync, and fsync twice, said.
const STORE: &str = r#"python3 -c '
import mmap, os
fd = os.open("m", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20)
for page in range(256): m[page * 4096] = 65
def told(call):
    try:
        call()
        return 0
    except OSError as why: return why.errno
print(told(m.flush), told(lambda: os.fsync(fd)), told(lambda: os.fsync(fd)))
'"#;
/// The first byte of each page, as programs read it through the mount.
const READ: &str = r#"python3 -c 'print([page[0] for page in iter(lambda f=open("m", "rb"): f.read(4096), b"")])'"#;

fn fill(world: &World) {
    let said = world.sh("dd if=/dev/zero of=fill bs=4k 2>&1; sync fill");
    assert!(String::from_utf8_lossy(&said.stdout).contains("No space left"), "{said:?}");
}

/// Returns the file's content in the file system, printed as [`READ`] does.
fn kept(world: &World) -> String {
    let ino = world.fs.lookup(Ino::ROOT, b"m").expect("it was made").ino;
    let first = |page: u64| {
        let mut byte = [0];
        world.fs.read(ino, page * 4096, &mut byte).expect("it reads");
        byte[0].to_string()
    };
    format!("[{}]\n", (0..256).map(first).collect::<Vec<_>>().join(", "))
}

#[test]
fn ml1_an_fsync_after_a_failed_msync_fails_and_no_more_than_one() {
    assert_guarded(Bug::LossForgotten, |world| {
        fill(world);
        world.sh(STORE).stdout == b"28 28 0\n"
    });
}

#[test]
fn ml1_all_readers_see_what_was_kept_of_a_failed_write_back() {
    assert_guarded(Bug::LostShown, |world| {
        fill(world);
        world.sh(STORE);
        let until = Instant::now() + PATIENCE / 5;
        let is_seen = || world.sh(READ).stdout == kept(world).as_bytes();
        let mut agree = is_seen();
        while !agree && Instant::now() < until {
            agree = is_seen();
        }
        agree
    });
}

/// The same of what `write` had returned for.
#[test]
fn ml1_a_failed_write_back_of_a_cached_mount_is_told_again() {
    let Some(world) = World::mounted(None, DataMode::Sync, true) else { return };
    // The kernel says that it has room for any number of bytes.
    world.sh("head -c 40M /dev/zero > fill; sync fill");
    let said = world.sh(STORE);
    assert!(said.stdout.starts_with(b"28 28 0"), "{said:?}");
}
