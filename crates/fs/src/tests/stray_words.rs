//! FD2: words of files that name pages of chunks that are for something else.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES};

use super::damaged_media::image;
use super::repair::{checked, closed, repaired};
use super::support::*;
use crate::file::index;
use crate::file::index::IndexEntry;
use crate::format::layout::ChunkKind;
use crate::format::word::{IndexWord, NamedBy};
use crate::{FileKind, FileSystem, Ino};

fn memory_of(image: &[u8]) -> Arc<LyingMemory> {
    let memory = LyingMemory::from_image(image, Model::MAPPED);
    memory.keep_trace(false);
    Arc::new(memory)
}

/// All that a user sees of what is in `memory`, after a repair that mends all.
#[track_caller]
fn mended(memory: &Arc<LyingMemory>) -> Tree {
    assert!(!checked(memory).is_sound());
    let report = repaired(memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert!(checked(memory).findings.is_empty(), "{:#?}", checked(memory).findings);
    seen_in(memory)
}

fn seen_in(memory: &Arc<LyingMemory>) -> Tree {
    let fs = open(memory, None).expect("it opens");
    let tree = tree(&fs).expect("all of it reads");
    closed(fs);
    tree
}

/// Where the words of `name` lie that name superpages.
fn superpages(fs: &FileSystem, name: &str) -> Vec<u64> {
    let inode = fs.load(fs.lookup(Ino::ROOT, name.as_bytes()).expect("there").ino).expect("there");
    let words = (0..8).filter(|index| inode.roots[*index].superpage_named().is_some());
    words.map(|index| inode.root_at(index as u64)).collect()
}

/// A sound image, what a user sees of it, and where its file `large` names a superpage.
fn sound() -> (Vec<u8>, Tree, u64) {
    let image = image();
    let memory = memory_of(&image);
    let before = seen_in(&memory);
    let fs = open(&memory, None).expect("it opens");
    let at = superpages(&fs, "large")[0];
    closed(fs);
    (image, before, at)
}

/// Where a superpage begins is known from its chunk: however the rest is damaged, nothing is lost.
#[test]
fn fd2_a_superpage_that_is_named_amid_its_chunk_is_kept() {
    let (image, before, at) = sound();
    for bits in (0..9).map(|bit| 1 << bit).chain([CHUNK_PAGES - 1, 5]) {
        let memory = memory_of(&image);
        memory.store_word(at, memory.load_word(at) ^ bits);
        assert!(mended(&memory) == before, "{bits}");
    }
}

/// The word says that it is of another kind: no kind of its chunk is right with that, and only that file loses
/// something.
#[test]
fn fd2_a_superpage_that_is_named_as_something_else_leaves_no_chunk_in_doubt() {
    let (image, before, at) = sound();
    for bit in 60..64 {
        let memory = memory_of(&image);
        memory.store_word(at, memory.load_word(at) ^ 1 << bit);
        let (mut before, mut after) = (before.clone(), mended(&memory));
        for tree in [&mut before, &mut after] {
            tree.remove(&b"/large"[..]).expect("there");
        }
        assert!(after == before, "{bit}");
    }
}

/// It belongs to another inode, which names it rightly.
#[test]
fn fj1_a_superpage_that_another_file_names_is_not_given_to_who_names_what_is_amid_it() {
    for (bad, good) in [("large", "later"), ("later", "large")] {
        let memory = memory_of(&image());
        let fs = open(&memory, None).expect("it opens");
        let later = fs.create_file(Ino::ROOT, b"later", &new(FileKind::File)).expect("made").ino;
        fs.write(later, 0, &vec![2; SUPER_THRESHOLD as usize + 5000]).expect("room");
        run_steps(&fs);
        let [at, of] = [bad, good].map(|name| superpages(&fs, name)[0]);
        closed(fs);
        let before = seen_in(&memory);
        memory.store_word(at, memory.load_word(of) ^ 5);
        let after = mended(&memory);
        let path = |name: &str| format!("/{name}").into_bytes();
        assert!(after[&path(good)] == before[&path(good)], "{bad}");
        assert!(after[&path(bad)].content[..CHUNK as usize].iter().all(|byte| *byte == 0), "{bad}");
    }
}

/// The word of a page of words is lost, and all that is named of the chunk that it names now is named in that page:
/// without it, nothing would be wrong if that chunk were free. All else that is wrong is mended with it.
#[test]
fn fd2_a_chunk_is_not_in_doubt_for_a_word_that_is_wrong_whatever_it_is_for() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let make = |name: &str, bytes: &[u8]| {
        let ino = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, bytes).expect("room");
        ino
    };
    let big = make("big", &vec![7; 2 << 20]);
    let big = fs.load(big).expect("there");
    make("small", b"small");
    let Ok(IndexEntry::Words { at, .. }) = index::walk(&fs, &big, 100) else { panic!("it has a page there") };
    let NamedBy::Page(page) = IndexWord(memory.load_word(at)).named() else { panic!("a page of content") };
    assert_eq!(fs.space.kind(page / CHUNK_PAGES), Some(ChunkKind::Data));
    let small = fs.load(fs.lookup(Ino::ROOT, b"small").expect("there").ino).expect("there");
    assert_ne!(
        small.roots[0].0 / CHUNK_PAGES,
        IndexWord::page(page).0 / CHUNK_PAGES,
        "all of that chunk is the file's"
    );
    closed(fs);
    let before = seen_in(&memory);
    let root = big.root_at(0);
    memory.store_word(root, IndexWord::node(page).0);
    memory.store_word(small.at, memory.load_word(small.at) ^ 6 << 32);
    let after = mended(&memory);
    assert!(after[&b"/small"[..]] == before[&b"/small"[..]]);
}
