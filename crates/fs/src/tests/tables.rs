//! What a repair does where the tables or the root directory are damaged: it loses nothing that it can keep.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;
use ferrite_pool::Pool;
use ferrite_pool::layout::CHUNK;

use super::damaged_media::image;
use super::repair::{checked, closed, place, repaired};
use super::support::*;
use crate::format::layout::BITMAP;
use crate::format::layout::{ChunkKind, is_in_use};
use crate::{FileKind, FileSystem, FsOptions, Ino};

fn memory_of(image: &[u8]) -> Arc<LyingMemory> {
    let memory = LyingMemory::from_image(image, Model::MAPPED);
    memory.keep_trace(false);
    Arc::new(memory)
}

/// All that a user sees of what is in `memory`, which is sound.
#[track_caller]
fn sound_tree(memory: &Arc<LyingMemory>) -> Tree {
    assert!(checked(memory).is_sound(), "{:#?}", checked(memory).findings);
    let fs = open(memory, None).expect("it opens");
    let tree = tree(&fs).expect("all of it reads");
    assert_sound(&fs);
    closed(fs);
    tree
}

/// The chunks of what is in `image`: word, descriptor and kind of each.
fn chunks(image: &[u8]) -> Vec<(u64, u64, ChunkKind)> {
    let fs = open(&memory_of(image), None).expect("it opens");
    let chunk =
        |number| Some((fs.space.map.chunk_word(number), fs.space.map.descriptor(number), fs.space.kind(number)?));
    (0..fs.space.chunks()).map_while(chunk).collect()
}

/// What is found when bits of words are damaged: of each where it lies and those that are flipped. Either a repair
/// puts all right, with every file as it was, or it says that it cannot: each word is as it was or as it is, nothing
/// else was put right, and with the words as they were all is there.
#[track_caller]
fn is_mended(image: &[u8], before: &Tree, flipped: &[(u64, u64)]) -> bool {
    let memory = memory_of(image);
    let flip = |(at, bits): &(u64, u64)| memory.store_word(*at, memory.load_word(*at) ^ bits);
    let words = || -> Vec<u64> { flipped.iter().map(|(at, _)| memory.load_word(*at)).collect() };
    let sound = words();
    flipped.iter().for_each(flip);
    let damaged = words();
    assert!(!checked(&memory).is_sound(), "{flipped:#x?}");
    let report = repaired(&memory);
    if !report.is_sound() {
        let mut back = 0;
        for (index, word) in words().into_iter().enumerate() {
            assert!(word == sound[index] || word == damaged[index], "{flipped:#x?}: {:#?}", report.findings);
            back += usize::from(word == sound[index]);
            memory.store_word(flipped[index].0, sound[index]);
        }
        let done = report.findings.iter().filter(|finding| finding.repaired.is_some()).count();
        assert!(done <= back, "{flipped:#x?}: {:#?}", report.findings);
    }
    assert!(sound_tree(&memory) == *before, "{flipped:#x?}: {:#?}", report.findings);
    report.is_sound()
}

#[test]
fn fd3_a_chunk_of_an_unknown_kind_is_what_all_its_names_need() {
    let image = image();
    let (chunks, before) = (chunks(&image), sound_tree(&memory_of(&image)));
    for kind in [ChunkKind::Data, ChunkKind::Index, ChunkKind::Inodes, ChunkKind::Super] {
        assert!(chunks.iter().any(|(.., other)| *other == kind), "there is one of kind {kind:?}");
    }
    for (number, (_, descriptor, kind)) in (0..).zip(chunks) {
        assert!(is_mended(&image, &before, &[(descriptor, 5 ^ kind as u64)]), "{kind:?}");
        assert!(number != 0 || is_mended(&image, &before, &[(descriptor, ChunkKind::Data as u64 ^ kind as u64)]));
    }
}

/// Bit 20 leads to no place of the file system, others maybe to another chunk's, which has as much right to it.
#[test]
fn fd3_the_chunk_without_a_place_has_the_place_that_is_left_or_nothing_is_touched() {
    let image = image();
    let (chunks, before) = (chunks(&image), sound_tree(&memory_of(&image)));
    let memory = memory_of(&image);
    for (word, descriptor, kind) in &chunks {
        for bit in [0, 1, 2, 20] {
            let is_mended = is_mended(&image, &before, &[(*word, 1 << bit)]);
            assert!(is_mended || bit < 20, "{kind:?}");
        }
        let is_used = is_in_use(&*memory, *descriptor);
        assert!(!is_used || is_mended(&image, &before, &[(*word, memory.load_word(*word))]), "{kind:?}");
    }
    let two = [(chunks[0].0, 1 << 20), (chunks[1].0, 1 << 20)];
    assert!(!is_mended(&image, &before, &two), "two chunks, and two places");
    let flipped = memory.load_word(chunks[0].0) ^ memory.load_word(chunks[1].0);
    assert!(!is_mended(&image, &before, &[(chunks[1].0, flipped)]), "two chunks in one place");
}

