//! Directories that more names lead to than one, or none from the root.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_medium::Memory;

use super::repair::{checked, closed, repaired};
use super::world::*;
use super::{Bug, PLANTED};
use crate::{FileSystem, Ino, Kind};

const NAMES: usize = 1500;

/// Where the names of `dir` lie, but for their slots.
fn names(fs: &FileSystem, dir: Ino) -> Vec<u64> {
    let mut all = Vec::new();
    fs.each_name(&fs.load(dir).expect("there"), 0, &mut |entry, _| {
        all.push(entry.at());
        true
    })
    .expect("it lists");
    all
}

/// A memory, closed, with a directory that many names lead to which led to a file, and with a file that has a wrong count of
/// links.
fn led_to_by_many() -> (Arc<LyingMemory>, Tree) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let make = |dir, name: &[u8], kind| fs.create_file(dir, name, &new(kind)).expect("made").ino;
    let [dir, other] = [b"dir", b"two"].map(|name| make(Ino::ROOT, name, Kind::Directory));
    make(other, b"below", Kind::Directory);
    let file = make(Ino::ROOT, b"file", Kind::File);
    let before = tree(&fs).expect("it reads");
    (0..NAMES).for_each(|number| _ = fs.link(file, dir, format!("name {number}").as_bytes()).expect("room"));
    let (all, at) = (names(&fs, dir), fs.load(make(Ino::ROOT, b"counted", Kind::File)).expect("there").at);
    closed(fs);
    all.iter().for_each(|name| memory.store_word(name + 8, other.0));
    memory.store_word(at, memory.load_word(at) ^ 6 << 32);
    (memory, before)
}

#[test]
fn a_directory_that_more_names_lead_to_than_fit_a_transaction_keeps_its_own() {
    let (memory, before) = led_to_by_many();
    let report = repaired(&memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    let fs = open(&memory, None).expect("it opens");
    let mut after = tree(&fs).expect("it reads");
    assert_eq!(after.remove(&b"/counted"[..]).expect("there").links, 1);
    assert!(after == before);
    assert_sound(&fs);
}

/// What has no room in a transaction is told, and all else is mended.
#[test]
fn a_repair_goes_on_where_one_is_too_large() {
    let (memory, _) = led_to_by_many();
    PLANTED.set(Some(Bug::LargeFix));
    let report = repaired(&memory);
    PLANTED.set(None);
    let is_done = |what: &str, done| {
        let is =
            |finding: &&ferrite_pool::check::Finding| finding.what.contains(what) && finding.repaired.is_some() == done;
        report.findings.iter().filter(is).count()
    };
    assert_eq!(is_done("1501 names", false), 1, "{:#?}", report.findings);
    assert!(!report.is_sound() && is_done("links", true) > 0);
    let told = checked(&memory).findings;
    assert!(told.iter().all(|finding| finding.what.contains("1501 names")), "{told:#?}");
}
