//! Writes that there is not space enough for.

use ferrite_crash::Model;

use super::world::*;
use crate::{Allocate, DataMode, Error, FileSystem, Ino, Kind, Result};

const PAGE: u64 = 4096;
/// Pages that are left free.
const LEFT: u64 = 150;

fn file(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(Kind::File)).expect("made").ino
}

fn is_full<T>(done: &Result<T>) -> bool {
    matches!(done, Err(Error::NoSpace))
}

/// File systems with a file `f` of `bytes`, and space for `left` more pages, each with `look`.
fn each_full(bytes: &[u8], left: u64, look: fn(&FileSystem, Ino)) {
    let kinds = [(Model::MAPPED, None), (Model::FILE, Some(DataMode::Sync)), (Model::FILE, Some(DataMode::Posix))];
    for (model, data) in kinds {
        let fs = open(&new_memory(model, POOL_BYTES), data).expect("it opens");
        fill(&fs, bytes, left, look);
    }
}

fn fill(fs: &FileSystem, bytes: &[u8], left: u64, look: fn(&FileSystem, Ino)) {
    let (ino, large) = (file(fs, "f"), file(fs, "large"));
    fs.write(ino, 0, bytes).expect("room");
    let mut at = 0;
    while let Ok(written) = fs.write(large, at, &[1; 1 << 18]) {
        at += written as u64;
    }
    resize(fs, large, at / PAGE * PAGE - left * PAGE).expect("it is cut");
    fs.flush().expect("durable");
    look(fs, ino);
    fs.flush().expect("durable");
    assert_sound(fs);
}

/// What fits of it is written, and nothing is left then.
#[test]
fn fw5_a_write_is_as_long_as_what_is_free() {
    each_full(b"", LEFT, |fs, ino| {
        let written = fs.write(ino, 0, &[7; 1 << 20]).expect("some of it fits") as u64;
        assert!(written.is_multiple_of(PAGE) && (LEFT - 4..=LEFT).contains(&(written / PAGE)), "{written} bytes");
        assert!(is_full(&fs.write(ino, written, &[8; 1 << 20])) && is_full(&fs.write(ino, written, &[8; 1])));
        assert_eq!(content(fs, ino).expect("it reads"), vec![7; written as usize]);
    });
}

#[test]
fn fw5_an_append_is_as_long_as_what_is_free() {
    each_full(&[7; 100], LEFT, |fs, ino| {
        let (at, written) = fs.append(ino, &[7; 1 << 20]).expect("some of it fits");
        assert_eq!((at, (written as u64 + 100) % PAGE), (100, 0));
        assert!((LEFT - 4..=LEFT + 1).contains(&((written as u64 + 100) / PAGE)), "{written} bytes");
        assert!(is_full(&fs.append(ino, &[8; 1])));
        assert_eq!(content(fs, ino).expect("it reads"), vec![7; written + 100]);
    });
}

/// To the first page that is missing; where that is the first one, nothing.
#[test]
fn fw5_a_write_that_is_refused_changed_nothing() {
    each_full(&[7; 3 * PAGE as usize], 0, |fs, ino| {
        assert_eq!(fs.write(ino, 100, &[9; 1 << 20]).expect("some of it fits") as u64, 3 * PAGE - 100);
        let mut expected = vec![9; 3 * PAGE as usize];
        expected[..100].fill(7);
        assert_eq!(content(fs, ino).expect("it reads"), expected);
        let before = fs.getattr(ino).expect("there");
        assert!(is_full(&fs.write(ino, 3 * PAGE, &[8; 9000])) && is_full(&fs.write(ino, 9 * PAGE, &[8; 9000])));
        assert_eq!(fs.getattr(ino).expect("there"), before);
        assert_eq!(content(fs, ino).expect("it reads"), expected);
    });
}

/// Some of it would be half of it.
/// Zeros that there are not enough pages for take nothing of what is there, and no page that they were given before.
#[test]
fn zeros_that_there_is_no_space_for_change_nothing() {
    each_full(&[7; 10_000], LEFT, |fs, ino| {
        let (end, free) = (2 * LEFT * PAGE, fs.statfs().free_bytes);
        for how in [Allocate::Zero, Allocate::ZeroKeepSize] {
            assert!(is_full(&fs.allocate(ino, 100..end, how)));
            assert_eq!(content(fs, ino).expect("it reads"), [7; 10_000]);
            assert!(fs.statfs().free_bytes + 4 * PAGE >= free, "but what names pages");
        }
        fs.allocate(ino, 100..9000, Allocate::Zero).expect("it has its pages");
        let zeroed = [&[7; 100][..], &[0; 8900], &[7; 1000]].concat();
        assert_eq!(content(fs, ino).expect("it reads"), zeroed);
    });
}

#[test]
fn fw5_what_is_all_or_nothing_is_nothing() {
    for model in [Model::MAPPED, Model::FILE] {
        let fs = open(&new_memory(model, POOL_BYTES), Some(DataMode::Atomic)).expect("it opens");
        fill(&fs, &[7; 3 * PAGE as usize], LEFT, |fs, ino| {
            for at in [100, 3 * PAGE] {
                let refused = fs.write(ino, at, &vec![9; (1 << 20) - at as usize]);
                assert!(is_full(&refused), "{refused:?} at {at}");
            }
            assert_eq!(content(fs, ino).expect("it reads"), [7; 3 * PAGE as usize]);
        });
    }
}
