//! Clients whose files are on SSDs: the owner reads and overwrites for them, and the leases stay (FG13).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use ferrite_pool::layout::PAGE;

use super::client_house::House;
use super::support::{assert_sound, beside, content};
use super::tiers::{away_pages, bytes, send_away, step};
use super::{Bug, plant, stop_at};
use crate::share::client_transfer::TransferAreas;
use crate::share::layout::request::LeaseAccess;
use crate::share::layout::shared_state::{TRANSFER_AREAS, TRANSFER_BYTES};
use crate::{FileSystem, Ino};

/// Returns how many requests have read from the SSDs.
fn ssd_reads(fs: &FileSystem) -> u64 {
    fs.tier_stats().expect("a tier").reads.count
}

/// FG13: an overwrite of whole pages reads nothing from an SSD. Parts of pages at the ends are read, and no others.
#[test]
fn fg13_an_overwrite_of_a_client_reads_only_pages_that_it_keeps_a_part_of() {
    let house = House::with_tier();
    let mut want = bytes(1, 3 << 20);
    let ino = house.file("leased", &want);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    let rows = [(8 * PAGE, PAGE, 0), (40_960, 300 << 10, 0), (400_000, 100_000, 2), (PAGE, (2 << 20) + 100, 1)];
    for (at, len, reads) in rows {
        send_away(&house.fs);
        let (away, before) = (away_pages(&house.fs), ssd_reads(&house.fs));
        let new = bytes(at + len, len as usize);
        assert_eq!(lease.write(at, &new), Some(new.len()), "{len} bytes at {at}");
        want[at as usize..][..new.len()].copy_from_slice(&new);
        assert!(ssd_reads(&house.fs) - before <= reads, "{len} bytes at {at}");
        assert_eq!(away - away_pages(&house.fs), (at + len).div_ceil(PAGE) - at / PAGE, "{len} bytes at {at}");
    }
    let mut found = vec![0; want.len()];
    assert_eq!(lease.read(0, &mut found), Some(want.len()));
    assert!(found == want && content(&house.fs, ino).expect("it reads") == want);
    assert!(lease.allows(LeaseAccess::Write), "the lease lives");
    assert_sound(&house.fs);
}

/// FG13: the end of a file stays where it is, and a session writes only to files that it has a lease on.
#[test]
fn fg13_the_owner_refuses_what_a_client_may_not_overwrite() {
    let house = House::with_tier();
    let ino = house.file("one", &[1; 10_000]);
    let client = house.client();
    let area = usize::try_from(client.transfer_area.expect("an area")).expect("small");
    let overwrite = |at, bytes| house.fs.overwrite_for(client.id().0, ino, at, bytes);
    assert!(overwrite(0, 1).is_err(), "no lease");
    let reader = client.lease(ino, LeaseAccess::Read).expect("leased");
    assert!(overwrite(0, 1).is_err(), "a lease to read");
    drop(reader);
    let lease = client.lease(ino, LeaseAccess::Write).expect("leased");
    house.fs.space.shared_state.store_transfer(area, &[2; 20_000]).expect("room");
    assert!(overwrite(9_000, 1_001).is_err(), "behind the end");
    assert!(overwrite(0, TRANSFER_BYTES as u64 + 1).is_err(), "more than an area has");
    assert!(overwrite(u64::MAX, 2).is_err(), "no place");
    overwrite(9_000, 1_000).expect("before the end");
    let want = [&[1; 9_000][..], &[2; 1_000]].concat();
    assert!(content(&house.fs, ino).expect("it reads") == want);
    assert_eq!(lease.size(), Some(10_000));
}

