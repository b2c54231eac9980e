//! Clients beside the owner: what they read and write is what everybody sees.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use ferrite_owner::ServiceRequest;
use parking_lot::Mutex;

use super::client_house::*;
use super::support::*;
use crate::share::CachedCopies;
use crate::share::layout::request::LeaseAccess;
use crate::share::layout::request::SHARE;
use crate::share::layout::shared_state::LAYOUT;
use crate::share::layout::shared_state::ensure_alike;
use crate::{Allocate, Error, Ino, SetAttr, SetTime, SetXattr, Time};

#[test]
fn a_client_reads_and_writes_over_what_is_there() {
    let house = House::new();
    let ino = house.file("one", &[1; 10_000]);
    let client = house.client();
    let lease = client.lease(ino, LeaseAccess::Write).expect("leased");
    assert_eq!(lease.size(), Some(10_000));
    assert_eq!(lease.write(5000, &[2; 4000]), Some(4000));
    let mut bytes = [0; 20_000];
    assert_eq!(lease.read(0, &mut bytes), Some(10_000));
    let expected = [&[1; 5000][..], &[2; 4000], &[1; 1000]].concat();
    assert_eq!(bytes[..10_000], expected);
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected);
    assert_eq!(lease.read(10_000, &mut bytes), Some(0));
    assert_eq!(lease.read(9_990, &mut bytes[..100]), Some(10));
    // Behind the end it is for the mount.
    assert_eq!(lease.write(9_990, &[3; 20]), None);
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected);
    drop(lease);
    drop(client);
    assert_sound(&house.fs);
}

#[test]
fn times_of_a_clients_accesses_are_seen() {
    let house = House::new();
    let ino = house.file("one", &[1; 4096]);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    assert_eq!(lease.write(0, &[2; 100]), Some(100));
    let attr = house.fs.getattr(ino).expect("there");
    assert_eq!((attr.mtime, attr.ctime), (Time(9_000_000_000), Time(9_000_000_000)));
    assert_eq!(lease.read(0, &mut [0; 100]), Some(100));
    assert!(house.fs.getattr(ino).expect("there").atime > attr.mtime, "as relatime has it");
}

/// A write is of the moment, whatever was set before.
#[test]
fn a_clients_write_ends_a_time_that_is_still_to_come() {
    let house = House::new();
    let ino = house.file("one", &[1; 4096]);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    let to_come = SetTime::To(Time(80_000_000_000));
    house.fs.setattr(ino, &SetAttr { mtime: Some(to_come), ..SetAttr::default() }).expect("set");
    assert_eq!(lease.attr().expect("it is alone").mtime, Time(80_000_000_000));
    assert_eq!(lease.write(0, &[2; 100]), Some(100));
    assert_eq!(lease.attr().expect("it is alone").mtime, Time(9_000_000_000));
    let attr = house.fs.getattr(ino).expect("there");
    assert_eq!((attr.mtime, attr.ctime), (Time(9_000_000_000), Time(9_000_000_000)));
}

/// The kernel refuses what ends beyond the largest place that a program can name.
#[test]
fn a_read_that_no_file_can_have_is_not_for_a_client() {
    let house = House::new();
    let ino = house.file("one", &[1; 4096]);
    let lease = house.client().lease(ino, LeaseAccess::Read).expect("leased");
    let last = i64::MAX as u64;
    assert_eq!(lease.read(last - 10, &mut [0; 10]), Some(0));
    assert_eq!(lease.read(last - 10, &mut [0; 11]), None);
}

#[test]
fn a_client_alone_tells_of_a_file_what_the_owner_tells() {
    let house = House::new();
    let ino = house.file("one", &[1; 10_000]);
    let (client, other) = (house.client(), house.client());
    let lease = client.lease(ino, LeaseAccess::Append).expect("leased");
    let works: [&dyn Fn(); 5] = [
        &|| assert_eq!(lease.append(&[2; 5000]), Some((10_000, 5000))),
        &|| assert_eq!(lease.write(0, &[3; 10]), Some(10)),
        &|| assert_eq!(lease.read(0, &mut [0; 10]), Some(10)),
        &|| assert_eq!(lease.resize(100), Some(())),
        &|| house.fs.unlink(Ino::ROOT, b"one").expect("it goes"),
    ];
    for work in works {
        work();
        let report = lease.attr().expect("it is alone");
        assert_eq!(report, house.fs.getattr(ino).expect("there"));
        assert_eq!(lease.attr(), Some(report), "FG1: before and after the inode says the times");
    }
    let reader = other.lease(ino, LeaseAccess::Read).expect("leased");
    assert_eq!((lease.attr(), reader.attr()), (None, None), "each may have noted times");
    drop(lease);
    assert_eq!(reader.attr(), house.fs.getattr(ino).ok());
}

