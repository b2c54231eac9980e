//! The tier's background during the work of other threads and of clients.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use ferrite_crash::Model;
use ferrite_pool::layout::{CHUNK, PAGE};

use super::client_house::House;
use super::stopped_clients::Stopped;
use super::support::{assert_sound, content, new_memory, resize};
use super::tiers::{add, bytes, make, open, send_away, ssd};
use super::{Bug, plant, stop_at};
use crate::share::layout::request::LeaseAccess;
use crate::tier::{clean_segments, destage};
use crate::{Allocate, FileSystem, Ino};

/// Pages of files in these tests.
const PAGES: u64 = 100;

fn away(fs: &FileSystem) -> u64 {
    fs.slots.as_ref().expect("a tier").named()
}

/// Sends what may go to the SSD while a client stands still in a store to one of two files. Returns how many pages of
/// both files are away then.
fn away_beside_a_stopped_client(bug: Option<Bug>) -> u64 {
    let house = House::with_tier();
    let want = bytes(1, (PAGES * PAGE) as usize);
    let (leased, other) = (house.file("leased", &want), house.file("other", &want));
    let lease = Arc::new(house.client().lease(leased, LeaseAccess::Write).expect("leased"));
    let stopped = Stopped::at("fs: before store", &lease, |lease| lease.write(8192, &[9; 4096]));
    plant(bug);
    send_away(&house.fs);
    plant(None);
    let found = away(&house.fs);
    stopped.go_on();
    send_away(&house.fs);
    assert!(content(&house.fs, other).expect("it reads") == want);
    assert_sound(&house.fs);
    found
}

/// TI4, TI21: a stopped client holds back the file that it has a lease on, and no other file.
#[test]
fn ti4_ti21_a_stopped_client_holds_back_its_own_files() {
    assert_eq!(away_beside_a_stopped_client(None), PAGES);
}

#[test]
fn canary_pages_that_leave_beside_a_stopped_client_are_found() {
    assert_eq!(away_beside_a_stopped_client(Some(Bug::UnawaitedPins)), 2 * PAGES);
}

/// Frees pages of two files while a client stands still in a store to one of them. Returns how many pages wait then.
fn waiting_beside_a_stopped_client(bug: Option<Bug>) -> u64 {
    let house = House::with_tier();
    let (leased, other) = (house.file("leased", &[1; 40_960]), house.file("other", &[2; 409_600]));
    let lease = Arc::new(house.client().lease(leased, LeaseAccess::Write).expect("leased"));
    let stopped = Stopped::at("fs: before store", &lease, |lease| lease.write(8192, &[9; 4096]));
    house.fs.allocate(other, 4096..409_600, Allocate::Punch).expect("punched");
    house.fs.allocate(leased, 4096..40_960, Allocate::Punch).expect("punched");
    plant(bug);
    house.fs.space.drain_deferred_frees();
    plant(None);
    let waiting = house.fs.space.deferred_frees.count().0;
    stopped.go_on();
    house.fs.space.drain_deferred_frees();
    assert_eq!(house.fs.space.deferred_frees.count().0, 0);
    waiting
}

/// TI21: only pages that a stopped client may store to wait; what it cannot use is free at once.
#[test]
fn ti21_pages_of_other_files_are_free_beside_a_stopped_client() {
    assert_eq!(waiting_beside_a_stopped_client(None), 9);
}

#[test]
fn canary_pages_of_a_stopped_client_that_are_free_are_found() {
    assert_eq!(waiting_beside_a_stopped_client(Some(Bug::ForgottenLease)), 0);
}

/// A file that a client has open leaves the pool, and the lease stays.
#[test]
fn ti21_a_leased_file_is_away_while_its_lease_lives() {
    let house = House::with_tier();
    let want = bytes(1, (PAGES * PAGE) as usize);
    let ino = house.file("leased", &want);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    assert_eq!(lease.write(0, &want[..4096]), Some(4096));
    send_away(&house.fs);
    assert!(away(&house.fs) >= PAGES * 9 / 10, "{} of {PAGES} pages are away", away(&house.fs));
    let mut found = vec![0; want.len()];
    assert_eq!(lease.read(0, &mut found), Some(want.len()), "the lease lives");
    assert!(found == want);
}

/// A file system with a tier and one file.
fn one_file() -> (Arc<FileSystem>, Ino) {
    let (memory, ssd) = (new_memory(Model::MAPPED, 16 * CHUNK), ssd(8 << 20));
    add(&memory, &ssd);
    let fs = open(&memory, None, Some(&ssd)).expect("it opens");
    let ino = make(&fs, "file");
    fs.write(ino, 0, &bytes(1, (PAGES * PAGE) as usize)).expect("written");
    (fs, ino)
}

fn destage_all(fs: &FileSystem) {
    let slots = fs.slots.as_ref().expect("a tier");
    destage::destage(fs, slots, &fs.tier, destage::Fill::Partly).expect("destaged");
}

/// Cuts a file after its pages were written to the SSD and before they are clean. Returns how many are clean then.
fn clean_of_a_cut_file(bug: Option<Bug>) -> u64 {
    let (fs, ino) = one_file();
    let (amid, is_cut) = (Arc::clone(&fs), Cell::new(false));
    let stop = stop_at("fs: segment written", move || {
        if !is_cut.replace(true) {
            resize(&amid, ino, 0).expect("cut");
        }
    });
    plant(bug);
    destage_all(&fs);
    plant(None);
    drop(stop);
    fs.slots.as_ref().expect("a tier").clean_pages()
}

#[test]
fn ti4_a_page_that_left_its_file_amid_destaging_is_not_clean() {
    assert_eq!(clean_of_a_cut_file(None), 0);
}

#[test]
fn canary_a_copy_of_a_page_that_left_its_file_is_found() {
    assert_eq!(clean_of_a_cut_file(Some(Bug::UncheckedCopy)), PAGES);
}

/// Cleans in another thread while a segment is being destaged. Returns true if the thread did not wait.
fn cleans_amid_destaging(bug: Option<Bug>) -> bool {
    /// How long the cleaning thread has, if it does not wait.
    const PATIENCE: Duration = Duration::from_millis(100);
    let (fs, _) = one_file();
    let (amid, (done, is_done)) = (Arc::clone(&fs), channel());
    let stop = stop_at("fs: segment written", move || {
        let (fs, (ended, ends)) = (Arc::clone(&amid), channel());
        let thread = std::thread::spawn(move || {
            plant(bug);
            let slots = fs.slots.as_ref().expect("a tier");
            _ = clean_segments::clean(&fs, slots, &fs.tier).expect("nothing fails");
            plant(None);
            let _ = ended.send(());
        });
        done.send((ends.recv_timeout(PATIENCE).is_ok(), thread)).expect("the test listens");
    });
    destage_all(&fs);
    drop(stop);
    let (found, thread) = is_done.recv().expect("a segment was written");
    thread.join().expect("it ends");
    found
}

/// TI7: one thread destages or cleans at a time.
#[test]
fn ti7_cleaning_waits_for_destaging() {
    assert!(!cleans_amid_destaging(None));
}

#[test]
fn canary_cleaning_beside_destaging_is_found() {
    assert!(cleans_amid_destaging(Some(Bug::SharedCleaning)));
}
