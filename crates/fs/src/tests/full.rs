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

/// Pages that the first part of a write finds free, and the next one does not.
const FIRST_PART: u64 = 300;
/// Bytes that take several parts, and that are there once a large file is removed.
const SEVERAL: usize = (5 << 20) + 4321;

/// File systems with a file `f` of 5000 bytes, space for a first part, and a large file that was just removed.
fn each_amid_removal(look: fn(&FileSystem, Ino)) {
    let kinds = [
        (Model::MAPPED, None),
        (Model::MAPPED, Some(DataMode::Atomic)),
        (Model::FILE, Some(DataMode::Sync)),
        (Model::FILE, Some(DataMode::Posix)),
    ];
    for (model, data) in kinds {
        let fs = open(&new_memory(model, POOL_BYTES), data).expect("it opens");
        fill(&fs, &[7; 5000], FIRST_PART, |_, _| ());
        settle(&fs);
        assert!(fs.statfs().free_bytes < SEVERAL as u64);
        fs.unlink(Ino::ROOT, b"large").expect("it goes");
        assert!(fs.orphans.next_ready().is_some(), "it goes by steps");
        look(&fs, fs.lookup(Ino::ROOT, b"f").expect("there").ino);
        fs.flush().expect("durable");
        assert_sound(&fs);
    }
}

/// Also where the first part found space that was free before.
#[test]
fn fw5_a_write_has_what_a_removed_file_had_for_each_part() {
    each_amid_removal(|fs, ino| {
        let bytes: Vec<u8> = (0..SEVERAL).map(|at| (at / 4096) as u8).collect();
        assert_eq!(fs.write(ino, 5000, &bytes).expect("room"), SEVERAL);
        assert!(content(fs, ino).expect("it reads")[5000..] == bytes);
    });
}

#[test]
fn fw6_an_append_is_one_record_where_space_is_made_amid_it() {
    each_amid_removal(|fs, ino| {
        let bytes: Vec<u8> = (0..SEVERAL).map(|at| (at / 4096) as u8).collect();
        let seen = || fs.getattr(ino).expect("there").size;
        let is_whole = || assert!([5000, 5000 + SEVERAL as u64].contains(&seen()), "{} bytes", seen());
        beside(&[&is_whole], || assert_eq!(fs.append(ino, &bytes).expect("room"), (5000, SEVERAL)));
        assert_eq!(seen(), 5000 + SEVERAL as u64);
        assert!(content(fs, ino).expect("it reads")[5000..] == bytes);
    });
}

/// What was taken for it at first is part of what fits.
#[test]
fn fw6_an_append_that_fits_in_part_has_all_that_is_free() {
    each_full(&[7; 100], FIRST_PART, |fs, ino| {
        let (at, written) = fs.append(ino, &[7; 2 << 20]).expect("some of it fits");
        assert_eq!((at, (written as u64 + 100) % PAGE), (100, 0));
        assert!((FIRST_PART - 4..=FIRST_PART + 1).contains(&((written as u64 + 100) / PAGE)), "{written} bytes");
        assert_eq!(content(fs, ino).expect("it reads"), vec![7; written + 100]);
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
