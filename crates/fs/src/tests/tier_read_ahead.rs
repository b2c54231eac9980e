//! Pages that are read from SSDs before a sequential read asks for them (TI23).

use ferrite_crash::Model;
use ferrite_pool::layout::{CHUNK, PAGE};

use super::crash::{at, usual};
use super::support::content;
use super::tier_crashes::{new_world, open};
use super::tiers::{TieredWorld, away_pages, bytes, make, send_away};
use super::{Bug, plant};
use crate::file::bring_in;

/// TI23: a sequential read causes few requests to the SSD, and none reads a page twice.
#[test]
fn ti23_a_sequential_read_reads_each_page_once_in_large_requests() {
    const PART: usize = 64 << 10;
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let (file, want) = (make(&fs, "file"), bytes(1, 3_000_000));
    fs.write(file, 0, &want).expect("written");
    send_away(&fs);
    let (away, before) = (away_pages(&fs), fs.tier_stats().expect("a tier").reads);
    let mut part = [0; PART];
    for (number, want) in want.chunks(PART).enumerate() {
        let read = fs.read(file, (number * PART) as u64, &mut part).expect("it reads");
        assert!(part[..read] == *want, "part {number}");
    }
    let after = fs.tier_stats().expect("a tier").reads;
    assert_eq!(after.bytes - before.bytes, away * PAGE);
    let requests = after.count - before.count;
    assert!(requests < (want.len() / PART) as u64 / 2, "{requests} requests");
}

/// Reads a file behind a read-ahead that failed. Returns true if the reader met no error.
fn reads_behind_a_failed_read_ahead(bug: Option<Bug>) -> bool {
    let world = new_world(Model::MAPPED);
    let fs = open(&world).expect("it opens");
    usual(&fs);
    fs.flush().expect("flushed");
    send_away(&fs);
    let (slots, big) = (fs.slots.as_ref().expect("a tier"), at(&fs, "big"));
    let inode = fs.load(big).expect("there");
    let pages = bring_in::away_pages(&fs, &inode, 0..30 * PAGE).expect("read");
    assert!(!pages.is_empty());
    world.disk(0).fail_nth(world.disk(0).requests());
    plant(bug);
    slots.fetch_ahead(&pages);
    plant(None);
    world.disk(0).fail_nth(u64::MAX);
    content(&fs, big).is_ok()
}

#[test]
fn ti23_a_failed_read_ahead_is_forgotten() {
    assert!(reads_behind_a_failed_read_ahead(None));
}

#[test]
fn canary_a_failed_read_ahead_that_is_kept_is_found() {
    assert!(!reads_behind_a_failed_read_ahead(Some(Bug::KeptFailure)));
}
