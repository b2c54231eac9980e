//! FN1: damaged words in the tree of a directory's names, among words that tell what they said.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_medium::Memory;

use super::repair::{checked, closed, repaired};
use super::world::*;
use crate::layout::NODE_WORDS;
use crate::word::{Named, Word};
use crate::{FileSystem, Ino, Kind};

const NAMES: usize = 1200;

fn name(number: usize) -> Vec<u8> {
    format!("name {number}").into_bytes()
}

fn directory(fs: &FileSystem) -> Ino {
    fs.lookup(Ino::ROOT, b"dir").expect("there").ino
}

/// A memory with a directory of many names, closed, and the place of the node of its tree.
fn many() -> (Arc<LyingMemory>, u64) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(Kind::Directory)).expect("made").ino;
    let file = fs.create_file(Ino::ROOT, b"file", &new(Kind::File)).expect("made").ino;
    (0..NAMES).for_each(|number| _ = fs.link(file, dir, &name(number)).expect("room"));
    let Named::Node(node) = fs.load(dir).expect("there").roots[0].named() else { panic!("a small tree") };
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
    let words: Vec<u64> = (0..NODE_WORDS).map(|index| memory.load_word(node + index * 8)).collect();
    assert!(words.windows(2).filter(|two| two[0] != two[1]).count() > 6 && words.iter().all(|word| *word != 0));
    let edges = |index: &usize| *index == 0 || words[*index] != words[*index - 1];
    let edges: Vec<usize> = (0..words.len()).filter(edges).collect();
    // One word at the beginning, in the middle and at the end of each run; and a line of words.
    let singles = edges.iter().flat_map(|edge| [*edge, edge + 5, (edge + words.len() - 1) % words.len()]);
    let places = singles.map(|index| index..index + 1).chain(edges.iter().map(|edge| edge + 8..edge + 16));
    for place in places {
        for damage in damages {
            for index in place.clone() {
                memory.store_word(node + index as u64 * 8, damage(words[index]));
            }
            let found = checked(&memory).findings.len();
            assert_eq!(found, place.len(), "{place:?}: {:#?}", checked(&memory).findings);
            assert!(repaired(&memory).is_sound());
            let now: Vec<u64> = (0..NODE_WORDS).map(|index| memory.load_word(node + index * 8)).collect();
            assert!(now == words, "{place:?}");
        }
    }
    assert_all_found(&memory);
}

/// Whose page has names there is told by the names where no word around tells it.
#[test]
fn fn1_a_lost_word_is_told_by_the_names_that_lie_in_it() {
    let (memory, node) = many();
    let words: Vec<u64> = (0..NODE_WORDS).map(|index| memory.load_word(node + index * 8)).collect();
    let run = words.iter().take_while(|word| **word == words[0]).count();
    (run / 2..run).for_each(|index| memory.store_word(node + index as u64 * 8, 0));
    assert!(!checked(&memory).is_sound() && repaired(&memory).is_sound());
    assert_eq!(Word(memory.load_word(node + run as u64 * 8 - 8)), Word(words[0]));
    assert_all_found(&memory);
}