/// Overwrites for a client that loses its right before the owner has the file's lock, because the kernel makes a copy
/// of the file. Returns true if the copy is still right.
fn kernels_copy_is_right(bug: Option<Bug>) -> bool {
    let house = House::with_tier();
    let ino = house.file("one", &[1; 8192]);
    let client = house.client();
    let _lease = client.lease(ino, LeaseAccess::Write).expect("leased");
    send_away(&house.fs);
    house.fs.space.shared_state.store_transfer(0, &[9; 4096]).expect("room");
    let (fs, (copied, copy)) = (Arc::clone(&house.fs), channel());
    let stop = stop_at("fs: overwrite asked for", move || {
        fs.end_writing(ino);
        copied.send(content(&fs, ino).expect("it reads")).expect("the test listens");
    });
    plant(bug);
    let done = house.fs.overwrite_for(client.id().0, ino, 0, 4096);
    plant(None);
    drop(stop);
    assert_eq!(done.is_ok(), bug.is_some());
    content(&house.fs, ino).expect("it reads") == copy.recv().expect("a copy was made")
}

#[test]
fn fg13_no_overwrite_follows_the_end_of_a_right() {
    assert!(kernels_copy_is_right(None));
}

#[test]
fn canary_an_overwrite_behind_the_end_of_a_right_is_found() {
    assert!(!kernels_copy_is_right(Some(Bug::UncheckedOverwrite)));
}

/// FG13: an area is free when its session and all requests of the session have ended.
#[test]
fn fg13_a_transfer_area_has_one_session() {
    let areas = TransferAreas::default();
    let mut used: Vec<_> = (0..TRANSFER_AREAS).map(|_| areas.allocate().expect("free")).collect();
    let indexes: Vec<usize> = used.iter().map(|area| area.index).collect();
    assert_eq!(indexes, (0..TRANSFER_AREAS).collect::<Vec<_>>());
    assert!(areas.allocate().is_none());
    let request = Arc::clone(&used[7]);
    used.remove(7);
    assert!(areas.allocate().is_none(), "a request still uses it");
    drop(request);
    assert_eq!(areas.allocate().expect("free").index, 7);
}

/// FG13, TI4, TI5: a page that goes to the SSD and comes back is never older than a client left it.
#[test]
fn fg13_no_overwrite_of_a_client_is_lost_while_pages_come_and_go() {
    const PAGES: u64 = 300;
    const SEED: u64 = 4711;
    println!("seed {SEED}");
    let house = House::with_tier();
    let fs = &house.fs;
    let ino: Ino = house.file("file", &[0; (PAGES * PAGE) as usize]);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    let (away, turn) = (AtomicU64::new(0), AtomicU64::new(0));
    let come_and_go = || {
        step(fs, [3, 1, 1, 2, 0, 1][turn.fetch_add(1, Ordering::Relaxed) as usize % 6]);
        away.fetch_max(away_pages(fs), Ordering::Relaxed);
    };
    beside(&[&come_and_go], || {
        let mut versions = [0_u64; PAGES as usize];
        for round in 1..4000_u64 {
            let first = (round * 7919 + SEED) % PAGES;
            let end = (first + [1, 1, 1, 5][round as usize % 4]).min(PAGES);
            let mut found = [0; 8];
            // A client that loses too many races goes through the mount.
            let read = lease.read(first * PAGE + 80, &mut found);
            let read = read.unwrap_or_else(|| fs.read(ino, first * PAGE + 80, &mut found).expect("read"));
            assert_eq!(read, 8, "page {first} in round {round}");
            assert_eq!(u64::from_le_bytes(found), versions[first as usize], "page {first} in round {round}");
            versions[first as usize..end as usize].fill(round);
            let whole = round.to_le_bytes().repeat(((end - first) * PAGE) as usize / 8);
            // A part of the last page is written, but always the word that is read.
            let from = &whole[..whole.len() - if round % 3 == 0 { 3000 } else { 0 }];
            let written = lease.write(first * PAGE, from);
            let written = written.unwrap_or_else(|| fs.write(ino, first * PAGE, from).expect("written"));
            assert_eq!(written, from.len(), "page {first} in round {round}");
        }
        for (page, version) in versions.iter().enumerate() {
            let mut found = [0; 8];
            fs.read(ino, page as u64 * PAGE + 80, &mut found).expect("read");
            assert_eq!(u64::from_le_bytes(found), *version, "page {page}");
        }
    });
    assert!(away.into_inner() > 0, "no page was ever away");
    assert_sound(fs);
}
