//! More inodes without a name than there are orphan words.

use ferrite_crash::Model;

use super::crash::{Case, explore_case, held, whole};
use super::support::*;
use crate::format::layout::{LAST_ORPHAN, ORPHANS, UNLISTED};
use crate::{FileKind, FileSystem, Ino};

/// `a` and `big` are held, and inodes without a name find no orphan word.
fn short(fs: &FileSystem) {
    held(fs);
    while fs.orphans.take(false).is_some() {}
}

fn unlink(fs: &FileSystem, name: &str) {
    fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes");
}

pub(super) static CASES: [Case; 3] = [
    whole("unlink held where words ran short", short, |fs| unlink(fs, "a")),
    whole("unlink large where words ran short", short, |fs| {
        unlink(fs, "big");
        fs.release(Ino(3), 1);
    }),
    whole(
        "release the last hold where words ran short",
        |fs| {
            short(fs);
            unlink(fs, "a");
        },
        |fs| fs.release(Ino(2), 1),
    ),
];

fn last_word(fs: &FileSystem) -> u64 {
    fs.memory().load_word(fs.space.map.orphan(LAST_ORPHAN))
}

#[test]
fn fo3_every_crash_where_words_ran_short_is_before_or_after_a_change() {
    for model in Model::ALL {
        for case in &CASES {
            println!("{}", case.name);
            explore_case(case, model, None, case.mixes).assert_clean();
        }
    }
}

/// A program that keeps so many files open does not keep others from removing and cutting theirs.
#[test]
fn fo3_others_files_go_however_many_are_open_without_a_name() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    held(&fs);
    for number in 0..ORPHANS + 10 {
        let name = format!("{number}");
        let ino = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino;
        fs.hold(ino).expect("it is there");
        fs.unlink(Ino::ROOT, name.as_bytes()).unwrap_or_else(|why| panic!("{number} are open without a name: {why}"));
    }
    unlink(&fs, "a");
    resize(&fs, fs.lookup(Ino::ROOT, b"big").expect("there").ino, 10).expect("it is cut");
    fs.rename((Ino::ROOT, b"b"), (Ino::ROOT, b"big"), crate::Rename::Replace).expect("it moves");
    run_steps(&fs);
    assert_sound(&fs);
    assert_eq!(last_word(&fs), UNLISTED);
    assert!(fs.statfs().inodes > ORPHANS);

    // As after a kill: no holds are left.
    drop(fs);
    let fs = open(&memory, None).expect("it opens");
    assert_sound(&fs);
    run_steps(&fs);
    assert_sound(&fs);
    let left = fs.statfs().inodes;
    assert!(left < 10, "{left} inodes are left of six");
    assert_eq!(last_word(&fs), UNLISTED, "not said to be none before somebody has looked");

    drop(fs);
    let fs = open(&memory, None).expect("it opens");
    assert_eq!(last_word(&fs), 0);
    assert_sound(&fs);
}
