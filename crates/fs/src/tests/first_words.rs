//! Inodes whose first word is damaged: their content and their names show their kind and height.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;

use super::repair::{checked, repaired};
use super::support::*;
use super::{damaged_media, repair};
use crate::{FileKind, Ino, SetXattr};

/// An image with a file system, and files of all kinds: their paths, and where their inodes lie.
fn image() -> (Vec<u8>, Vec<(&'static str, u64)>) {
    let memory = Arc::new(LyingMemory::from_image(&damaged_media::image(), Model::MAPPED));
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let make = |dir, name: &str, kind| fs.create_file(dir, name.as_bytes(), &new(kind)).expect("made").ino;
    make(Ino::ROOT, "empty", FileKind::Directory);
    let sub = make(Ino::ROOT, "sub", FileKind::Directory);
    let inner = make(sub, "inner", FileKind::Directory);
    let file = make(inner, "file", FileKind::File);
    fs.write(file, 0, b"bytes").expect("room");
    let sparse = make(Ino::ROOT, "sparse", FileKind::File);
    fs.write(sparse, 1 << 32, b"far").expect("room");
    fs.set_xattr(sparse, b"user.a", b"value", SetXattr::Any).expect("room");
    fs.link(sparse, sub, b"again").expect("room");
    fs.symlink(Ino::ROOT, b"short", b"to where", ME).expect("made");
    make(Ino::ROOT, "fifo", FileKind::Fifo);
    run_steps(&fs);
    let place = |ino| fs.load(ino).expect("there").at;
    let names = ["dir", "big", "large", "sub", "sparse", "short", "link", "empty"];
    let named = names.map(|name| (name, place(fs.lookup(Ino::ROOT, name.as_bytes()).expect("there").ino)));
    let all = named.into_iter().chain([("sub/inner", place(inner)), ("sub/inner/file", place(file))]).collect();
    repair::closed(fs);
    (memory.snapshot(), all)
}

fn memory_of(image: &[u8]) -> Arc<LyingMemory> {
    let memory = LyingMemory::from_image(image, Model::MAPPED);
    memory.keep_trace(false);
    Arc::new(memory)
}

fn seen_in(memory: &Arc<LyingMemory>) -> Tree {
    let fs = open(memory, None).expect("it opens");
    let tree = tree(&fs).expect("all of it reads");
    assert_sound(&fs);
    repair::closed(fs);
    tree
}

/// All that is seen after words are damaged so and repaired.
#[track_caller]
fn mended(image: &[u8], all: &[u64], damage: impl Fn(u64) -> u64) -> Tree {
    let memory = memory_of(image);
    all.iter().for_each(|at| memory.store_word(*at, damage(memory.load_word(*at))));
    assert!(!checked(&memory).is_sound());
    let report = repaired(&memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    seen_in(&memory)
}

#[test]
fn a_damaged_kind_is_what_all_names_call_it_if_that_fits() {
    let (image, all) = image();
    let before = seen_in(&memory_of(&image));
    for (name, at) in all {
        // A link with its target in a page is as good a file.
        for bit in (12..16).filter(|bit| name != "link" || *bit != 13) {
            assert!(mended(&image, &[at], |word| word ^ 1 << bit) == before, "{name} {bit}");
        }
    }
}

/// What a directory calls the next one is seen when it is itself restored.
#[test]
fn damaged_kinds_of_directories_in_each_other_are_restored() {
    let (image, all) = image();
    let before = seen_in(&memory_of(&image));
    let places: Vec<u64> = all.iter().filter(|(name, _)| name.starts_with("sub")).map(|(_, at)| *at).collect();
    assert_eq!(places.len(), 3);
    assert!(mended(&image, &places, |word| word ^ 1 << 13) == before);
}

#[test]
fn a_damaged_height_is_the_one_that_fits() {
    let (image, all) = image();
    let before = seen_in(&memory_of(&image));
    for (name, at) in all.into_iter().filter(|(name, _)| ["big", "large", "sparse"].contains(name)) {
        for bit in 16..24 {
            assert!(mended(&image, &[at], |word| word ^ 1 << bit) == before, "{name} {bit}");
        }
        assert!(mended(&image, &[at], |word| word ^ 0x31000) == before, "{name}");
    }
}

/// A free inode names nothing: one that does has lost its first word. Only root may have access to it then.
#[test]
fn what_is_free_with_names_and_content_is_what_it_was_and_roots_alone() {
    let (image, all) = image();
    let before = seen_in(&memory_of(&image));
    for (name, at) in all {
        let mut after = mended(&image, &[at], |_| 0);
        let path = format!("/{name}").into_bytes();
        for path in [path, b"/sub/again".to_vec()] {
            let seen = after.get_mut(&path).expect("there");
            let is_mended = seen.mode == 0o600 || seen.mode == 0o700 && seen.kind == FileKind::Directory;
            assert!(is_mended || seen.mode == before[&path].mode, "{name}: {:o}", seen.mode);
            seen.mode = before[&path].mode;
        }
        assert!(after == before, "{name}");
    }
}