#[test]
fn a_client_cuts_and_grows_its_file() {
    let house = House::new();
    let ino = house.file("one", &[1; 100_000]);
    let (client, other) = (house.client(), house.client());
    let lease = client.lease(ino, LeaseAccess::Append).expect("leased");
    let (reader, copies) = (other.lease(ino, LeaseAccess::Read).expect("leased"), Arc::new(Copied::default()));
    house.fs.set_copies(copies.clone());
    assert_eq!(reader.resize(0), None, "it may only read");
    assert_eq!(lease.resize(5000), Some(()));
    assert_eq!(lease.append(&[2; 10]), Some((5000, 10)), "the lease stays");
    assert_eq!(lease.resize(9000), Some(()));
    assert_eq!(lease.append(&[3]), Some((9000, 1)));
    let expected = [&[1; 5000][..], &[2; 10], &[0; 3990], &[3]].concat();
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected);
    assert_eq!(*copies.forgotten.lock(), [ino; 2], "FG6: nobody keeps what was cut off");
    house.fs.end_writing(ino);
    assert_eq!(lease.resize(0), None, "it may write no more");
    assert_sound(&house.fs);
}

/// A holder of copies that records what it drops.
#[derive(Default)]
pub struct Copied {
    pub forgotten: Mutex<Vec<Ino>>,
    pub attributes_forgotten: Mutex<Vec<Ino>>,
}

impl CachedCopies for Copied {
    fn forget_attributes(&self, ino: Ino) {
        self.attributes_forgotten.lock().push(ino);
    }

    fn device(&self) -> Option<u64> {
        None
    }

    fn forget(&self, ino: Ino) -> std::io::Result<()> {
        self.forgotten.lock().push(ino);
        Ok(())
    }
}

/// A program may begin while the pool stands still for a backup. It waits, and has nothing in hand that a backup asks
/// for.
#[test]
fn who_begins_while_the_pool_stands_still_keeps_nobody_waiting() {
    let house = &House::new();
    std::thread::scope(|scope| {
        let frozen = house.fs.pool().freeze();
        let begun = scope.spawn(|| drop(house.client()));
        std::thread::sleep(Duration::from_millis(200));
        let (tell, report) = channel();
        scope.spawn(move || tell.send(house.fs.sessions.stilled().len()));
        let stilled = report.recv_timeout(Duration::from_secs(10));
        assert!(!begun.is_finished(), "F1: a grant is a transaction");
        drop(frozen);
        assert_eq!(stilled, Ok(0));
    });
    assert_sound(&house.fs);
}

#[test]
fn a_client_asks_the_owner_to_keep_the_time_of_what_it_syncs() {
    let house = House::new();
    let ino = house.file("one", &[1; 4096]);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    assert_eq!(lease.sync(), Some(()), "nothing was written");
    assert_eq!(lease.write(0, &[2; 100]), Some(100));
    assert_eq!(lease.sync(), None, "the inode does not say the time yet");
    assert_eq!(lease.sync_data(), Some(()), "and fdatasync promises no times");
    house.fs.fsync(ino).expect("durable");
    assert_eq!(lease.sync(), Some(()));
}

#[test]
fn fg1_a_lease_that_was_given_back_or_a_session_that_ended_says_nothing() {
    let house = House::new();
    let ino = house.file("one", &[1; 4096]);
    let client = house.client();
    let reader = client.lease(ino, LeaseAccess::Read).expect("leased");
    assert_eq!(reader.write(0, &[2; 10]), None, "it is to read only");
    drop(reader);
    let lease = client.lease(ino, LeaseAccess::Write).expect("leased again");
    house.fs.dismiss();
    assert!(client.is_over());
    assert_eq!((lease.read(0, &mut [0; 10]), lease.write(0, &[3; 10]), lease.size()), (None, None, None));
    assert_eq!(content(&house.fs, ino).expect("it reads"), [1; 4096]);
    assert!(client.lease(ino, LeaseAccess::Read).is_err());
}

