//! FD1, FD2: contradictions that a repair could only guess about are reported, and left as they are. What is not damaged
//! can be read.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;
use ferrite_pool::Pool;
use ferrite_pool::layout::CHUNK_PAGES;

use super::damaged_media::image;
use super::repair::{checked, closed, repaired};
use super::support::*;
use crate::format::layout::ChunkKind;
use crate::format::word::{IndexWord, NamedBy};
use crate::{Error, FileSystem, FsOptions, Ino, Result};

/// Words of an inode: where they lie in it.
const MODE: u64 = 0;
const ROOT: u64 = 64;
const XATTRS: u64 = 152;

/// Damage: the path that may suffer from it, whether reading that fails, and words with their new values.
struct Damage {
    what: &'static str,
    path: &'static str,
    fails: bool,
    words: Vec<(u64, u64)>,
}

fn memory_of(image: &[u8]) -> Arc<LyingMemory> {
    let memory = LyingMemory::from_image(image, Model::MAPPED);
    memory.keep_trace(false);
    Arc::new(memory)
}

/// The inode that `path` names.
fn found(fs: &FileSystem, path: &[u8]) -> Result<Ino> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.try_fold(Ino::ROOT, |dir, name| Ok(fs.lookup(dir, name)?.ino))
}

/// Asserts that all of `before` except what lies at `path` is as it was for a reader of `memory`, and that `path` cannot
/// be read if it `fails`.
#[track_caller]
fn assert_readable(memory: &Arc<LyingMemory>, before: &Tree, damage: &Damage) {
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
    let fs = FileSystem::open(pool, NAME, FsOptions { read_only: true, ..options(None) }).expect("to be read");
    let is_hurt = |path: &[u8]| !damage.path.is_empty() && path.starts_with(damage.path.as_bytes());
    for (path, was) in before.iter().filter(|(path, _)| !is_hurt(path)) {
        let now = found(&fs, path).and_then(|ino| seen(&fs, ino));
        assert!(now.is_ok_and(|now| now == *was), "{}: {}", damage.what, String::from_utf8_lossy(path));
    }
    let now = found(&fs, damage.path.as_bytes()).and_then(|ino| {
        fs.readdir(ino, 0, &mut |_| true).or_else(|error| match error {
            Error::NotDirectory => seen(&fs, ino).map(drop),
            error => Err(error),
        })
    });
    assert_eq!(now.is_err(), damage.fails, "{}: {now:?}", damage.what);
    closed(fs);
}

/// Contradictions in a file system on `memory`, of each kind that there is.
fn damages(memory: &Arc<LyingMemory>) -> Vec<Damage> {
    let fs = open(memory, None).expect("it opens");
    let inode = |path: &str| fs.load(found(&fs, path.as_bytes()).expect("there")).expect("there");
    let (dir, big, large) = (inode("/dir"), inode("/big"), inode("/large"));
    let NamedBy::Node(node) = dir.roots[0].named() else { panic!("it has many names") };
    let node = fs.place(node).expect("there");
    let words = fs.load_words(node);
    let edge = words.iter().position(|word| *word != words[0]).expect("several pages");
    let lost: Vec<(u64, u64)> = (edge as u64 - 100..edge as u64).map(|index| (node + index * 8, 0)).collect();
    let NamedBy::Page(page) = IndexWord(words[0]).named() else { panic!("a page of names") };
    let leaf = fs.place(page).expect("there");
    let kind_at = |kind| {
        let all = (0..fs.space.chunks()).filter(|number| fs.space.kind(*number) == Some(kind));
        all.map(|number| fs.space.map.descriptor(number)).next().expect("there is one")
    };
    let (head, load) = (memory.load_word(big.at + MODE), |at| memory.load_word(at));
    let damage = |what, path, fails, words: &[(u64, u64)]| Damage { what, path, fails, words: words.to_vec() };
    let all = vec![
        damage("a chunk of names has another kind", "", false, &[(kind_at(ChunkKind::Index), 1)]),
        damage("a chunk of content has another kind", "", false, &[(kind_at(ChunkKind::Data), 2)]),
        damage("a superpage has another kind", "", false, &[(kind_at(ChunkKind::Super), 0)]),
        damage("a file is of no kind", "/big", true, &[(big.at, head | 0xf000)]),
        damage("a file is of another kind", "/big", true, &[(big.at, head ^ 0x2000)]),
        damage("a directory is of another kind", "/dir", true, &[(dir.at, load(dir.at) ^ 0xc000)]),
        damage("a file in use is free", "/big", true, &[(big.at, 0)]),
        damage("an index is lower", "/big", true, &[(big.at, head ^ 1 << 16)]),
        damage("an index is higher", "/big", true, &[(big.at, head ^ 2 << 16)]),
        damage("an index is too high", "/big", true, &[(big.at, head | 9 << 16)]),
        damage("two files have one index", "/big", false, &[(big.at + ROOT, load(large.at + ROOT + 8))]),
        damage("attributes are another's words", "/big", true, &[(big.at + XATTRS, load(dir.at + ROOT))]),
        damage("a page of names is in two places", "/dir", true, &[(node + 40, words[edge])]),
        damage("a page of names is of words", "/dir", true, &[(dir.at + ROOT, IndexWord::node(page).0)]),
        damage("words between two pages are lost", "/dir", true, &lost),
        damage("a page of names is nobody's", "", false, &[(leaf, 0), (leaf + 8, 0)]),
        damage("a page of names is another's", "", false, &[(leaf + 8, Ino::ROOT.0)]),
    ];
    closed(fs);
    all
}

