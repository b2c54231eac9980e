//! FN1: words of the tree of a directory's names that name another page of it, and what else is damaged beside.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use super::repair::{closed, repaired};
use super::support::*;
use crate::format::layout::NODE_WORDS;
use crate::format::leaf::name_hash;
use crate::format::word::{IndexWord, NamedBy};
use crate::tree::directory;
use crate::{FileKind, FileSystem, Ino};

/// A memory with a directory of `names` links to one file, closed.
fn linked(names: &[Vec<u8>]) -> Arc<LyingMemory> {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
    let file = fs.create_file(Ino::ROOT, b"file", &new(FileKind::File)).expect("made").ino;
    names.iter().for_each(|name| _ = fs.link(file, dir, name).expect("room"));
    closed(fs);
    memory
}

fn few() -> Vec<Vec<u8>> {
    (0..150).map(|number| format!("name {number}").into_bytes()).collect()
}

fn at_of(fs: &FileSystem, word: u64) -> Option<u64> {
    match IndexWord(word).named() {
        NamedBy::Page(page) | NamedBy::Node(page) => fs.place(page).ok(),
        _ => None,
    }
}

/// Where the nodes of the tree lie, the uppermost first, and the pages of names.
fn parts(memory: &Arc<LyingMemory>) -> (Vec<u64>, Vec<u64>) {
    let fs = open(memory, None).expect("it opens");
    let dir = fs.lookup(Ino::ROOT, b"dir").expect("there").ino;
    let (mut nodes, mut pages, mut next) = (Vec::new(), Vec::new(), vec![fs.load(dir).expect("there").roots[0].0]);
    while let Some(word) = next.pop() {
        let Some(at) = at_of(&fs, word) else { continue };
        if matches!(IndexWord(word).named(), NamedBy::Node(_)) {
            nodes.push(at);
            let mut words = words(memory, at);
            words.dedup();
            next.extend(words);
        } else {
            pages.push(at);
        }
    }
    closed(fs);
    (nodes, pages)
}

fn words(memory: &LyingMemory, node: u64) -> Vec<u64> {
    (0..NODE_WORDS).map(|index| memory.load_word(node + index * 8)).collect()
}

fn store(memory: &LyingMemory, node: u64, words: &[u64]) {
    (0..).zip(words).for_each(|(index, word)| memory.store_word(node + index * 8, *word));
}

/// Those of `names` that are found in the directory, and that nothing was lost if all are.
fn found(memory: &Arc<LyingMemory>, names: &[Vec<u8>]) -> usize {
    let fs = open(memory, None).expect("it opens");
    let dir = fs.lookup(Ino::ROOT, b"dir").expect("there").ino;
    let found = names.iter().filter(|name| fs.lookup(dir, name).is_ok()).count();
    assert!(found < names.len() || fs.lookup(Ino::ROOT, b"lost+found").is_err());
    assert_sound(&fs);
    closed(fs);
    found
}

#[test]
fn fn1_a_word_that_names_the_page_beside_is_what_those_around_it_are() {
    let names = few();
    let memory = linked(&names);
    let node = parts(&memory).0[0];
    let right = words(&memory, node);
    let stray = |index: usize| right[(index + 256) % 512];
    assert!((0..512).all(|index| stray(index) != right[index]), "two halves");
    for index in 0..512 {
        memory.store_word(node + index as u64 * 8, stray(index));
        let report = repaired(&memory);
        assert!(report.is_sound() && report.findings.len() == 1, "{index}: {:#?}", report.findings);
        assert!(words(&memory, node) == right, "{index}");
    }
    // Also where many are wrong, and not all in the same way.
    for count in [2, 30, 100, 127] {
        let wrong = |index: usize| if index % 256 < count { [stray(index), 0][index % 2] } else { right[index] };
        store(&memory, node, &(0..512).map(wrong).collect::<Vec<_>>());
        let report = repaired(&memory);
        assert!(report.is_sound() && report.findings.len() == 2 * count, "{count}: {:#?}", report.findings);
        assert!(words(&memory, node) == right, "{count}");
    }
    assert_eq!(found(&memory, &names), names.len());
}

/// A damaged head and a damaged word of the same page are both mended, whatever the word says now.
#[test]
fn fn1_names_stay_where_the_head_of_their_page_is_damaged_too() {
    let names = few();
    let memory = linked(&names);
    let (nodes, pages) = parts(&memory);
    let right = words(&memory, nodes[0]);
    let damages: [fn(u64) -> u64; 3] = [|_| 0, |_| u64::MAX, |word| word ^ 1 << 61];
    for page in pages {
        for (word, bit) in [(0, 3), (0, 40), (8, 2), (8, 33)] {
            for (damage, index) in damages.iter().flat_map(|damage| [5, 100, 261, 511].map(|index| (damage, index))) {
                memory.store_word(page + word, memory.load_word(page + word) ^ 1 << bit);
                memory.store_word(nodes[0] + index as u64 * 8, damage(right[index]));
                let report = repaired(&memory);
                assert!(report.is_sound() && report.findings.len() == 2, "{index}: {:#?}", report.findings);
                assert!(words(&memory, nodes[0]) == right, "{index}");
            }
        }
    }
    assert_eq!(found(&memory, &names), names.len());
}