#[test]
fn a_file_without_a_name_lives_while_it_is_leased() {
    let house = House::new();
    let before = house.fs.statfs().free_bytes;
    let ino = house.file("one", &[7; 100_000]);
    let client = house.client();
    let lease = client.lease(ino, LeaseAccess::Read).expect("leased");
    house.fs.unlink(Ino::ROOT, b"one").expect("it goes");
    let mut bytes = vec![0; 100_000];
    assert_eq!(lease.read(0, &mut bytes), Some(100_000));
    assert!(bytes.iter().all(|byte| *byte == 7));
    drop(lease);
    run_steps(&house.fs);
    assert_eq!(house.fs.statfs().free_bytes, before);
    assert_sound(&house.fs);
}

#[test]
fn what_has_no_page_reads_as_zeros_and_is_written_through_the_mount() {
    let house = House::new();
    let ino = house.file("sparse", &[1; 40_960]);
    house.fs.allocate(ino, 8192..16_384, Allocate::Punch).expect("punched");
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    assert_eq!(lease.write(8192, &[2; 10]), None);
    assert_eq!(lease.write(0, &[2; 8192]), Some(8192));
    resize(&house.fs, ino, 20 << 20).expect("grown");
    let mut bytes = vec![7; 20 << 20];
    assert_eq!(lease.read(0, &mut bytes), Some(20 << 20));
    let expected = [&[2; 8192][..], &[0; 8192], &[1; 24_576]].concat();
    assert_eq!(bytes[..40_960], expected);
    assert!(bytes[40_960..].iter().all(|byte| *byte == 0), "holes are zeros");
    assert_sound(&house.fs);
}

#[test]
fn fg7_a_client_appends_by_itself() {
    let house = House::new();
    let before = house.fs.statfs().free_bytes;
    let ino = house.file("log", b"begin ");
    let client = house.client();
    let lease = client.lease(ino, LeaseAccess::Append).expect("leased");
    let mut expected = b"begin ".to_vec();
    for number in 0..3000_u32 {
        let record = vec![number as u8; (number % 97) as usize + 1];
        assert_eq!(lease.append(&record), Some((expected.len() as u64, record.len())));
        expected.extend(&record);
        if number % 500 == 0 {
            // Others look, and the owner's own work goes on.
            assert_eq!(house.fs.getattr(ino).expect("there").size, expected.len() as u64);
            house.fs.step().expect("steps work");
        }
    }
    let at = expected.len() as u64 - 10;
    assert_eq!(lease.write(at, &[1; 100]), Some(100), "over the end");
    expected.truncate(at as usize);
    expected.extend([1; 100]);
    assert_eq!(lease.write(at + 200, b"x"), None, "a hole is for the mount");
    let mut bytes = vec![0; expected.len() + 1];
    assert_eq!(lease.read(0, &mut bytes), Some(expected.len()));
    assert_eq!(bytes[..expected.len()], expected);
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected);
    assert_sound(&house.fs);
    drop(lease);
    assert_eq!(
        house.fs.getattr(ino).expect("there").allocated_bytes,
        (expected.len() as u64).next_multiple_of(4096) + 4096
    );
    house.fs.unlink(Ino::ROOT, b"log").expect("it goes");
    run_steps(&house.fs);
    assert_eq!(house.fs.statfs().free_bytes, before, "what was taken ahead is back");
    assert_sound(&house.fs);
}

/// No call fails for lack of space while a client keeps some for later.
#[test]
fn fg7_what_a_client_has_ahead_goes_to_who_needs_it() {
    let house = House::new();
    let (log, hog) = (house.file("log", b"begin "), house.file("hog", b""));
    let client = house.client();
    let lease = client.lease(log, LeaseAccess::Append).expect("leased");
    assert_eq!(lease.append(&[1; 8186]), Some((6, 8186)));
    let allocated = || house.fs.getattr(log).expect("there").allocated_bytes;
    assert!(allocated() > 16 * 4096, "it has pages for more");
    for len in [1 << 20, 4096] {
        let mut at = house.fs.getattr(hog).expect("there").size;
        while let Ok(written) = house.fs.write(hog, at, &vec![2; len]) {
            at += written as u64;
        }
    }
    assert!(allocated() <= 3 * 4096, "its pages were needed");
    assert_eq!(lease.append(b"more"), None, "by the mount");
    house.fs.unlink(Ino::ROOT, b"hog").expect("it goes");
    run_steps(&house.fs);
    drop(lease);
    let lease = client.lease(log, LeaseAccess::Append).expect("leased");
    assert_eq!(lease.append(b"more"), Some((8192, 4)));
    drop(lease);
    assert_sound(&house.fs);
}

