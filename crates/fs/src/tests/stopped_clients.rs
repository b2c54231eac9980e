//! Clients that stop in the middle of an operation, for as long as a test lasts, and then go on: no thread waits for
//! them, and their late stores harm no other file.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ferrite_pool::grant::GrantId;
use ferrite_pool::layout::CHUNK;

use super::client_house::*;
use super::support::*;
use crate::client::FileLease;
use crate::share::layout::request::LeaseAccess;
use crate::share::layout::shared_state::StateOwner;
use crate::tests::{Bug, plant, stop_at};
use crate::{Allocate, Error, Ino};

/// A thread of a client that stands still.
pub(super) struct Stopped<T> {
    go_on: Sender<()>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Stopped<T> {
    /// A client that runs `work` with `lease` and has reached `point`.
    pub(super) fn at(
        point: &'static str,
        lease: &Arc<FileLease>,
        work: impl FnOnce(&FileLease) -> T + Send + 'static,
    ) -> Self {
        let lease = Arc::clone(lease);
        Self::amid(point, move || work(&lease))
    }

    /// A client that runs `work` and has reached `point`.
    pub(super) fn amid(point: &'static str, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (go_on, may_go_on): (Sender<()>, Receiver<()>) = channel();
        let (stopped, is_stopped) = channel();
        let thread = std::thread::spawn(move || {
            let _point = stop_at(point, move || {
                if stopped.send(()).is_ok() {
                    let _ = may_go_on.recv();
                }
            });
            work()
        });
        is_stopped.recv().expect("it comes to the point");
        Self { go_on, thread }
    }

    pub(super) fn go_on(self) -> T {
        let Self { go_on, thread } = self;
        drop(go_on);
        thread.join().expect("it ends")
    }
}

fn leased(house: &House, ino: Ino, access: LeaseAccess) -> Arc<FileLease> {
    Arc::new(house.client().lease(ino, access).expect("leased"))
}

#[test]
fn fg2_pages_wait_for_a_client_that_was_stopped_and_nobody_else_does() {
    let house = House::new();
    let ino = house.file("one", &[1; 80 * 4096]);
    let lease = leased(&house, ino, LeaseAccess::Write);
    let stopped = Stopped::at("fs: before store", &lease, |lease| lease.write(4096, &[9; 4096]));
    house.fs.allocate(ino, 0..70 * 4096, Allocate::Punch).expect("punched");
    house.fs.space.drain_deferred_frees();
    assert_eq!(house.fs.space.deferred_frees.count().0, 70, "FG2: it may still store to them");
    let other = house.file("two", &[2; 200 * 4096]);
    assert_eq!(stopped.go_on(), None, "FG1: it finds out that there is no page any more");
    house.fs.space.drain_deferred_frees();
    assert_eq!(house.fs.space.deferred_frees.count().0, 0);
    assert!(content(&house.fs, other).expect("it reads").iter().all(|byte| *byte == 2));
    assert!(content(&house.fs, ino).expect("it reads")[..70 * 4096].iter().all(|byte| *byte == 0));
    assert_sound(&house.fs);
}

#[test]
fn fg3_a_client_that_stores_to_where_a_file_was_stores_again() {
    let house = House::new();
    let size = 2 * CHUNK;
    let ino = house.file("large", &vec![1; size as usize]);
    let lease = leased(&house, ino, LeaseAccess::Write);
    let stopped = Stopped::at("fs: before store", &lease, |lease| lease.write(8192, &[9; 4096]));
    run_steps(&house.fs);
    assert!(house.fs.statfs().super_bytes >= size, "the migration waits for nobody");
    assert_eq!(stopped.go_on(), Some(4096));
    let found = content(&house.fs, ino).expect("it reads");
    assert!(found[8192..12_288].iter().all(|byte| *byte == 9), "FG3: no write is lost");
    assert_sound(&house.fs);
}

/// A client is stopped at `point` of an append, others go on with the file, then it does. Says what is in the file.
fn append_late(point: &'static str, others: impl FnOnce(&House, Ino)) -> (Option<(u64, usize)>, Vec<u8>) {
    let house = House::new();
    let ino = house.file("log", &[1; 5000]);
    let lease = leased(&house, ino, LeaseAccess::Append);
    assert_eq!(lease.append(&[2; 100]), Some((5000, 100)));
    let stopped = Stopped::at(point, &lease, |lease| lease.append(&[9; 10_000]));
    others(&house, ino);
    assert!(house.client().lease(ino, LeaseAccess::Append).is_err(), "FG7: not while it may come back");
    let late = stopped.go_on();
    assert_eq!(lease.append(b"x"), None, "FG7: it lost the end");
    let found = content(&house.fs, ino).expect("it reads");
    drop(lease);
    run_steps(&house.fs);
    assert_eq!(house.fs.space.deferred_frees.count().0, 0, "and what it held is free");
    assert_sound(&house.fs);
    let again = leased(&house, ino, LeaseAccess::Append);
    assert_eq!(again.append(b"y").map(|(at, _)| at), Some(found.len() as u64));
    (late, found)
}

fn append_others(house: &House, ino: Ino) {
    assert_eq!(house.fs.append(ino, &[3; 20]).expect("room"), (5100, 20));
    assert_eq!(house.fs.append(ino, &[4; 9000]).expect("room"), (5120, 9000));
}

#[test]
fn fg7_what_a_stopped_client_appends_late_counts_no_more() {
    for point in ["fs: before store", "fs: before size", "fs: append kept"] {
        let (late, found) = append_late(point, append_others);
        assert_eq!(late, None, "FG7: it finds out");
        let expected = [&[1; 5000][..], &[2; 100], &[3; 20], &[4; 9000]].concat();
        assert!(found == expected, "FG7 at {point:?}: {} bytes", found.len());
    }
}

/// Its late stores lie behind the end, in pages of a superpage that it had ahead: those are not reused before it is
/// gone.
#[test]
fn fg7_what_a_stopped_client_appends_late_to_a_superpage_is_nobodys() {
    let house = House::new();
    let (ino, other) = (house.file("log", &[1; 5000]), house.file("other", b""));
    let lease = leased(&house, ino, LeaseAccess::Append);
    let much = vec![2; 3 << 20];
    assert_eq!(lease.append(&much), Some((5000, much.len())));
    let stopped = Stopped::at("fs: before store", &lease, |lease| lease.append(&[9; 100_000]));
    assert!(house.fs.statfs().super_bytes > 0, "it has superpages");
    assert_eq!(house.fs.append(ino, &[3; 20]).expect("room").1, 20);
    for len in [1 << 20, 4096] {
        let mut at = house.fs.getattr(other).expect("there").size;
        while let Ok(written) = house.fs.write(other, at, &vec![4; len]) {
            at += written as u64;
        }
    }
    assert_eq!(stopped.go_on(), None, "FG7: it finds out");
    assert!(
        content(&house.fs, other).expect("it reads").iter().all(|byte| *byte == 4),
        "FG2: it stored into a page of it"
    );
    assert!(content(&house.fs, ino).expect("it reads") == [&[1; 5000][..], &much, &[3; 20]].concat());
    drop(lease);
    run_steps(&house.fs);
    assert_eq!(house.fs.space.deferred_frees.count().0, 0, "what it held is free");
    assert_sound(&house.fs);
}

#[test]
fn fg7_a_file_is_cut_while_a_client_is_stopped_at_its_end() {
    for point in ["fs: before store", "fs: before size", "fs: append kept"] {
        let (late, found) = append_late(point, |house, ino| {
            resize(&house.fs, ino, 4900).expect("cut");
            resize(&house.fs, ino, 6000).expect("grown");
        });
        assert_eq!(late, None);
        assert!(found == [&[1; 4900][..], &[0; 1100]].concat(), "FG7 at {point:?}");
    }
}

#[test]
fn fg7_a_read_is_enough_to_take_the_end() {
    let (late, found) = append_late("fs: before size", |house, ino| {
        house.fs.end_writing(ino);
        assert_eq!(content(&house.fs, ino).expect("it reads").len(), 5100);
    });
    assert_eq!((late, found.len()), (None, 5100), "FG7: the append is done again through the mount, once");
}

#[test]
fn canary_what_comes_late_is_found() {
    let caught = std::panic::catch_unwind(|| {
        append_late("fs: before size", |house, ino| {
            plant(Some(Bug::StoppedAppendEnd));
            append_others(house, ino);
        })
    });
    plant(None);
    let expected = [&[1; 5000][..], &[2; 100], &[3; 20], &[4; 9000]].concat();
    assert!(caught.is_err() || caught.is_ok_and(|(late, found)| late.is_some() || found != expected), "FG7");
}

/// What a new owner sees of a file to which a client of the old one was appending, when that goes on.
fn append_across_owners(point: &'static str, others: impl FnOnce(&House, Ino)) -> (House, Vec<u8>) {
    let mut house = House::new();
    let ino = house.file("log", &[1; 5000]);
    let lease = leased(&house, ino, LeaseAccess::Append);
    assert_eq!(lease.append(&[2; 100]), Some((5000, 100)));
    let stopped = Stopped::at(point, &lease, |lease| lease.append(&[9; 10_000]));
    house = house.reopened();
    assert!(house.fs.link.pins.has_orphaned_clients(), "FG5: its grant stands");
    others(&house, ino);
    run_steps(&house.fs);
    assert!(house.client().lease(ino, LeaseAccess::Append).is_err(), "FG7: not while it may come back");
    assert_eq!(stopped.go_on(), None, "FG1: its owner is gone");
    let found = content(&house.fs, ino).expect("it reads");
    assert_sound(&house.fs);
    (house, found)
}

#[test]
fn fg5_a_client_of_a_dead_owner_harms_nothing() {
    for point in ["fs: before store", "fs: before size"] {
        let (house, found) = append_across_owners(point, |house, ino| {
            append_others(house, ino);
            house.file("other", &[5; 300_000]);
            house.fs.unlink(Ino::ROOT, b"other").expect("it goes");
            house.file("third", &[6; 300_000]);
        });
        let expected = [&[1; 5000][..], &[2; 100], &[3; 20], &[4; 9000]].concat();
        assert!(found == expected, "FG5 at {point:?}: {} bytes", found.len());
        let third = house.fs.lookup(Ino::ROOT, b"third").expect("there").ino;
        assert!(content(&house.fs, third).expect("it reads").iter().all(|byte| *byte == 6));
    }
}

/// Their last pages cannot be replaced; a late client stores nothing before the end.
#[test]
fn fg5_a_client_of_a_dead_owner_keeps_nobody_from_storing_over_what_is_there() {
    const BYTES: usize = 2 * CHUNK as usize + 5000;
    let mut house = House::new();
    let files = ["small", "large"].map(|name| house.file(name, &[1; BYTES]));
    let lease = leased(&house, files[0], LeaseAccess::Append);
    let stopped = Stopped::at("fs: before store", &lease, |lease| lease.append(&[9; 10_000]));
    house = house.reopened();
    let (rest, mut at) = (house.file("rest", b""), 0);
    while let Ok(written) = house.fs.write(rest, at, &[3; 1 << 18]) {
        at += written as u64;
    }
    for ino in files {
        for round in 4..6 {
            let written = [0, 5000, BYTES as u64 - 4096].map(|at| house.fs.write(ino, at, &[round; 4096]));
            assert!(written.iter().all(|written| matches!(written, Ok(4096))), "FG5: {written:?}");
        }
        let behind = house.fs.write(ino, BYTES as u64, &[5]);
        assert!(matches!(behind, Err(Error::NoSpace)), "FG7: its last page has to be another: {behind:?}");
    }
    assert_eq!(stopped.go_on(), None, "FG1: its owner is gone");
    for ino in files {
        let mut expected = vec![1; BYTES];
        [0, 5000, BYTES - 4096].iter().for_each(|at| expected[*at..at + 4096].fill(5));
        assert!(content(&house.fs, ino).expect("it reads") == expected, "FG5");
    }
    assert_sound(&house.fs);
}

#[test]
fn fg5_a_client_that_outlives_its_owner_lets_go_and_is_let_in_again() {
    let mut house = House::new();
    let ino = house.file("log", b"1");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    assert_eq!(lease.append(b"2"), Some((1, 1)));
    // As if they ran an older version, or could not be inspected: the owner does not know their state.
    house.fs.space.shared_state.add_session(StateOwner { pool: [255; 16], generation: 0 }, GrantId(1));
    house = house.reopened();
    let again = house.client();
    assert!(house.fs.link.pins.has_orphaned_clients(), "FG5: it has its old session still");
    assert!(again.lease(ino, LeaseAccess::Append).is_err(), "FG7");
    assert_eq!(lease.append(b"x"), None, "FG1");
    drop(lease);
    let lease = again.lease(ino, LeaseAccess::Append).expect("nobody is left who could come back");
    assert!(!house.fs.link.pins.has_orphaned_clients());
    assert_eq!(lease.append(b"3"), Some((2, 1)));
    assert_eq!(content(&house.fs, ino).expect("it reads"), b"123");
    assert_eq!(house.fs.pool().grants().standing().len(), 1);
    assert_sound(&house.fs);
}

/// The content of a file after a client that was stopped at `point` goes on once its session was withdrawn, with `bug`
/// planted. So it is when a program gives up the rights of its user while another of its threads is within a write.
fn write_after_withdrawal(point: &'static str, access: LeaseAccess, bug: Option<Bug>) -> (House, Ino) {
    let house = House::new();
    let ino = house.file("one", &[1; 8192]);
    let client = house.client();
    let lease = Arc::new(client.lease(ino, access).expect("leased"));
    let at = if access == LeaseAccess::Append { 8192 } else { 0 };
    let stopped = Stopped::at(point, &lease, move |lease| lease.write(at, &[9; 4096]));
    plant(bug);
    client.withdraw(|| ());
    plant(None);
    assert_eq!(stopped.go_on(), None, "FG10: it finds out, at {point:?}");
    assert_eq!((lease.read(0, &mut [0; 16]), lease.write(0, &[9; 16]), lease.size()), (None, None, None));
    (house, ino)
}

/// Returns true if the file is what it was.
fn is_untouched(house: &House, ino: Ino) -> bool {
    let found = content(&house.fs, ino).expect("it reads");
    found.len() == 8192 && found.iter().all(|byte| *byte == 1)
}

#[test]
fn fg10_what_a_client_does_late_goes_nowhere_once_its_session_was_withdrawn() {
    let points = [
        ("fs: before store", LeaseAccess::Write),
        ("fs: before size", LeaseAccess::Append),
        ("fs: append kept", LeaseAccess::Append),
    ];
    for (point, access) in points {
        let (house, ino) = write_after_withdrawal(point, access, None);
        assert!(is_untouched(&house, ino), "FG10: at {point:?}");
        assert_eq!(house.fs.append(ino, &[2; 4096]).expect("room"), (8192, 4096), "others go on");
        assert_sound(&house.fs);
    }
}

#[test]
fn canary_who_keeps_the_memory_of_a_session_that_was_withdrawn_is_found() {
    let (house, ino) = write_after_withdrawal("fs: before store", LeaseAccess::Write, Some(Bug::KeptMemory));
    assert!(!is_untouched(&house, ino));
}
