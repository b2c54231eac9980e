//! Clients that append: what they are given for it, and what they know of the end.

use std::cell::Cell;

use super::client_house::*;
use super::support::*;
use super::{Bug, plant};
use crate::share::layout::request::LeaseAccess;

/// The first pages come with the lease, and go back with it.
#[test]
fn fg7_a_lease_to_append_brings_what_the_first_appends_want() {
    let house = House::new();
    let ino = house.file("log", &[7; 40_000]);
    let allocated = || house.fs.getattr(ino).expect("there").allocated_bytes;
    let before = allocated();
    let lease = to_append(&house.client(), ino);
    let with_pages = allocated();
    assert!(with_pages >= before + (200 << 10), "pages come along: {before} bytes, then {with_pages}");
    (0..50).for_each(|_| assert!(lease.append(&[8; 4096]).is_some()));
    assert_eq!(allocated(), with_pages, "nothing more is asked for");
    let size = house.fs.getattr(ino).expect("there").size;
    assert_eq!(size, 40_000 + 50 * 4096);
    drop(lease);
    assert!(allocated() <= size.next_multiple_of(4096) + 4096, "what was not appended to goes back");
    assert_sound(&house.fs);
}

/// What was taken for appends to come is no part of a hole that the file grows by.
#[test]
fn ft1_a_file_that_grows_by_a_hole_keeps_no_pages_in_it() {
    let house = House::new();
    let allocated = |ino| house.fs.getattr(ino).expect("there").allocated_bytes;
    let by_size = |ino| resize(&house.fs, ino, 16 << 20).expect("grown");
    let by_write = |ino| assert_eq!(house.fs.write(ino, 16 << 20, b"x").expect("room"), 1);
    let grow: [&dyn Fn(crate::Ino); 2] = [&by_size, &by_write];
    for (nth, grow) in grow.into_iter().enumerate() {
        let (direct, plain) = (house.file(&format!("direct{nth}"), b""), house.file(&format!("plain{nth}"), b""));
        let client = house.client();
        let lease = to_append(&client, direct);
        assert_eq!(lease.append(&[7; 2000]), Some((0, 2000)));
        house.fs.hold(plain).expect("held");
        (0..64).for_each(|_| assert_eq!(house.fs.append(plain, &[7; 2000]).expect("room").1, 2000));
        for ino in [direct, plain] {
            assert!(allocated(ino) > 100 << 10, "pages were taken ahead");
            let size = house.fs.getattr(ino).expect("there").size;
            grow(ino);
            let kept = allocated(ino).saturating_sub(size.next_multiple_of(4096));
            assert!(kept <= 5 * 4096, "file {nth}: {kept} bytes for a hole");
            let found = content(&house.fs, ino).expect("it reads");
            assert!(found[..size as usize].iter().all(|byte| *byte == 7));
            assert!(found[size as usize..16 << 20].iter().all(|byte| *byte == 0), "FT1");
        }
        assert_eq!(lease.append(b"y").map(|(_, len)| len), Some(1), "and it appends on");
        drop(lease);
        house.fs.release(plain, 1);
    }
    assert_sound(&house.fs);
}

/// What a client that appends finds at the end of its file, when the owner has appended too.
fn appended_in_turn(bug: Option<Bug>) -> Vec<u8> {
    let house = House::new();
    let ino = house.file("log", b"");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    (0..3).for_each(|at| assert_eq!(lease.append(b"a"), Some((at, 1))));
    house.fs.append(ino, b"bb").expect("room");
    plant(bug);
    lease.append(b"c");
    plant(None);
    content(&house.fs, ino).expect("it reads")
}

#[test]
fn fg7_a_client_knows_where_it_appended_last_until_others_have_the_file() {
    assert_eq!(appended_in_turn(None), b"aaabbc");
}

#[test]
fn canary_a_stale_end_is_found() {
    assert_ne!(appended_in_turn(Some(Bug::StaleEnd)), b"aaabbc");
}

#[test]
fn a_client_writes_on_where_it_ended_and_reads_what_it_wrote() {
    const PAGE: usize = 4096;
    let house = House::new();
    let ino = house.file("one", b"");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    let page = |number: usize| [number as u8 ^ (number >> 8) as u8; PAGE];
    for number in 0..1100 {
        let at = (number * PAGE) as u64;
        assert_eq!(lease.write(at, &page(number)), Some(PAGE), "page {number}");
        for seen in [number, number / 2] {
            let mut bytes = [0; PAGE];
            assert_eq!(lease.read((seen * PAGE) as u64, &mut bytes), Some(PAGE));
            assert_eq!(bytes, page(seen), "page {seen} after page {number}");
        }
        assert_eq!(lease.size(), Some(at + PAGE as u64));
    }
    drop(lease);
    let expected: Vec<u8> = (0..1100).flat_map(page).collect();
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected);
    assert_sound(&house.fs);
}

thread_local!(static QUIET: Cell<(bool, u32)> = const { Cell::new((true, 0)) });

/// Counts, and does nothing where it is not to.
fn counts(work: &mut dyn FnMut()) {
    let (may_work, times) = QUIET.get();
    QUIET.set((may_work, times + 1));
    if may_work {
        work();
    }
}

/// A signal handler that interrupts a write may need the same locks.
#[test]
fn fg7_whatever_takes_locks_amid_a_write_is_done_quietly_or_not_at_all() {
    let house = House::new();
    let client = house.client_quiet(counts);
    let lease = client.lease(house.file("log", b"before"), LeaseAccess::Append).expect("leased");
    QUIET.set((false, 0));
    assert_eq!((lease.write(0, b"B"), QUIET.get().1), (None, 1), "no seat");
    QUIET.set((true, 0));
    assert_eq!((lease.write(0, b"B"), QUIET.get().1), (Some(1), 1), "a seat");
    QUIET.set((false, 0));
    assert_eq!((lease.append(&[1; 10_000]), QUIET.get().1), (None, 1), "no pages");
    QUIET.set((true, 0));
    assert_eq!((lease.append(&[1; 10_000]), QUIET.get().1), (Some((6, 10_000)), 1), "pages");
    (0..50).for_each(|_| assert!(lease.append(&[2; 100]).is_some() && lease.write(3, &[3; 100]).is_some()));
    assert_eq!(QUIET.get().1, 1, "and both stay");
}