/// FC3: what no word names may be what the damaged one did. All else is there to be read.
#[test]
fn fc3_a_word_that_names_no_chunk_is_opened_to_be_read_only_and_nothing_is_given_away() {
    let image = image();
    let (chunks, before) = (chunks(&image), sound_tree(&memory_of(&image)));
    let mut damages: Vec<(u64, u64)> = chunks[1..].iter().map(|(word, ..)| (*word, 1 << 20)).collect();
    // What is none, with something in use.
    let memory = memory_of(&image);
    let used = chunks.iter().filter(|(_, descriptor, _)| is_in_use(&*memory, *descriptor));
    damages.extend(used.map(|(word, ..)| (*word, memory.load_word(*word))));
    assert!(damages.len() > chunks.len() + 2);
    for (word, flipped) in damages {
        let memory = memory_of(&image);
        let words = || -> Vec<u64> { chunks.iter().map(|(word, ..)| memory.load_word(*word)).collect() };
        memory.store_word(word, memory.load_word(word) ^ flipped);
        let damaged = words();
        let message = open(&memory, None).map(drop).expect_err("it is refused").to_string();
        assert!(message.contains("where a chunk lies") && message.contains("ferrite fs check"), "{message}");
        let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
        let fs = FileSystem::open(pool, NAME, FsOptions { read_only: true, ..options(None) }).expect("to be read");
        assert!(fs.load_directory(Ino::ROOT).is_ok());
        closed(fs);
        assert_eq!(words(), damaged);
        memory.store_word(word, memory.load_word(word) ^ flipped);
        assert!(sound_tree(&memory) == before);
    }
    let (word, descriptor, kind) = chunks[0];
    memory.store_word(word, 0);
    assert!(open(&memory, None).is_err());
    assert_eq!((memory.load_word(word), memory.load_word(descriptor)), (0, kind as u64));
}

/// Nothing names what it says is in use.
#[test]
fn fc3_a_chunk_that_is_none_and_in_use_is_free_again_where_nobody_names_it() {
    let memory = memory_of(&image());
    let before = sound_tree(&memory);
    let (descriptor, word) = {
        let fs = open(&memory, None).expect("it opens");
        let number = fs.space.absent().next().expect("there is room");
        let gone = fs.create_file(Ino::ROOT, b"gone", &new(FileKind::File)).expect("made").ino;
        fs.write(gone, 0, &vec![1; 3 * CHUNK as usize]).expect("room");
        fs.unlink(Ino::ROOT, b"gone").expect("it goes");
        run_steps(&fs);
        assert!(fs.space.kind(number).is_some());
        let found = (fs.space.map.descriptor(number), fs.space.map.chunk_word(number));
        closed(fs);
        found
    };
    memory.store_word(word, 0);
    memory.store_word(descriptor, ChunkKind::Data as u64);
    memory.store_word(descriptor + BITMAP, 5);
    assert!(open(&memory, None).is_err());
    assert!(repaired(&memory).is_sound());
    assert!(sound_tree(&memory).into_keys().eq(before.into_keys()));
}

/// How lines are damaged.
const DAMAGES: [fn(u64) -> u64; 3] = [|_| u64::MAX, |_| 0, |mode| mode ^ 0x2000];

#[test]
fn a_root_that_is_no_directory_is_one_again_with_its_names() {
    let image = image();
    let before = sound_tree(&memory_of(&image));
    let at = place(&memory_of(&image), Ino::ROOT.0);
    for damage in DAMAGES {
        let memory = memory_of(&image);
        let last = if damage(1) == 1 ^ 0x2000 { at } else { at + 56 };
        (at..=last).step_by(8).for_each(|at| memory.store_word(at, damage(memory.load_word(at))));
        assert!(checked(&memory).findings.iter().any(|finding| finding.what.contains("inode 1 is the root")));
        let report = repaired(&memory);
        assert!(report.is_sound(), "{:#?}", report.findings);
        let mut after = sound_tree(&memory);
        let root = after.get_mut(&b""[..]).expect("there is a root");
        assert!(matches!(root.mode, 0o700 | 0o755), "{:o}", root.mode);
        root.mode = before[&b""[..]].mode;
        assert!(after == before);
    }
}

#[test]
fn a_root_whose_names_are_gone_too_loses_no_file() {
    let memory = memory_of(&image());
    let (at, before) = {
        let fs = open(&memory, None).expect("it opens");
        let outer = fs.create_file(Ino::ROOT, b"outer", &new(FileKind::Directory)).expect("made").ino;
        let inner = fs.create_file(outer, b"inner", &new(FileKind::Directory)).expect("made").ino;
        let file = fs.create_file(inner, b"file", &new(FileKind::File)).expect("made").ino;
        fs.write(file, 0, b"deep").expect("room");
        closed(fs);
        (place(&memory, Ino::ROOT.0), sound_tree(&memory))
    };
    let image = memory.snapshot();
    for damage in &DAMAGES[..2] {
        let memory = memory_of(&image);
        (at..at + 192).step_by(8).for_each(|at| memory.store_word(at, damage(memory.load_word(at))));
        let report = repaired(&memory);
        assert!(report.is_sound(), "{:#?}", report.findings);
        let after = sound_tree(&memory);
        let files = |tree: &Tree| {
            let all = tree.values().filter(|seen| seen.kind != FileKind::Directory);
            let mut all: Vec<_> = all.map(|seen| (seen.content.clone(), seen.xattrs.clone())).collect();
            all.sort();
            all
        };
        assert!(files(&after) == files(&before));
        assert!(after.keys().any(|path| path.starts_with(b"/lost+found/#") && path.ends_with(b"/inner/file")));
    }
}
