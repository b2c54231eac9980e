//! Clients at work while the owner moves, cuts and removes what they work on; and clients that are killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_pool::layout::CHUNK;

use super::client_house::*;
use super::support::*;
use crate::client::{FileLease, FsSession};
use crate::file::compaction;
use crate::share::layout::request::LeaseAccess;
use crate::tests::stop_at;
use crate::tree::inode_lifetime;
use crate::{Allocate, FileSystem, Ino};

const PAGE: usize = 4096;

/// Writes as a program does: directly, or else through the mount.
fn write(fs: &FileSystem, lease: &FileLease, ino: Ino, at: u64, bytes: &[u8]) -> bool {
    let direct = lease.write(at, bytes).is_some();
    if !direct {
        assert_eq!(fs.write(ino, at, bytes).expect("room"), bytes.len());
    }
    direct
}

#[test]
fn fg3_no_write_of_a_client_is_lost_while_a_file_moves() {
    let house = House::new();
    let (fs, blocks) = (&house.fs, 4_u64);
    let ino = house.file("moving", &vec![0; (blocks * CHUNK) as usize]);
    let lease = house.client().lease(ino, LeaseAccess::Write).expect("leased");
    let (direct, pages) = (AtomicU64::new(0), blocks * CHUNK / PAGE as u64);
    let migrate = || _ = fs.step().expect("steps work");
    for round in 1..=12_u8 {
        // Splits what the last round moved.
        for block in 0..blocks {
            fs.allocate(ino, block * CHUNK..block * CHUNK + PAGE as u64, Allocate::Punch).expect("punched");
            fs.write(ino, block * CHUNK, &[0; PAGE]).expect("room");
        }
        resize(fs, ino, blocks * CHUNK - 1).expect("cut");
        resize(fs, ino, blocks * CHUNK).expect("grown");
        beside(&[&migrate], || {
            for page in 0..pages {
                let is_direct = write(fs, &lease, ino, page * PAGE as u64, &[round; PAGE]);
                direct.fetch_add(u64::from(is_direct), Ordering::Relaxed);
            }
        });
        let found = content(fs, ino).expect("it reads");
        let lost = found.chunks(PAGE).position(|page| page.iter().any(|byte| *byte != round));
        assert_eq!(lost, None, "FG3: round {round}");
        run_steps(fs);
    }
    assert!(direct.into_inner() > pages, "most writes are direct");
    assert_sound(fs);
}

/// Pages of a file that lie between pages of a removed file move together while clients and others write to them.
#[test]
fn fe1_no_write_is_lost_while_pages_move_together() {
    let house = House::new();
    let (fs, pages, emptied) = (&house.fs, 2500_u64, AtomicU64::new(0));
    let ino = house.file("fs: append kept", b"");
    let client = house.client();
    let compact =
        || _ = emptied.fetch_add(u64::from(compaction::compact(fs).expect("nothing fails")), Ordering::Relaxed);
    for round in 1..=8_u8 {
        resize(fs, ino, 0).expect("cut");
        let gone = house.file("gone", b"");
        for page in 0..pages {
            fs.write(ino, page * PAGE as u64, &[0; PAGE]).expect("room");
            fs.write(gone, page * PAGE as u64, &[99; PAGE]).expect("room");
        }
        fs.unlink(Ino::ROOT, b"gone").expect("it goes");
        inode_lifetime::free_removed(fs);
        let lease = client.lease(ino, LeaseAccess::Write).expect("leased");
        beside(&[&compact], || {
            for page in 0..pages {
                let (at, bytes) = (page * PAGE as u64, [round; PAGE]);
                match page % 3 {
                    0 => assert_eq!(fs.write(ino, at, &bytes).expect("room"), PAGE),
                    _ => _ = write(fs, &lease, ino, at, &bytes),
                }
            }
        });
        compact();
        let found = content(fs, ino).expect("it reads");
        let lost = found.chunks(PAGE).position(|page| page.iter().any(|byte| *byte != round));
        assert_eq!(lost, None, "FE1: round {round}");
    }
    assert!(emptied.into_inner() > 8, "chunks become empty");
    assert_sound(fs);
}