#[test]
fn fd1_fd2_a_contradiction_is_reported_and_left_as_it_is_and_the_rest_can_be_read() {
    let image = image();
    let fs = open(&memory_of(&image), None).expect("it opens");
    let before = tree(&fs).expect("all of it reads");
    closed(fs);
    for damage in damages(&memory_of(&image)) {
        let (memory, what) = (memory_of(&image), damage.what);
        let was: Vec<u64> = damage.words.iter().map(|(at, _)| memory.load_word(*at)).collect();
        damage.words.iter().for_each(|(at, word)| memory.store_word(*at, *word));
        assert!(!checked(&memory).is_sound(), "{what}");
        let report = repaired(&memory);
        assert!(report.findings.iter().all(|finding| finding.repaired.is_none()), "{what}: {:#?}", report.findings);
        let advice = &report.findings.last().expect("damage").what;
        assert!(advice.contains("--read-only") && advice.contains("changes nothing"), "{what}: {advice}");
        assert_readable(&memory, &before, &damage);
        damage.words.iter().zip(was).for_each(|((at, word), was)| {
            assert_eq!(memory.load_word(*at), *word, "{what}");
            memory.store_word(*at, was);
        });
        assert!(checked(&memory).is_sound(), "{what}: {:#?}", checked(&memory).findings);
    }
}

/// Of the directory, another name and the inode itself, two agree.
#[test]
fn fd2_a_name_that_calls_an_inode_something_else_is_corrected_if_another_name_does_not() {
    let memory = memory_of(&image());
    let fs = open(&memory, None).expect("it opens");
    let big = fs.lookup(Ino::ROOT, b"big").expect("there").ino;
    fs.link(big, Ino::ROOT, b"also big").expect("room");
    let slot_at = name_hit(&fs, &fs.load(Ino::ROOT).expect("there"), b"big").entry.slot_at;
    closed(fs);
    let was = memory.load_word(slot_at);
    memory.store_word(slot_at, was ^ 3 << 56);
    assert!(!checked(&memory).is_sound() && repaired(&memory).is_sound());
    assert_eq!(memory.load_word(slot_at), was);
}

/// Where a superpage begins is known from its chunk: however the rest is damaged, nothing is lost.
#[test]
fn a_superpage_that_is_named_amid_its_chunk_is_kept() {
    let image = image();
    let fs = open(&memory_of(&image), None).expect("it opens");
    let large = fs.load(fs.lookup(Ino::ROOT, b"large").expect("there").ino).expect("there");
    let index = large.roots.iter().position(|word| word.superpage_named().is_some()).expect("there is one");
    closed(fs);
    for bits in (0..9).map(|bit| 1 << bit).chain([CHUNK_PAGES - 1, 5]) {
        let memory = memory_of(&image);
        let at = large.root_at(index as u64);
        memory.store_word(at, memory.load_word(at) ^ bits);
        assert!(!checked(&memory).is_sound() && repaired(&memory).is_sound(), "{bits}");
        assert_eq!(memory.load_word(at), large.roots[index].0, "{bits}");
    }
}