/// Nor is who needs it for something else than bytes.
#[test]
fn fg7_what_a_client_has_ahead_goes_to_attributes_too() {
    let house = House::new();
    let files: Vec<Ino> = (0..1600).map(|i| house.file(&format!("f{i}"), b"")).collect();
    let log = house.file("log", b"begin ");
    let client = house.client();
    let lease = client.lease(log, LeaseAccess::Append).expect("leased");
    assert_eq!(lease.append(&[1; 8186]), Some((6, 8186)));
    let allocated = || house.fs.getattr(log).expect("there").allocated_bytes;
    assert!(allocated() > 16 * 4096, "it has pages for more");
    let set = |ino: &Ino| house.fs.set_xattr(*ino, b"user.large", &[3; 60_000], SetXattr::Any);
    let refused = files.iter().find_map(|ino| set(ino).err());
    assert!(matches!(refused, Some(Error::NoSpace)), "{refused:?}");
    assert!(allocated() <= 3 * 4096, "its pages were needed");
    drop(lease);
    assert_sound(&house.fs);
}

#[test]
fn fg7_one_client_appends_and_the_mount_takes_it_back() {
    let house = House::new();
    let ino = house.file("log", b"a");
    let (one, other) = (house.client(), house.client());
    let lease = one.lease(ino, LeaseAccess::Append).expect("leased");
    assert!(other.lease(ino, LeaseAccess::Append).is_err(), "one at a time");
    assert_eq!(lease.append(b"b"), Some((1, 1)));
    assert_eq!(house.fs.append(ino, b"c").expect("room"), (2, 1), "the owner needs no leave");
    assert_eq!(lease.append(b"d"), Some((3, 1)));
    let writer = other.lease(ino, LeaseAccess::Write).expect("leased");
    assert_eq!(lease.append(b"e"), None, "no longer alone");
    assert_eq!((lease.write(0, b"A"), writer.write(1, b"B")), (Some(1), Some(1)));
    house.fs.end_writing(ino);
    assert_eq!((lease.write(0, b"x"), writer.write(1, b"x")), (None, None));
    assert_eq!(content(&house.fs, ino).expect("it reads"), b"ABcd");
    assert_sound(&house.fs);
}

#[test]
fn a_client_appends_behind_a_hole() {
    let house = House::new();
    let ino = house.file("sparse", b"x");
    resize(&house.fs, ino, 6000).expect("grown");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    assert_eq!(lease.append(b"end"), Some((6000, 3)));
    let expected = [&b"x"[..], &[0; 5999], b"end"].concat();
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected);
    resize(&house.fs, ino, 3).expect("cut");
    assert_eq!(lease.append(b"y"), Some((3, 1)));
    resize(&house.fs, ino, 9000).expect("grown");
    let expected = [&b"x\0\0y"[..], &[0; 8996]].concat();
    assert_eq!(content(&house.fs, ino).expect("it reads"), expected, "what lay behind the end is gone");
}

#[test]
fn bk1_clients_stand_still_for_a_backup() {
    let house = House::new();
    let ino = house.file("one", &[1; 10_000]);
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    assert_eq!(lease.append(b"x"), Some((10_000, 1)));
    let mut image = Vec::new();
    let stored = std::cell::Cell::new(false);
    let watch = &mut |_| {
        stored.set(stored.get() || lease.write(0, &[2; 10]).is_some() || lease.append(b"y").is_some());
        true
    };
    ferrite_pool::backup::backup(house.fs.pool(), &mut image, [3; 16], watch).expect("it is written beside clients");
    assert!(!stored.get(), "BK1: stored while the pool stood still");
    assert_eq!((lease.write(0, &[2; 10]), lease.append(b"y")), (Some(10), Some((10_001, 1))), "and they go on");
    assert_sound(&house.fs);
}

/// What it stores would not be read as it means it.
#[test]
fn a_client_of_another_version_is_not_let_in() {
    let house = House::new();
    let mut client = ferrite_owner::OwnerClient::connect(&house.pool_file).expect("it listens");
    let mut open = |layout| {
        let request = serde_json::json!({ "do": "direct-open", "name": NAME, "layout": layout });
        client.call(ServiceRequest::new(SHARE, &request), &mut |_| true).map_err(|why| why.to_string())
    };
    for other in [0, LAYOUT - 1, LAYOUT + 1] {
        let why = open(other).expect_err("refused");
        assert!(why.contains("another version of ferrite"), "{why}");
    }
    let (report, fds) = open(LAYOUT).expect("let in");
    assert_eq!((report["layout"].as_u64(), fds.len()), (Some(LAYOUT.into()), 3));
    assert!(ensure_alike(0).is_err(), "nor is an owner that says nothing believed");
}