#[test]
fn fg2_fg4_clients_meet_no_bytes_of_other_files() {
    let house = House::new();
    let fs = &house.fs;
    let size = 2 * CHUNK;
    let files: Vec<(Ino, u8)> =
        [(1_u8, "one"), (2, "two")].map(|(byte, name)| (house.file(name, &vec![byte; size as usize]), byte)).into();
    let client = house.client();
    let leases: Vec<FileLease> =
        files.iter().map(|(ino, _)| client.lease(*ino, LeaseAccess::Write).expect("leased")).collect();
    let read = || {
        let mut bytes = vec![0; 1 << 19];
        for (lease, (_, byte)) in leases.iter().zip(&files) {
            for at in (0..size).step_by(1 << 18) {
                let Some(len) = lease.read(at, &mut bytes) else { continue };
                let other = bytes[..len].iter().step_by(512).find(|found| **found != 0 && **found != *byte);
                assert_eq!(other, None, "FG4: bytes of another file");
            }
        }
    };
    let overwrite = || {
        for (lease, (_, byte)) in leases.iter().zip(&files) {
            (0..40).for_each(|page| _ = lease.write(page * 13 * PAGE as u64, &[*byte; PAGE]));
        }
    };
    let migrate = || _ = fs.step().expect("steps work");
    beside(&[&read, &overwrite, &migrate], || {
        for round in 0..25_u64 {
            for (ino, byte) in &files {
                let at = round * 91 % 400 * PAGE as u64;
                fs.allocate(*ino, at..at + 100 * PAGE as u64, Allocate::Punch).expect("punched");
                fs.write(*ino, at + PAGE as u64, &vec![*byte; 50 * PAGE]).expect("room");
                house.file("third", &vec![3; 70 * PAGE]);
                fs.unlink(Ino::ROOT, b"third").expect("it goes");
                if round % 8 == 7 {
                    resize(fs, *ino, CHUNK / 2).expect("cut");
                    resize(fs, *ino, size).expect("grown");
                }
            }
        }
    });
    for (ino, byte) in &files {
        let found = content(fs, *ino).expect("it reads");
        assert!(found.iter().all(|found| *found == 0 || found == byte), "FG2: stored to another file's page");
    }
    drop(leases);
    run_steps(fs);
    assert_sound(fs);
}

#[test]
fn fg7_appends_of_a_client_and_of_the_owner_are_each_whole() {
    const EACH: u32 = 2000;
    let house = House::new();
    let ino = house.file("log", b"");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    let record = |by: u8, number: u32| {
        let mut record = [by; 48];
        record[..4].copy_from_slice(&number.to_le_bytes());
        record
    };
    std::thread::scope(|scope| {
        for by in 1..=3_u8 {
            let (lease, fs, record) = (&lease, &house.fs, &record);
            scope.spawn(move || {
                for number in 0..EACH {
                    // The third is the owner's.
                    if by == 3 || lease.append(&record(by, number)).is_none() {
                        fs.append(ino, &record(by, number)).expect("room");
                    }
                }
            });
        }
    });
    let found = content(&house.fs, ino).expect("it reads");
    assert_eq!(found.len(), 3 * EACH as usize * 48, "FG7: nothing that was acknowledged is lost");
    let mut next = [0_u32; 4];
    for found in found.chunks(48) {
        let by = found[47];
        assert_eq!(found, record(by, next[usize::from(by)]), "FG7: whole, and in order");
        next[usize::from(by)] += 1;
    }
    assert_sound(&house.fs);
}

/// The place where a killed client was.
const POINT: &str = "FERRITE_TEST_POINT";

