//! What threads remember of files.

use std::sync::Arc;

use ferrite_crash::Model;
use ferrite_pool::Pool;
use ferrite_pool::layout::CHUNK;

use super::client_house::House;
use super::support::*;
use super::{Bug, plant};
use crate::share::layout::request::LeaseAccess;
use crate::view::hints::{self, FileBlock};
use crate::view::inode_snapshot::InodeSnapshot;
use crate::view::superpage_cache::{self, SuperpagePlace};
use crate::view::version::LockVersion;
use crate::view::version::StateId;
use crate::{Allocate, FileKind, FileSystem, FsOptions, Ino, Time};

/// A file system in which no time passes: overwrites need no lock.
fn still_fs() -> Arc<FileSystem> {
    let memory = new_memory(Model::MAPPED, 40 * CHUNK);
    let pool = Arc::new(Pool::open(memory, BOOT).expect("it opens").0);
    let options = FsOptions { data: None, read_only: false, clock: Arc::new(|| Time(5_000_000_000)) };
    FileSystem::open(pool, NAME, options).expect("it opens")
}

/// Returns true if a thread that read a file before it moved reads what another one then writes to it.
fn sees_what_others_write(bug: Option<Bug>) -> bool {
    let fs = still_fs();
    let ino = fs.create_file(Ino::ROOT, b"moving", &new(FileKind::File)).expect("made").ino;
    fs.write(ino, 0, &vec![1; 3 * CHUNK as usize]).expect("room");
    let read = |at| {
        let mut page = [0; 4096];
        assert_eq!(fs.read(ino, at, &mut page).expect("it reads"), page.len());
        page
    };
    (0..3).for_each(|_| assert_eq!(read(CHUNK), [1; 4096]));
    run_steps(&fs);
    assert_eq!(fs.statfs().super_bytes, 3 * CHUNK);
    let write = || fs.write(ino, CHUNK, &[2; 4096]).expect("there");
    std::thread::scope(|scope| scope.spawn(write).join().expect("it writes"));
    plant(bug);
    let seen = read(CHUNK);
    plant(None);
    seen == [2; 4096]
}

#[test]
fn fh1_what_a_thread_remembers_ends_with_the_version() {
    assert!(sees_what_others_write(None));
}

#[test]
fn canary_a_stale_hint_is_found() {
    assert!(!sees_what_others_write(Some(Bug::StaleHint)));
}

/// Where an overwrite will go is said ahead of all that is asked about it; only of what is in superpages, whose place
/// one word says.
#[test]
fn what_is_guessed_of_a_superpage_is_where_it_lies() {
    let fs = still_fs();
    let make = |name: &[u8], pages: usize| {
        let ino = fs.create_file(Ino::ROOT, name, &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, &vec![1; pages * 4096]).expect("room");
        ino
    };
    let (large, small) = (make(b"large", 3 * 512), make(b"small", 3));
    run_steps(&fs);
    assert_eq!(fs.statfs().super_bytes, 3 * CHUNK);
    let at = CHUNK + 5 * 4096;
    for (ino, at) in [(large, at), (small, 0)] {
        hints::forget(FileBlock { shared_state: fs.space.shared_state.id, ino, block: at / CHUNK });
        assert_eq!(hints::guess(ino, at), None, "nothing is remembered");
        fs.write(ino, at, &[2; 4096]).expect("there");
        fs.write(ino, at, &[3; 4096]).expect("there");
    }
    let mut found = [0; 4096];
    fs.memory().load(hints::guess(large, at).expect("it was seen"), &mut found);
    assert_eq!(found, [3; 4096]);
    assert_eq!(hints::guess(small, 0), None, "a page has a word of its own");
}

