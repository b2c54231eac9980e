//! The kernel's cache of names: present names, absent names (FM10), and names of attributes.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferrite_fs::{Credentials, FileKind, FileSystem, Ino, ListedEntry, NewFile, SetXattr};

use super::{Bug, PATIENCE, World, assert_guarded};

/// A name that no file has.
const MISSING: &str = "missing";
/// How often the kernel asked for it.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// The listing, counted from now on, whose entries are removed before the kernel gets them.
static REMOVED: AtomicU32 = AtomicU32::new(0);

/// Removes what is `listed` in `dir`, if that is asked for.
pub(super) fn meet_listed(fs: &FileSystem, dir: Ino, listed: &[ListedEntry]) {
    let one_less = |which: u32| which.checked_sub(1);
    if REMOVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) == Ok(1) {
        listed.iter().for_each(|entry| fs.unlink(dir, &entry.name).expect("it goes"));
    }
}

/// Counts who asks for the name that is missing.
pub(super) fn count(name: &OsStr) {
    ASKED.fetch_add(u32::from(name == MISSING), Ordering::Relaxed);
}

/// A program that looks through a path of folders asks for many.
#[test]
fn fm10_a_name_that_is_not_there_is_asked_for_once() {
    assert_guarded(Bug::NotRemembered, |world| {
        ASKED.store(0, Ordering::Relaxed);
        let said = world.sh(&format!("for n in 1 2 3; do cat {MISSING}; done"));
        assert_eq!(String::from_utf8_lossy(&said.stderr).matches("No such file").count(), 3, "{said:?}");
        ASKED.load(Ordering::Relaxed) == 1
    });
}

/// By whatever call it comes.
#[test]
fn fm10_a_name_that_is_not_there_is_remembered_until_it_is() {
    let Some(world) = World::new(None) else { return };
    let said = world.sh("cat f; cat f; mkdir f && ls -a && rmdir f; cat f; mv f g; echo a > h; ln h f && cat f");
    let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert_eq!(out, ".\n..\nf\na\n", "{errors}");
    assert_eq!(errors.matches("No such file").count(), 4, "{errors}");
}

/// Lists by readdirplus and by readdir. One listing has entries and reaches the end (fs FN4).
#[test]
fn a_listing_with_a_damaged_name_has_all_others_and_fails() {
    const PATTERN: &[u8] = b"a name to be damaged";
    let Some(world) = World::new(None) else { return };
    let made = world.sh(&format!("mkdir d && cd d && touch $(seq 300) '{}'", String::from_utf8_lossy(PATTERN)));
    assert!(made.status.success());
    let (pool, mut bytes) = (world.fs.pool(), vec![0; 32 << 20]);
    pool.memory().load(0, &mut bytes);
    let is_in_page = |at: &usize| bytes[at / 4096 * 4096..].starts_with(b"LEAF");
    let mut places = (0..bytes.len()).step_by(8).filter(|at| bytes[*at..].starts_with(PATTERN)).filter(is_in_page);
    let (at, None) = (places.next().expect("there"), places.next()) else { panic!("it lies in several pages") };
    pool.memory().store_word(at as u64, 0);
    for list in ["ls -f d", "ls -f d", "ls -al d"] {
        let said = world.sh(list);
        let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert_eq!(out.lines().filter(|line| !line.starts_with("total")).count(), 302, "{list}: {errors}");
        assert!(!said.status.success() && errors.contains("Input/output error"), "{list}: {errors}");
    }
}

/// Programs that copy a directory take nothing of one that they cannot list.
#[test]
fn fm13_who_copies_a_directory_with_a_damaged_inode_has_all_else() {
    const OWNER: u32 = 1_592_340_243;
    const COPIED: &str = "-rw-r--r-- 1\n-rw-r--r-- 2\n-rw-r--r-- 4\n-rw-r--r-- 5\n";
    let Some(world) = World::new(None) else { return };
    assert!(world.sh(&format!("mkdir d && cd d && touch 1 2 3 4 5 && chown {OWNER} 3")).status.success());
    let (pool, mut bytes) = (world.fs.pool(), vec![0; 32 << 20]);
    pool.memory().load(0, &mut bytes);
    let is_owners = |at: &usize| bytes[at + 8..].starts_with(&OWNER.to_le_bytes());
    let at = (0..bytes.len()).step_by(256).find(is_owners).expect("an inode") as u64;
    // Of no kind that there is.
    pool.memory().store_word(at, pool.memory().load_word(at) | 0xf000);
    for copy in ["cp -a d e", "mkdir e && tar -cf - d | tar -xf - -C e --strip-components 1"] {
        let said = world.sh(&format!("ls d; {copy}; cd e && stat -c '%A %n' *; rm -r ../e"));
        let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert_eq!(out, format!("1\n2\n3\n4\n5\n{COPIED}"), "{errors}");
        assert_eq!(
            errors.matches("d/3: Cannot stat: Input/output").count() + errors.matches("'d/3': Input").count(),
            1
        );
    }
}

