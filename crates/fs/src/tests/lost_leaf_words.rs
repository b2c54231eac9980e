//! FN1: damaged words in the tree of a directory's names, among words that show what they were.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Memory, Result as MediumResult, Span, forward_memory};
use ferrite_pool::{Pool, check};

use super::repair::{checked, closed, owners, repaired};
use super::support::*;
use crate::format::layout::NODE_WORDS;
use crate::format::word::NamedBy;
use crate::{FileKind, FileSystem, Ino};

const NAMES: usize = 1200;

fn name(number: usize) -> Vec<u8> {
    format!("name {number}").into_bytes()
}

/// The words of a node.
fn words_of(memory: &LyingMemory, node: u64) -> Vec<u64> {
    (0..NODE_WORDS).map(|index| memory.load_word(node + index * 8)).collect()
}

fn directory(fs: &FileSystem) -> Ino {
    fs.lookup(Ino::ROOT, b"dir").expect("there").ino
}

/// A memory with a directory of many names, closed, and the place of the node of its tree.
fn many() -> (Arc<LyingMemory>, u64) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
    let file = fs.create_file(Ino::ROOT, b"file", &new(FileKind::File)).expect("made").ino;
    (0..NAMES).for_each(|number| _ = fs.link(file, dir, &name(number)).expect("room"));
    let NamedBy::Node(node) = fs.load(dir).expect("there").roots[0].named() else { panic!("a small tree") };
    let at = fs.place(node).expect("there");
    closed(fs);
    (memory, at)
}

/// Asserts that the names are there, also after as many more, for which pages are split.
fn assert_all_found(memory: &Arc<LyingMemory>) {
    let fs = open(memory, None).expect("it opens");
    let dir = directory(&fs);
    let file = fs.lookup(Ino::ROOT, b"file").expect("there").ino;
    (NAMES..2 * NAMES).for_each(|number| _ = fs.link(file, dir, &name(number)).expect("room"));
    (0..2 * NAMES).for_each(|number| assert_eq!(fs.lookup(dir, &name(number)).expect("there").ino, file));
    assert!(fs.lookup(Ino::ROOT, b"lost+found").is_err());
    assert_sound(&fs);
    closed(fs);
}

#[test]
fn fn1_a_lost_word_of_the_tree_of_names_is_what_those_around_it_are() {
    let damages: [fn(u64) -> u64; 4] = [|_| 0, |_| u64::MAX, |word| word ^ 1 << 61, |word| word ^ 1 << 12];
    let (memory, node) = many();
    let words = words_of(&memory, node);
    assert!(words.windows(2).filter(|two| two[0] != two[1]).count() > 6 && words.iter().all(|word| *word != 0));
    let edges = |index: &usize| *index == 0 || words[*index] != words[*index - 1];
    let edges: Vec<usize> = (0..words.len()).filter(edges).collect();
    // One word within each run, and a line of words.
    let places = edges.iter().flat_map(|edge| [*edge + 5..*edge + 6, edge + 5..edge + 13]);
    for place in places {
        for damage in damages {
            for index in place.clone() {
                memory.store_word(node + index as u64 * 8, damage(words[index]));
            }
            let found = checked(&memory).findings.len();
            assert_eq!(found, place.len(), "{place:?}: {:#?}", checked(&memory).findings);
            assert!(repaired(&memory).is_sound());
            assert!(words_of(&memory, node) == words, "{place:?}");
        }
    }
    assert_all_found(&memory);
}

/// A memory on which nothing is waited for.
struct Hasty(Arc<LyingMemory>);

impl Memory for Hasty {
    forward_memory!(self => self.0; size, survival, fence_is_durable, load, store, zero, load_word, store_word, store_words,
        flush, reserve);

    fn fence(&self) {}

    fn barrier(&self) -> MediumResult<()> {
        Ok(())
    }
}

/// A word of each of two runs is lost, and both are repaired in one go, on the memory that `on` makes: what every crash
/// of that leaves is repaired in its turn.
fn crashes_of_a_repair(on: fn(Arc<LyingMemory>) -> Arc<dyn Memory>) -> CrashReport {
    let (memory, node) = many();
    let words = words_of(&memory, node);
    let run = words.iter().take_while(|word| **word == words[0]).count() as u64;
    [run - 2, run + 1].iter().for_each(|index| memory.store_word(node + index * 8, 0));
    memory.persist(Span::new(0, memory.size())).expect("nothing fails");
    memory.keep_trace(true);
    let report = check::repair(&on(memory.clone()), &owners(), &[], &mut |_| ()).expect("the medium works");
    assert!(report.is_sound() && report.findings.len() == 2, "{:#?}", report.findings);
    memory.mark(1);
    let mut judged = BTreeSet::new();
    let options = ExploreOptions {
        images_per_point_max: 1 << 10,
        samples_per_point: 24,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(&memory, &options, |crash| {
        let memory = Arc::new(crash.memory());
        Pool::open(memory.clone(), BOOT).map_err(|error| error.to_string())?;
        let left = words_of(&memory, node);
        if crash.last_mark().is_some() && left != words {
            return Err("FN1: a word that was said to be repaired is lost".into());
        }
        // What is left is judged by those words alone: the same again is as good.
        if judged.insert(left) && !(repaired(&memory).is_sound() && words_of(&memory, node) == words) {
            return Err("FN1: what was left is not repaired".into());
        }
        Ok(())
    })
}

#[test]
fn fn1_fk1_every_crash_of_a_repair_of_several_lost_words_leaves_what_another_one_ends() {
    let report = crashes_of_a_repair(|memory| memory);
    println!("lost words: {report}");
    report.assert_clean().assert_exhaustive();
}

#[test]
fn canary_a_repair_of_lost_words_that_waits_for_nothing_is_found() {
    crashes_of_a_repair(|memory| Arc::new(Hasty(memory))).expect_failure();
}