/// This test, as another process: it appends to inode 2 of the house at the pool up to the point, reports that and
/// waits to be killed.
#[test]
fn a_client_to_be_killed() {
    let (Ok(point), Ok(pool)) = (std::env::var(POINT), std::env::var("FERRITE_TEST_POOL")) else { return };
    let session = FsSession::connect(pool.as_ref(), NAME, late()).expect("let in");
    let access = if std::env::var("FERRITE_TEST_OVER").is_ok() { LeaseAccess::Write } else { LeaseAccess::Append };
    let lease = session.lease(Ino(2), access).expect("leased");
    let _point = stop_at(&point, || {
        println!("\nhere");
        std::io::stdout().flush().expect("the other end listens");
        loop {
            std::thread::park();
        }
    });
    match access {
        LeaseAccess::Append => drop(lease.append(&[9; 10_000])),
        _ => drop(lease.write(0, &[9; 5000])),
    }
}

/// A client that has reached `point`.
fn client_at(house: &House, point: &str, over: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a test"));
    command.args(["--exact", "tests::client_processes::a_client_to_be_killed", "--nocapture"]);
    command.env(POINT, point).env("FERRITE_TEST_POOL", &house.pool_file).stdout(Stdio::piped());
    if over {
        command.env("FERRITE_TEST_OVER", "1");
    }
    let mut child = command.spawn().expect("another process");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    assert!(out.lines().map_while(Result::ok).any(|line| line == "here"), "it comes to the point");
    child
}

fn kill(mut child: Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn fg2_fg7_a_killed_client_leaves_nothing_behind() {
    for (point, over) in [
        ("fs: before store", false),
        ("fs: before size", false),
        ("fs: append kept", false),
        ("fs: before store", true),
    ] {
        let house = House::new();
        let before = house.fs.statfs().free_bytes;
        let ino = house.file("log", &[1; 5000]);
        assert_eq!(ino, Ino(2));
        let child = client_at(&house, point, over);
        assert_eq!(house.fs.append(ino, &[3; 9000]).expect("room"), (5000, 9000), "nobody waits for it");
        house.fs.allocate(ino, 0..4096, Allocate::Punch).expect("punched");
        house.fs.space.drain_deferred_frees();
        assert!(house.fs.space.deferred_frees.count().0 > 0, "FG2: it may still store to them");
        kill(child);
        while house.fs.link.pins.has_sessions() {
            house.fs.step().expect("steps work");
        }
        house.fs.space.drain_deferred_frees();
        assert_eq!(house.fs.space.deferred_frees.count().0, 0, "FG2: its process is gone");
        let found = content(&house.fs, ino).expect("it reads");
        assert!(found == [&[0; 4096][..], &[1; 904], &[3; 9000]].concat(), "at {point}");
        let lease = house.client().lease(ino, LeaseAccess::Append).expect("FG7: nobody may come back");
        assert_eq!(lease.append(b"x"), Some((14_000, 1)));
        drop(lease);
        house.fs.unlink(Ino::ROOT, b"log").expect("it goes");
        run_steps(&house.fs);
        assert_eq!(house.fs.statfs().free_bytes, before, "no page is lost");
        assert_sound(&house.fs);
    }
}

#[test]
fn fg1_a_session_of_many_files_ends_with_its_process() {
    let house = House::new();
    let inos: Vec<Ino> = (0..20).map(|number| house.file(&format!("file {number}"), &[1; 100])).collect();
    let client = house.client();
    let leases: Vec<Arc<FileLease>> =
        inos.iter().map(|ino| Arc::new(client.lease(*ino, LeaseAccess::Write).expect("leased"))).collect();
    assert!(inos.iter().all(|ino| house.fs.is_written_directly(*ino)));
    drop((leases, client));
    assert!(!inos.iter().any(|ino| house.fs.is_written_directly(*ino)));
    assert!(!house.fs.link.pins.has_sessions());
    assert!(house.fs.pool().grants().standing().is_empty());
}