/// Returns true if a client that read a superpage reads the zeros of a hole that was made there.
fn sees_holes_that_others_make(bug: Option<Bug>) -> bool {
    let house = House::new();
    let ino = house.file("large", &vec![1; 3 * CHUNK as usize]);
    run_steps(&house.fs);
    assert_eq!(house.fs.statfs().super_bytes, 3 * CHUNK);
    let lease = house.client().lease(ino, LeaseAccess::Read).expect("leased");
    let read = || {
        let mut page = [3; 4096];
        assert_eq!(lease.read(CHUNK, &mut page), Some(page.len()));
        page
    };
    (0..3).for_each(|_| assert_eq!(read(), [1; 4096]));
    house.fs.allocate(ino, CHUNK..2 * CHUNK, Allocate::Punch).expect("it is there");
    plant(bug);
    let seen = read();
    plant(None);
    seen == [0; 4096]
}

#[test]
fn fg4_what_a_client_remembers_ends_with_the_version() {
    assert!(sees_holes_that_others_make(None));
}

#[test]
fn canary_a_client_with_a_stale_hint_is_found() {
    assert!(!sees_holes_that_others_make(Some(Bug::StaleHint)));
}

/// An access after a change is noted, even if a thread remembers an access before it.
#[test]
fn fh1_a_change_ends_what_was_noted_of_reads() {
    let fs = new_fs();
    let ino = fs.create_file(Ino::ROOT, b"read", &new(FileKind::File)).expect("made").ino;
    for _ in 0..3 {
        fs.write(ino, 0, &[3; 9000]).expect("room");
        let written = fs.getattr(ino).expect("there");
        assert!(written.atime <= written.mtime);
        (0..3).for_each(|_| assert_eq!(fs.read(ino, 0, &mut [0; 100]).expect("it reads"), 100));
        assert!(fs.getattr(ino).expect("there").atime > written.mtime);
    }
}

/// A program may have opened the file with O_NOATIME, before it was read and after.
#[test]
fn reads_that_are_not_to_be_noted_leave_no_time() {
    let fs = new_fs();
    let ino = fs.create_file(Ino::ROOT, b"read", &new(FileKind::File)).expect("made").ino;
    fs.write(ino, 0, &[3; 9000]).expect("room");
    let written = fs.getattr(ino).expect("there").atime;
    (0..3).for_each(|_| assert_eq!(fs.read_unnoted(ino, 0, &mut [0; 100]).expect("it reads"), 100));
    assert_eq!(fs.getattr(ino).expect("there").atime, written);
    fs.read(ino, 0, &mut [0; 100]).expect("it reads");
    assert!(fs.getattr(ino).expect("there").atime > written, "who looked before does not keep it from others");
}

/// A signal handler that reads files comes in the middle of anything: it takes nothing that is half changed, and
/// changes nothing itself.
#[test]
fn who_comes_amid_a_change_of_hints_does_without() {
    let (shared_state, version) = (StateId::new(), LockVersion::after(1));
    let [one, other] = [1, 2].map(|block| FileBlock { shared_state, ino: Ino(7), block });
    let is_known = |piece| hints::find(piece, version).is_some();
    hints::keep(one, version, InodeSnapshot::NONE);
    assert!(is_known(one) && hints::find(one, LockVersion::after(3)).is_none());
    hints::change(|| {
        assert!(!is_known(one));
        hints::keep(other, version, InodeSnapshot::NONE);
    });
    assert!(is_known(one) && !is_known(other));
    hints::forget(one);
    assert!(!is_known(one));
}

/// The same for what a client remembers; entries that are kept in between do not mix with earlier ones.
#[test]
fn who_comes_amid_a_change_of_stretches_does_without() {
    let [one, other] = [1, 257].map(|block| superpage_cache::LeaseBlock { lease: 7, block });
    let kept = SuperpagePlace { version: LockVersion::after(1), place: 4096, bytes: 100, size_at: 8, direct_size: 100 };
    superpage_cache::keep(one, &kept);
    let seen = superpage_cache::find(one).expect("it was kept");
    assert_eq!(seen.place_of(CHUNK + 50, 50), Some(4146));
    assert!(seen.place_of(CHUNK + 50, 51).is_none() && seen.is_one());
    hints::change(|| assert!(superpage_cache::find(one).is_none()));
    superpage_cache::keep(other, &SuperpagePlace { place: 8192, ..kept });
    assert!(!seen.is_one() && superpage_cache::find(one).is_none());
}