/// A line of zeros says nothing of whose the names behind it are: who names the page, and where they lie, does.
#[test]
fn fn1_names_stay_where_the_head_of_their_page_is_zeros() {
    for names in [few()[..20].to_vec(), few()] {
        let memory = linked(&names);
        let pages = parts(&memory).1;
        for page in &pages {
            let before: Vec<u64> = (0..2).map(|word| memory.load_word(page + word * 8)).collect();
            (0..8).for_each(|word| memory.store_word(page + word * 8, 0));
            let report = repaired(&memory);
            assert!(report.is_sound() && report.findings.len() == 1, "{:#?}", report.findings);
            assert!((0..2).map(|word| memory.load_word(page + word * 8)).eq(before));
        }
        pages.iter().for_each(|page| (0..8).for_each(|word| memory.store_word(page + word * 8, 0)));
        assert!(repaired(&memory).is_sound());
        assert_eq!(found(&memory, &names), names.len());
    }
}

/// Of no word that is bad is another one waited for.
#[test]
fn a_run_of_bad_words_is_given_up_at_once() {
    let names = few();
    for bad in [u64::MAX, IndexWord::page(1 << 40).0, IndexWord::node(1 << 40).0] {
        for count in [1, 100, 256, 512] {
            let memory = linked(&names);
            let node = parts(&memory).0[0];
            let kept = if count < 256 { names.len() } else { found_below(&memory, &names, 512 - count) };
            (512 - count..512).for_each(|index| memory.store_word(node + index as u64 * 8, bad));
            let report = repaired(&memory);
            assert!(report.is_sound(), "{bad:x} {count}: {:#?}", report.findings);
            let given_up = report.findings.iter().filter(|finding| finding.at == Some(node + (512 - count as u64) * 8));
            assert_eq!(given_up.count(), 1, "{bad:x} {count}: {:#?}", report.findings);
            assert_eq!(found(&memory, &names), kept, "{bad:x} {count}");
        }
    }
}

/// How many of `names` lie in the first `count` words.
fn found_below(memory: &Arc<LyingMemory>, names: &[Vec<u8>], count: usize) -> usize {
    let fs = open(memory, None).expect("it opens");
    let word = |name: &[u8]| directory::hash_name(&fs, name).expect("a name").hash >> 46;
    let below = names.iter().filter(|name| word(name) < count as u64).count();
    closed(fs);
    below
}

/// In a tree of two levels, any word may have become any other of them: names are lost only where it was the only one
/// of theirs.
#[test]
fn fn1_a_stray_word_takes_no_name_from_another_page() {
    let names: Vec<Vec<u8>> = (0..4600).map(|number| format!("{number:0>240}").into_bytes()).collect();
    let memory = linked(&names);
    let (nodes, pages) = parts(&memory);
    assert!(nodes.len() > 3, "{}", nodes.len());
    let (image, all): (_, Vec<Vec<u64>>) =
        (memory.snapshot(), nodes.iter().map(|node| words(&memory, *node)).collect());
    let named: Vec<u64> = all.concat();
    let mut mended = 0;
    for round in 0..16_u64 {
        let random = name_hash(round, b"stray");
        let which = if round % 2 == 0 { 0 } else { random as usize % nodes.len() };
        let (index, stray) = ((random >> 16) as usize % 512, named[(random >> 25) as usize % named.len()]);
        let right = all[which][index];
        if right == stray {
            continue;
        }
        let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
        memory.keep_trace(false);
        memory.store_word(nodes[which] + index as u64 * 8, stray);
        let report = repaired(&memory);
        assert!(report.is_sound(), "{round}: {:#?}", report.findings);
        let is_alone = all[which].iter().filter(|word| **word == right).count() == 1;
        let lost = names.len() - found(&memory, &names);
        let may_be = match (is_alone, IndexWord(right).named()) {
            (false, _) => 0,
            (true, NamedBy::Page(_)) => 12,
            _ => names.len() * 2 / 512 + 24,
        };
        assert!(lost <= may_be, "{round}: {right:x} was made {stray:x}: {lost} names are lost: {:#?}", report.findings);
        mended += u64::from(!is_alone);
    }
    assert!(pages.len() > 450 && mended > 3, "{mended}");
}

/// Nodes that lead from one to the next, as only who means harm makes them, are looked down no further than names
/// reach.
#[test]
fn a_long_chain_of_nodes_is_no_deep_tree() {
    const STACK: usize = 256 << 10;
    const CHAIN: std::ops::Range<u64> = 50..500;
    let names = few();
    let memory = linked(&names);
    let node = parts(&memory).0[0];
    let right = words(&memory, node);
    let NamedBy::Page(page) = IndexWord(right[0]).named() else { panic!("a page of names") };
    let place = |index: u64| node / CHUNK * CHUNK + index * PAGE;
    let next = |index: u64| IndexWord::node(page / CHUNK_PAGES * CHUNK_PAGES + index).0;
    for index in CHAIN {
        assert!(words(&memory, place(index)).iter().all(|word| *word == 0), "nobody's");
        memory.store_word(place(index), if index + 1 < CHAIN.end { next(index + 1) } else { 0 });
    }
    memory.store_word(node, next(CHAIN.start));
    let check = {
        let memory = Arc::clone(&memory);
        move || repaired(&memory)
    };
    let report =
        std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread").join().expect("no panic");
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert!(words(&memory, node) == right);
    assert_eq!(found(&memory, &names), names.len());
}