/// An answer without entries would be the end.
#[test]
fn a_listing_goes_on_behind_names_that_are_removed_before_they_are_told() {
    // The program reads the attributes of each listed name, so the kernel lists the rest with attributes too.
    const LIST: &str = "open D, \".\"; $room = \"\\0\" x 2048; while (($len = syscall(217, fileno D, $room, 2048)) > 0) \
        { for ($at = 0; $at < $len; $at += $next) { $next = unpack \"v\", substr $room, $at + 16, 2; $all++; \
        lstat unpack \"Z*\", substr $room, $at + 19 } } print $all";
    let Some(world) = World::new(None) else { return };
    // The kernel holds none of them.
    let new = NewFile { kind: FileKind::File, mode: 0o644, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };
    for i in 0..300 {
        world.fs.create_file(Ino::ROOT, format!("{i}").as_bytes(), &new).expect("made");
    }
    REMOVED.store(2, Ordering::Relaxed);
    let said = world.sh(&format!("perl -e '{LIST}'"));
    let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert_eq!((out.as_ref(), REMOVED.load(Ordering::Relaxed)), ("174", 0), "with itself and its parent: {errors}");
}

/// Some C libraries list by 2 KiB at a time, where each answer ends with an entry that it has no room for.
#[test]
fn fm1_what_a_listing_has_no_room_for_is_not_held() {
    const LIST: &str = "open D, \".\"; $room = \"\\0\" x 2048; while (($len = syscall(217, fileno D, $room, 2048)) > 0) \
        { for ($at = 0; $at < $len; $at += $next) { $next = unpack \"v\", substr $room, $at + 16, 2; $all++ } } print $all";
    assert_guarded(Bug::RefusedHeld, |world| {
        let before = world.fs.statfs().inodes;
        let said = world.sh(&format!("touch $(seq 300) && perl -e '{LIST}' && rm *"));
        let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert_eq!(out, "302", "with itself and its parent: {errors}");
        let patience = if world.bug == Some(Bug::RefusedHeld) { PATIENCE / 20 } else { PATIENCE };
        let until = Instant::now() + patience;
        while world.fs.statfs().inodes > before && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        world.fs.statfs().inodes == before
    });
}

#[test]
fn names_of_trusted_attributes_are_roots_to_see() {
    const LIST: &str = "$f = \"f\"; $names = \"\\0\" x 200; $len = syscall(194, $f, $names, 200); \
        print join(\",\", sort split /\\0/, substr $names, 0, $len), \"\\n\"";
    let Some(world) = World::new(None) else { return };
    world.sh("echo > f");
    let ino = world.fs.lookup(Ino::ROOT, b"f").expect("it was made").ino;
    for name in [&b"user.seen"[..], b"trusted.hidden"] {
        world.fs.set_xattr(ino, name, b"1", SetXattr::Any).expect("set");
    }
    let by = "setpriv --reuid 12345 --regid 12345 --clear-groups";
    let said = world.sh(&format!("perl -e '{LIST}'; {by} perl -e '{LIST}'"));
    let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert_eq!(out, "trusted.hidden,user.seen\nuser.seen\n", "{errors}");
}

#[test]
fn a_name_is_moved_for_a_whiteout_where_none_is_replaced() {
    const MOVE: &str = "syscall(316, -100, $ARGV[0], -100, $ARGV[1], 5) == 0 ? print \"moved\\n\" : print \"$!\\n\"";
    let Some(world) = World::new(None) else { return };
    let said = world.sh(&format!("touch a b; perl -e '{MOVE}' a b; perl -e '{MOVE}' a c; stat -c '%n %F' a b c"));
    let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let files = "a character special file\nb regular empty file\nc regular empty file\n";
    assert_eq!(out, format!("File exists\nmoved\n{files}"), "{errors}");
}

/// As a server of NFS finds it, which knows of a file no more than that.
#[test]
fn fm11_a_file_that_the_kernel_does_not_remember_is_found_by_number_and_generation() {
    assert_guarded(Bug::NumbersUnknown, |world| {
        let make = |name: &[u8], kind| {
            let new = NewFile { kind, mode: 0o755, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };
            world.fs.create_file(Ino::ROOT, name, &new).expect("made")
        };
        let (file, dir, gone) =
            (make(b"f", FileKind::File), make(b"d", FileKind::Directory), make(b"g", FileKind::File));
        world.fs.unlink(Ino::ROOT, b"g").expect("it goes");
        let open = |ino: Ino, generation: u32| {
            let handle = format!("pack(\"LLLLL\", 12, 0x81, {}, {}, {generation})", ino.0 >> 32, ino.0 & 0xffff_ffff);
            let said = world.sh(&format!(
                "perl -e 'open D, \".\"; $handle = {handle}; $fd = syscall(304, fileno D, $handle, 0); \
                 print $fd < 0 ? $! : readlink \"/proc/self/fd/$fd\"'"
            ));
            String::from_utf8_lossy(&said.stdout).into_owned()
        };
        let is_stale = |said: &str| said == "Stale file handle";
        assert!(is_stale(&open(file.ino, file.generation + 1)) && is_stale(&open(gone.ino, gone.generation)));
        let found = [open(file.ino, file.generation), open(dir.ino, dir.generation)];
        !is_stale(&found[0]) && found[1].ends_with("/d")
    });
}
