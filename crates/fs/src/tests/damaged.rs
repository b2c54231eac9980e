//! What a damaged medium says: every operation ends, with an error or without, and none panics.

use std::sync::Arc;

use super::world::*;
use crate::leaf::{HEAP, SLOTS, SLOTS_AT};
use crate::word::{Named, Word};
use crate::{Error, FileSystem, Ino, Kind, Rename, Result};

/// A file system with a directory of one file, another one that is empty, and a file of a few pages.
fn small() -> (Arc<FileSystem>, [Ino; 3]) {
    let fs = new_fs();
    let [full, empty] = [&b"full"[..], b"empty"].map(|name| make(&fs, Ino::ROOT, name, Kind::Directory));
    make(&fs, full, b"a", Kind::File);
    let file = make(&fs, Ino::ROOT, b"file", Kind::File);
    fs.write(file, 0, &[1; 40_000]).expect("room");
    (fs, [full, empty, file])
}

fn make(fs: &FileSystem, dir: Ino, name: &[u8], kind: Kind) -> Ino {
    fs.create_file(dir, name, &new(kind)).expect("made").ino
}

/// Lets word `index` of inode `ino` be `word`.
fn set(fs: &FileSystem, ino: Ino, index: u64, word: u64) {
    fs.memory().store_word(fs.space.inode_place(ino.0).expect("there") + index * 8, word);
}

/// The page of names of directory `dir`, which has one alone.
fn page_of_names(fs: &FileSystem, dir: Ino) -> u64 {
    match fs.load(dir).expect("there").roots[0].named() {
        Named::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

fn is_corrupt<T>(done: Result<T>) -> bool {
    matches!(done, Err(Error::Corrupt { .. }))
}

/// All entries lie in one place, with a name each that no two pages have room for.
#[test]
fn names_that_lie_over_one_another_are_damage_and_not_split() {
    let (fs, [full, ..]) = small();
    let at = fs.place(page_of_names(&fs, full)).expect("there");
    let slot = (HEAP / 8) << 32 | 255 << 48 | 1 << 56;
    (0..SLOTS as u64).for_each(|index| fs.memory().store_word(at + SLOTS_AT + index * 8, slot));
    fs.memory().store_word(at + HEAP, u64::MAX);
    assert!(is_corrupt(fs.create_file(full, b"b", &new(Kind::File))));
    assert!(fs.create_file(Ino::ROOT, b"b", &new(Kind::File)).is_ok(), "nothing else is the worse for it");
}

#[test]
fn a_tree_of_names_that_lies_in_itself_is_damage_and_ends_nobody() {
    let (fs, [full, empty, _]) = small();
    let page = page_of_names(&fs, full);
    let at = fs.place(page).expect("there");
    (0..512).for_each(|index| fs.memory().store_word(at + index * 8, 0));
    fs.memory().store_word(at + 5 * 8, Word::node(page).0);
    set(&fs, empty, 8, Word::node(page).0);
    assert!(is_corrupt(fs.rmdir(Ino::ROOT, b"empty")));
}

/// Rings of one to five directories; who would be moved lies beside them.
#[test]
fn directories_that_lie_in_one_another_are_damage_and_hold_nobody_up() {
    const PARENT: u64 = 17;
    for count in 1..=5 {
        let (fs, [moved, ..]) = small();
        let ring: Vec<Ino> = (0..count).map(|n| make(&fs, Ino::ROOT, &[b'0' + n], Kind::Directory)).collect();
        ring.iter().zip(ring.iter().cycle().skip(1)).for_each(|(dir, above)| set(&fs, *dir, PARENT, above.0));
        let tail = make(&fs, ring[0], b"tail", Kind::Directory);
        for into in [ring[0], tail] {
            assert!(is_corrupt(fs.rename((Ino::ROOT, b"full"), (into, b"x"), Rename::Replace)), "{count}");
        }
        assert_eq!(fs.lookup(Ino::ROOT, b"full").expect("it stays").ino, moved);
    }
}
