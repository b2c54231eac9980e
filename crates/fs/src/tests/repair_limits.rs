//! Directories that more names lead to than one, or none from the root.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;

use super::repair::{checked, closed, repaired};
use super::support::*;
use super::{Bug, plant};
use crate::tree::directory;
use crate::{FileKind, FileSystem, Ino, Rename};

const NAMES: usize = 1500;

/// The places of the names of `dir`, except their slots.
fn names(fs: &FileSystem, dir: Ino) -> Vec<u64> {
    let mut all = Vec::new();
    directory::each_name(fs, &fs.load(dir).expect("there"), 0, &mut |entry, _| {
        all.push(entry.at());
        true
    })
    .expect("it lists");
    all
}

/// A memory, closed, with a directory that many names lead to which led to a file, and with a file that has a wrong
/// count of links.
fn led_to_by_many() -> (Arc<LyingMemory>, Tree) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let make = |dir, name: &[u8], kind| fs.create_file(dir, name, &new(kind)).expect("made").ino;
    let [dir, other] = [b"dir", b"two"].map(|name| make(Ino::ROOT, name, FileKind::Directory));
    make(other, b"below", FileKind::Directory);
    let file = make(Ino::ROOT, b"file", FileKind::File);
    let before = tree(&fs).expect("it reads");
    (0..NAMES).for_each(|number| _ = fs.link(file, dir, format!("name {number}").as_bytes()).expect("room"));
    let (all, at) = (names(&fs, dir), fs.load(make(Ino::ROOT, b"counted", FileKind::File)).expect("there").at);
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

/// A repair too large for a transaction is reported, and all else is repaired.
#[test]
fn a_repair_goes_on_where_one_is_too_large() {
    let (memory, _) = led_to_by_many();
    plant(Some(Bug::LargeFix));
    let report = repaired(&memory);
    plant(None);
    let is_done = |what: &str, done| {
        let is = |finding: &&ferrite_pool::check::CheckFinding| {
            finding.what.contains(what) && finding.repaired.is_some() == done
        };
        report.findings.iter().filter(is).count()
    };
    assert_eq!(is_done("1501 names", false), 1, "{:#?}", report.findings);
    assert!(!report.is_sound() && is_done("links", true) > 0);
    let message = checked(&memory).findings;
    assert!(message.iter().all(|finding| finding.what.contains("1501 names")), "{message:#?}");
}

/// A memory, closed, with directories each in the one before, and a file in the last of them and one in the first, and
/// where the slot of the uppermost one lies, and the directories.
fn nested() -> (Arc<LyingMemory>, u64, Vec<Ino>) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    // The uppermost has the greatest number.
    let [three, two, one] = ["three", "two", "one"]
        .map(|name| fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::Directory)).expect("made").ino);
    fs.rename((Ino::ROOT, b"two"), (one, b"two"), Rename::Replace).expect("moved");
    fs.rename((Ino::ROOT, b"three"), (two, b"three"), Rename::Replace).expect("moved");
    let all = vec![Ino::ROOT, one, two, three];
    for dir in [all[1], all[3]] {
        let file = fs.create_file(dir, b"file", &new(FileKind::File)).expect("made").ino;
        fs.write(file, 0, b"bytes").expect("room");
    }
    let hit = directory::find_name(
        &fs,
        &fs.load(Ino::ROOT).expect("there"),
        &directory::hash_name(&fs, b"one").expect("a name"),
    );
    let slot_at = hit.expect("it reads").expect("there").entry.slot_at;
    closed(fs);
    (memory, slot_at, all)
}

/// What is in lost+found: paths below it, with what is there.
fn rescued(memory: &Arc<LyingMemory>) -> Vec<String> {
    let report = repaired(memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    // The word that shows which name is wrong is kept until the name is repaired, whenever a repair ends.
    assert!(!report.findings.iter().any(|finding| finding.what.contains("for its parent")), "{:#?}", report.findings);
    let fs = open(memory, None).expect("it opens");
    let tree = tree(&fs).expect("it reads");
    assert_sound(&fs);
    closed(fs);
    let below = tree.keys().filter_map(|path| path.strip_prefix(b"/lost+found/"));
    below.map(|path| String::from_utf8(path.to_vec()).expect("a name")).collect()
}

/// A name deep in a directory that leads to it instead of to what it was to lead to, while its own name is lost.
#[test]
fn directories_that_lie_in_a_circle_are_found_in_lost_and_found() {
    for from in 1..=3 {
        let (memory, slot_at, all) = nested();
        let fs = open(&memory, None).expect("it opens");
        let name = fs.create_file(all[from], b"wrong", &new(FileKind::Directory)).expect("made").ino;
        let hit = directory::find_name(
            &fs,
            &fs.load(all[from]).expect("there"),
            &directory::hash_name(&fs, b"wrong").expect("a name"),
        );
        let entry = hit.expect("it reads").expect("there").entry.at();
        closed(fs);
        memory.store_word(slot_at, 0);
        memory.store_word(entry + 8, all[1].0);
        let one = format!("#{}", all[1].0);
        let mut expected =
            ["", "/file", "/two", "/two/three", "/two/three/file"].map(|path| format!("{one}{path}")).to_vec();
        expected.push(format!("#{}", name.0));
        expected.sort();
        assert_eq!(rescued(&memory), expected, "{from}");
    }
}
