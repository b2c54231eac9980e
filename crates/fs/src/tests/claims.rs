//! FJ1, FJ2: pages of words and of attributes that two inodes name, as a word of one of them is damaged; and crashes
//! of the repair.

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

const NAMES: usize = 300;
const XATTR: &[u8] = b"user.a";
/// Words of an inode: where they lie in it.
const ROOT: u64 = 64;
const PAGES: u64 = 56;
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

/// A page of words stays that file's which it fits, whichever has the lesser number; the other one keeps the rest.
#[test]
fn fj1_the_index_of_a_sound_file_is_not_given_to_another_that_names_it() {
    for (bad, good) in [(0, 1), (1, 0)] {
        for (word, goal) in [(ROOT, ROOT), (XATTRS, ROOT), (ROOT, XATTRS)] {
            let mut sizes = [(100_000, 20_000); 2];
            sizes[good] = (500_000, 30_000);
            let (memory, all) = files(sizes);
            let before = all.map(|inode| seen_in(&memory, inode.ino));
            name_twice(&memory, all[good].at + goal, all[bad].at + word);
            let done = mended(&memory);
            assert!(seen_in(&memory, all[good].ino) == before[good], "{bad} {word} {goal}: {done}");
            let now = seen_in(&memory, all[bad].ino);
            if word == ROOT {
                assert_eq!((now.content, &now.xattrs), (vec![0; 100_000], &before[bad].xattrs));
            } else {
                assert!(now.content == before[bad].content && now.xattrs.is_empty());
            }
        }
    }
}

/// So do the names of a directory.
#[test]
fn fj1_the_names_of_a_sound_directory_are_not_given_to_a_file_that_names_them() {
    for word in [ROOT, XATTRS] {
        let (memory, [bad]) = files([(100_000, 20_000)]);
        let fs = open(&memory, None).expect("it opens");
        let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
        for number in 0..NAMES {
            fs.create_file(dir, format!("name {number}").as_bytes(), &new(FileKind::File)).expect("room");
        }
        let root = fs.load(dir).expect("there").root_at(0);
        let before = tree(&fs).expect("it reads").into_keys();
        closed(fs);
        name_twice(&memory, root, bad.at + word);
        let done = mended(&memory);
        let fs = open(&memory, None).expect("it opens");
        assert!(tree(&fs).expect("it reads").into_keys().eq(before), "{word}: {done}");
        closed(fs);
    }
}

/// For two files that are alike the right owner of a page is unknown: both get its content.
#[test]
fn fj2_of_two_that_a_page_fits_the_second_has_a_copy() {
    for (bad, good) in [(0, 1), (1, 0)] {
        for (word, bytes) in [(ROOT, 20_000), (XATTRS, 20_000), (XATTRS, 200)] {
            let (memory, all) = files([(500_000, bytes); 2]);
            let before = all.map(|inode| seen_in(&memory, inode.ino));
            name_twice(&memory, all[good].at + word, all[bad].at + word);
            let done = mended(&memory);
            assert!(seen_in(&memory, all[good].ino) == before[good], "{bad} {word} {bytes}: {done}");
            let now = seen_in(&memory, all[bad].ino);
            if word == ROOT {
                assert!(now.content == before[good].content && now.xattrs == before[bad].xattrs);
            } else {
                assert!(now.content == before[bad].content && now.xattrs == before[good].xattrs);
            }
        }
    }
}

/// A page of attributes as well, even between others.
#[test]
fn fj2_a_page_of_attributes_that_two_name_is_lost_by_none() {
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

/// Where more is damaged than one word neither fits, and nothing of either is given up that it had.
#[test]
fn fj2_where_a_page_fits_neither_the_second_has_a_copy() {
    for (bad, good) in [(0, 1), (1, 0)] {
        for word in [ROOT, XATTRS] {
            let mut sizes = [(100_000, 20_000); 2];
            sizes[good] = (500_000, 30_000);
            let (memory, all) = files(sizes);
            let before = all.map(|inode| seen_in(&memory, inode.ino));
            name_twice(&memory, all[good].at + ROOT, all[bad].at + word);
            let count = all[good].at + PAGES;
            memory.store_word(count, memory.load_word(count) ^ 1 << 9);
            let done = mended(&memory);
            assert!(seen_in(&memory, all[good].ino) == before[good], "{bad} {word}: {done}");
        }
    }
}

/// Where there is no room for a copy the repair ends nevertheless, and the first one has the page.
#[test]
fn fj2_without_room_for_a_copy_the_first_has_the_page() {
    let (memory, all) = files([(500_000, 200); 2]);
    let before = all.map(|inode| seen_in(&memory, inode.ino));
    name_twice(&memory, all[1].at + ROOT, all[0].at + ROOT);
    let fs = open(&memory, None).expect("it opens");
    let mut index = (0..fs.space.chunks()).filter(|chunk| fs.space.kind(*chunk) == Some(ChunkKind::Index));
    let descriptor = fs.space.map.descriptor(index.next().expect("there is one"));
    assert_eq!(index.next(), None);
    drop(index);
    closed(fs);
    (0..8).for_each(|word| memory.store_word(descriptor + BITMAP + word * 8, u64::MAX));
    let done = mended(&memory);
    assert!(done.contains("what it had is lost"), "{done}");
    assert!(seen_in(&memory, all[0].ino).content == before[1].content);
}

/// Every crash of the repair of two files, of which one names by the first of these words what the other has by the
/// second; with `bug` planted in the repair. Where another repair follows both have what the first one would have left
/// them.
fn explore_repair(sizes: [(usize, usize); 2], bad: usize, (word, goal): (u64, u64), bug: Option<Bug>) -> CrashReport {
    let (memory, all) = files(sizes);
    name_twice(&memory, all[1 - bad].at + goal, all[bad].at + word);
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
fn fj2_every_crash_of_a_repair_leaves_both_what_they_have() {
    for (alike, bad, word) in
        [((40_000, 200), 0, ROOT), ((40_000, 200), 1, ROOT), ((100, 20_000), 1, XATTRS), ((100, 200), 0, XATTRS)]
    {
        explore_repair([alike; 2], bad, (word, word), None).assert_clean();
    }
}

/// The same, where what `bad` names fits the other one.
fn explore_fitting(bad: usize, words: (u64, u64), bug: Option<Bug>) -> CrashReport {
    let mut sizes = [(40_000, 20_000); 2];
    sizes[1 - bad] = (60_000, 30_000);
    explore_repair(sizes, bad, words, bug)
}

#[test]
fn fj1_every_crash_of_a_repair_leaves_the_page_to_whom_it_fits() {
    for (bad, words) in [(0, (ROOT, ROOT)), (1, (XATTRS, ROOT)), (1, (ROOT, XATTRS))] {
        explore_fitting(bad, words, None).assert_clean();
    }
}

/// A file whose words another one names as attributes would lose nothing by it: it has a copy of what is none of those.
#[test]
fn canary_a_page_that_is_given_to_who_is_asked_first_is_found() {
    for words in [(ROOT, ROOT), (ROOT, XATTRS)] {
        explore_fitting(0, words, Some(Bug::FirstAsked)).expect_failure();
    }
}

#[test]
fn canary_a_copy_of_words_or_attributes_that_is_named_before_it_is_durable_is_found() {
    for (alike, word) in [((40_000, 200), ROOT), ((100, 20_000), XATTRS)] {
        explore_repair([alike; 2], 1, (word, word), Some(Bug::NameBeforeCopy)).expect_failure();
    }
}
