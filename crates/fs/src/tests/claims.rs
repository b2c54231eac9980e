//! FJ1: pages of content and of attributes that two inodes name, as a word of one of them is damaged; and crashes of the
//! repair.

use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::Memory;

use super::repair::{checked, closed, repaired};
use super::support::*;
use super::{Bug, plant};
use crate::format::inode::Inode;
use crate::format::layout::BITMAP;
use crate::format::layout::ChunkKind;
use crate::format::word::{IndexWord, NamedBy};
use crate::{FileKind, Ino, SetXattr};

const XATTR: &[u8] = b"user.a";
/// Words of an inode: where they lie in it.
const ROOT: u64 = 64;
const XATTRS: u64 = 152;

/// A memory with files, closed, and these files: each has so many bytes, all of them its number, and so many of
/// attributes.
fn files<const N: usize>(sizes: [(usize, usize); N]) -> (Arc<LyingMemory>, [Inode; N]) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let mut number = 0;
    let all = sizes.map(|(bytes, of_attributes)| {
        number += 1;
        let ino = fs.create_file(Ino::ROOT, &[b'a' + number], &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, &vec![number; bytes]).expect("room");
        fs.set_xattr(ino, XATTR, &vec![number; of_attributes], SetXattr::Any).expect("room");
        ino
    });
    run_steps(&fs);
    let all = all.map(|ino| fs.load(ino).expect("there"));
    closed(fs);
    (memory, all)
}

/// Copies the word at `from` to `to`.
fn name_twice(memory: &LyingMemory, from: u64, to: u64) {
    assert!(memory.load_word(from) >> 60 != 0 && memory.load_word(to) >> 60 != 0, "both name something");
    memory.store_word(to, memory.load_word(from));
}

fn seen_in(memory: &Arc<LyingMemory>, ino: Ino) -> Seen {
    let fs = open(memory, None).expect("it opens");
    let seen = seen(&fs, ino).expect("it reads");
    assert_sound(&fs);
    closed(fs);
    seen
}

/// Repairs what is damaged; what that did.
#[track_caller]
fn mended(memory: &Arc<LyingMemory>) -> String {
    assert!(!checked(memory).is_sound());
    let report = repaired(memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert!(checked(memory).findings.is_empty(), "{:#?}", checked(memory).findings);
    format!("{:#?}", report.findings)
}

/// The right owner of a page is unknown: both get its content.
#[test]
fn fj1_a_page_that_two_name_is_lost_by_none() {
    for (bad, good) in [(0, 1), (1, 0)] {
        for word in [ROOT, XATTRS] {
            let (memory, all) = files([(4000, 200); 2]);
            let before = all.map(|inode| seen_in(&memory, inode.ino));
            name_twice(&memory, all[good].at + word, all[bad].at + word);
            let done = mended(&memory);
            assert!(seen_in(&memory, all[good].ino) == before[good], "{bad} {word}: {done}");
            let now = seen_in(&memory, all[bad].ino);
            if word == ROOT {
                assert!(now.content == before[good].content && now.xattrs == before[bad].xattrs);
            } else {
                assert!(now.content == before[bad].content && now.xattrs == before[good].xattrs);
            }
        }
    }
}

/// What is content of one and attributes of the other stays content.
#[test]
fn fj1_content_that_is_named_as_attributes_is_kept() {
    for (bad, good) in [(0, 1), (1, 0)] {
        let (memory, all) = files([(4000, 200); 2]);
        let before = all.map(|inode| seen_in(&memory, inode.ino));
        name_twice(&memory, all[good].at + ROOT, all[bad].at + XATTRS);
        let done = mended(&memory);
        assert!(seen_in(&memory, all[good].ino) == before[good], "{bad}: {done}");
        let now = seen_in(&memory, all[bad].ino);
        assert!(now.content == before[bad].content && now.xattrs.is_empty(), "{bad}: {done}");
    }
}

/// A page of attributes as well, even between others.
#[test]
fn fj1_a_page_of_attributes_between_others_is_lost_by_none() {
    for (bad, good) in [(0, 1), (1, 0)] {
        let (memory, all) = files([(100_000, 20_000); 2]);
        let before = all.map(|inode| seen_in(&memory, inode.ino));
        let fs = open(&memory, None).expect("it opens");
        let lists = all.map(|inode| match IndexWord(inode.rest.xattrs).named() {
            NamedBy::Node(node) => fs.place(node).expect("there"),
            _ => panic!("they have several pages"),
        });
        closed(fs);
        name_twice(&memory, lists[good] + 16, lists[bad] + 16);
        let done = mended(&memory);
        assert!(seen_in(&memory, all[good].ino) == before[good], "{bad}: {done}");
        assert_eq!(seen_in(&memory, all[bad].ino).xattrs[XATTR].len(), 20_000);
    }
}

/// Where there is no room for a copy the repair ends nevertheless, and the first one has the page.
#[test]
fn fj1_without_room_for_a_copy_the_first_has_the_page() {
    let (memory, all) = files([(4000, 200); 2]);
    let before = all.map(|inode| seen_in(&memory, inode.ino));
    name_twice(&memory, all[1].at + ROOT, all[0].at + ROOT);
    let fs = open(&memory, None).expect("it opens");
    let data = (0..fs.space.chunks()).filter(|chunk| fs.space.kind(*chunk) == Some(ChunkKind::Data));
    let all_pages: Vec<u64> = data.map(|chunk| fs.space.map.descriptor(chunk) + BITMAP).collect();
    closed(fs);
    all_pages.iter().for_each(|at| (0..8).for_each(|word| memory.store_word(at + word * 8, u64::MAX)));
    let done = mended(&memory);
    assert!(done.contains("what it had is lost"), "{done}");
    assert!(seen_in(&memory, all[0].ino).content == before[1].content);
}

/// Every crash of the repair of two files, of which the `bad` one names by this word what the other has by it; with
/// `bug` planted in the repair. Where another repair follows both have what the first one would have left them.
fn explore_repair(bad: usize, word: u64, bug: Option<Bug>) -> CrashReport {
    let (memory, all) = files([(4000, 200); 2]);
    name_twice(&memory, all[1 - bad].at + word, all[bad].at + word);
    let expected = {
        let memory = Arc::new(memory.kill());
        mended(&memory);
        all.map(|inode| seen_in(&memory, inode.ino))
    };
    // The damage is durable.
    let memory = Arc::new(memory.kill());
    plant(bug);
    repaired(&memory);
    plant(None);
    let options = ExploreOptions {
        images_per_point_max: 8,
        samples_per_point: 8,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(&memory, &options, |crash| {
        let memory = Arc::new(crash.memory());
        let report = repaired(&memory);
        let found = all.map(|inode| seen_in(&memory, inode.ino));
        if report.is_sound() && found == expected { Ok(()) } else { Err(format!("{:#?}", report.findings)) }
    })
}

#[test]
fn fj1_every_crash_of_a_repair_leaves_both_what_they_have() {
    for (bad, word) in [(0, ROOT), (1, ROOT), (0, XATTRS), (1, XATTRS)] {
        explore_repair(bad, word, None).assert_clean();
    }
}

#[test]
fn canary_a_copy_of_content_or_attributes_that_is_named_before_it_is_durable_is_found() {
    for word in [ROOT, XATTRS] {
        explore_repair(1, word, Some(Bug::NameBeforeCopy)).expect_failure();
    }
}
