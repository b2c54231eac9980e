//! Clients that were in the middle of nothing when their owner was killed, and sleep: nothing is kept for them (FG5).

use std::thread;
use std::time::Duration;

use ferrite_pool::grant::GrantId;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Caller, PidFd};

use super::client_house::*;
use super::stopped_clients::Stopped;
use super::support::*;
use crate::share::layout::request::{ClientRequest, LeaseAccess};
use crate::share::layout::shared_state::{LAYOUT, StateOwner};
use crate::{FileSystem, Ino};

/// Writes to a new file until there is no space; how much that was.
fn fill(fs: &FileSystem, name: &[u8]) -> u64 {
    let ino = fs.create_file(Ino::ROOT, name, &new(crate::FileKind::File)).expect("made").ino;
    let mut at = 0;
    while let Ok(written) = fs.write(ino, at, &[3; 1 << 18]) {
        at += written as u64;
    }
    at
}

/// A pool all of which the file system had once, nearly all of it free now.
fn house_of_free_chunks() -> (House, u64) {
    let house = House::new();
    let all = fill(&house.fs, b"much");
    house.fs.unlink(Ino::ROOT, b"much").expect("it goes");
    house.fs.step().expect("removed");
    (house, all)
}

#[test]
fn fg5_a_client_that_sleeps_keeps_nothing_from_the_next_owner() {
    for closes in [false, true] {
        let (mut house, all) = house_of_free_chunks();
        let lease = house.client().lease(house.file("log", &[1; 5000]), LeaseAccess::Append).expect("leased");
        assert_eq!(lease.append(&[2; 100]), Some((5000, 100)));
        let mut lease = Some(lease);
        if closes {
            // Its owner is gone by then, without notice.
            drop_owner_liveness(&house.fs);
            drop(lease.take());
        }
        house = house.reopened();
        assert!(!house.fs.link.pins.has_orphaned_clients(), "FG5: it closed the file: {closes}");
        assert!(house.fs.pool().grants().standing().is_empty(), "FG5");
        let written = fill(&house.fs, b"much");
        assert!(written + CHUNK > all, "FG5: {written} bytes of {all}");
        assert!(lease.is_none_or(|lease| lease.append(&[9; 100]).is_none()), "FG1: its owner is gone");
        assert_sound(&house.fs);
    }
}

type Late = Stopped<Option<(u64, usize)>>;

/// One that is stopped in an append, of a house with a file of 5000 bytes, and the next owner; how much space there
/// was for one file.
fn stopped_amid_an_append() -> (House, Ino, Late, u64) {
    let (house, all) = house_of_free_chunks();
    let ino = house.file("log", &[1; 5000]);
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    let stopped = Stopped::amid("fs: before store", move || lease.append(&[9; 10_000]));
    (house.reopened(), ino, stopped, all)
}

#[test]
fn fg5_who_wants_space_waits_for_a_client_that_goes_on() {
    let (house, ino, stopped, all) = stopped_amid_an_append();
    assert!(house.fs.link.pins.has_orphaned_clients(), "FG5: it may store still");
    let goes_on = thread::spawn(|| {
        thread::sleep(Duration::from_millis(200));
        stopped.go_on()
    });
    let written = fill(&house.fs, b"much");
    assert_eq!(goes_on.join().expect("it ends"), None, "FG1: its owner is gone");
    assert!(written + CHUNK > all, "FG5: {written} bytes of {all}: nobody waited");
    assert_eq!(content(&house.fs, ino).expect("it reads"), [1; 5000]);
    assert_sound(&house.fs);
}

#[test]
fn fg5_what_a_stopped_client_keeps_is_told_and_is_not_told_to_be_free() {
    let (house, _, stopped, all) = stopped_amid_an_append();
    let message = house.fs.statfs();
    assert!(message.awaited_bytes + CHUNK > all && message.free_bytes < CHUNK, "FG5: {message:?}");
    assert_eq!(house.fs.awaited_processes(), [std::process::id()]);
    stopped.go_on();
    house.fs.step().expect("it looks again");
    let message = house.fs.statfs();
    assert!(message.awaited_bytes == 0 && message.free_bytes + CHUNK > all, "FG5: {message:?}");
    assert!(house.fs.awaited_processes().is_empty());
}

/// As one of which it never heard, as its owner was killed just then: it has no shared state that says so.
#[test]
fn fg5_a_session_that_its_process_does_not_hold_is_over() {
    let mut house = House::new();
    let lease = house.client().lease(house.file("log", b"1"), LeaseAccess::Append).expect("leased");
    house.fs.space.shared_state.add_session(StateOwner { pool: [255; 16], generation: 0 }, GrantId(1));
    house = house.reopened();
    let session = house.fs.pool().grants().standing()[0].id;
    let (pid, process) = (std::process::id(), PidFd::open(std::process::id()).expect("it lives"));
    let caller = Caller { pid, uid: 0, process, connection: 1 };
    for (held, counts) in [(None, true), (Some(vec![session]), true), (Some(vec![]), false)] {
        let request = ClientRequest::DirectOpen { name: NAME.into(), layout: LAYOUT, held };
        house.fs.answer(BOOT, &caller, &request).expect("let in");
        assert_eq!(house.fs.link.pins.has_orphaned_clients(), counts, "FG5: {request:?}");
    }
    assert_eq!(lease.append(b"2"), None, "FG1: its owner is gone");
}
