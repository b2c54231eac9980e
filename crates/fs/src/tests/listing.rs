//! Listings of directories that change in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::support::*;
use super::{Bug, plant};
use crate::format::leaf::LeafEntry;
use crate::tree::directory;
use crate::{Error, FileKind, FileSystem, Ino};

fn make(fs: &FileSystem, dir: Ino, name: &str) {
    fs.create_file(dir, name.as_bytes(), &new(FileKind::File)).expect("room");
}

/// Up to 40 names behind `cookie`, which moves to the last of them.
fn some(fs: &FileSystem, dir: Ino, cookie: &mut u64) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    fs.readdir(dir, *cookie, &mut |entry| {
        if names.len() < 40 {
            *cookie = entry.cookie;
            names.push(entry.name.to_vec());
        }
        names.len() < 40
    })
    .expect("it lists");
    names
}

/// Pages of names are split, emptied and freed between two looks. FN3: each look reports the size.
#[test]
fn fn2_fn3_what_stays_is_listed_once_and_counted_while_others_come_and_go() {
    let fs = new_fs();
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
    (0..600).for_each(|i| make(&fs, dir, &format!("stays {i}")));
    (0..600).for_each(|i| make(&fs, dir, &format!("goes {i}")));
    let (mut cookie, mut seen, mut entries, mut round) = (0, BTreeSet::new(), 1200, 0);
    loop {
        let names = some(&fs, dir, &mut cookie);
        if names.is_empty() {
            break;
        }
        let again = names.into_iter().find(|name| !seen.insert(name.clone()));
        assert_eq!(again, None, "FN2: listed twice");
        for i in round * 20..(round + 1) * 20 {
            let gone = fs.unlink(dir, format!("goes {i}").as_bytes()).is_ok();
            (0..3).for_each(|more| make(&fs, dir, &format!("comes {i} {more}")));
            entries += 3 - u64::from(gone);
        }
        assert_eq!(fs.getattr(dir).expect("there").size, entries * 32, "FN3");
        round += 1;
    }
    assert!(round > 20, "it was changed between many looks");
    assert!((0..600).all(|i| seen.contains(format!("stays {i}").as_bytes())), "FN2: missed");
    assert_eq!(fs.list(dir, 0, usize::MAX).expect("it lists").len() as u64, entries, "FN3");
    assert_sound(&fs);
}

/// A directory of several pages of names, and its entries in order.
fn several() -> (Arc<FileSystem>, Ino, Vec<LeafEntry>) {
    let fs = new_fs();
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
    (0..300).for_each(|i| make(&fs, dir, &format!("a file of number {i}")));
    let mut entries = Vec::new();
    let inode = fs.load(dir).expect("there");
    directory::each_name(&fs, &inode, 0, &mut |entry, _| {
        entries.push(*entry);
        true
    })
    .expect("it lists");
    (fs, dir, entries)
}

/// How many are listed by `count` at a time, each once, until nothing more comes, and of how many of them nothing is
/// known; and whether it ends with an error.
fn all_listed_by(fs: &FileSystem, dir: Ino, count: usize) -> (usize, usize, bool) {
    let (mut seen, mut unknown, mut cookie) = (BTreeSet::new(), 0, 0);
    loop {
        match fs.list(dir, cookie, count) {
            Ok(listed) if listed.is_empty() => return (seen.len(), unknown, false),
            Ok(listed) => {
                cookie = listed.last().expect("some").cookie;
                unknown += listed.iter().filter(|entry| entry.attr.is_none()).count();
                assert!(listed.into_iter().all(|entry| seen.insert(entry.name)), "FN2: listed twice");
            }
            Err(why) => {
                assert!(matches!(why, Error::Corrupt { .. }), "{why}");
                return (seen.len(), unknown, true);
            }
        }
    }
}

/// The same where all of each is known.
fn listed_by(fs: &FileSystem, dir: Ino, count: usize) -> (usize, bool) {
    let (all, unknown, is_damaged) = all_listed_by(fs, dir, count);
    assert_eq!(unknown, 0);
    (all, is_damaged)
}

/// Where the inode is free, of a kind that is none, or has a number that none has: who copies a directory takes all
/// else.
#[test]
fn fn2_fn4_names_whose_inodes_are_damaged_are_listed_with_nothing_known() {
    let (fs, dir, entries) = several();
    let head = |entry: &LeafEntry| fs.space.inode_place(entry.ino.0).expect("there");
    let damages: [(bool, Damage); 3] = [(true, |_| 0), (true, |word| word | 0xf000), (false, |word| word ^ 1 << 40)];
    for (is_of_inode, change) in damages {
        for which in [0..1, 100..180, 180..300] {
            let at = |entry: &LeafEntry| if is_of_inode { head(entry) } else { entry.at() + 8 };
            assert_eq!(listed_by(&fs, dir, 40), (300, false), "before, or once it is mended");
            let words: Vec<u64> = entries.iter().map(|entry| fs.memory().load_word(at(entry))).collect();
            for index in which.clone() {
                fs.memory().store_word(at(&entries[index]), change(words[index]));
            }
            for count in [1, 40, 80, 1000] {
                assert_eq!(all_listed_by(&fs, dir, count), (300, which.len(), false), "{which:?} by {count}");
            }
            fs.readdir(dir, entries[290].position, &mut |_| true).expect("the names are sound");
            entries.iter().zip(words).for_each(|(entry, word)| fs.memory().store_word(at(entry), word));
        }
    }
}

/// What is removed between the look at the names and that at what they lead to is no damage.
#[test]
fn fn4_names_that_are_removed_amid_a_listing_are_not_told_as_damaged() {
    let fs = new_fs();
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
    let change = || {
        (0..40).for_each(|i| make(&fs, dir, &format!("{i}")));
        (0..40).for_each(|i| fs.unlink(dir, format!("{i}").as_bytes()).expect("there"));
    };
    beside(&[&change], || (0..2000).for_each(|_| assert!(!listed_by(&fs, dir, 1000).1)));
}

/// What becomes of a word.
type Damage = fn(u64) -> u64;

/// The position, as whose upper bits or lower ones would send a listing elsewhere, the name, and the slot.
#[test]
fn fn4_what_is_damaged_is_left_out_and_told_in_the_end_however_it_is_asked() {
    const SLASH: u64 = b'/' as u64;
    let damages: [(&str, u64, Damage); 7] = [
        ("behind all", 0, |_| u64::MAX >> 1),
        ("before all", 0, |_| 3),
        ("in another page", 0, |word| word ^ 1 << 62),
        ("of another hash", 0, |word| word ^ 1 << 30),
        ("a slash", 16, |word| word & !0xff00 | SLASH << 8),
        ("nothing", 16, |word| word & !0xff),
        ("a slot", u64::MAX, |word| word | 0xffff << 32),
    ];
    let (fs, dir, entries) = several();
    for (what, offset, change) in damages {
        for which in [0, 1, 127, 150, 299] {
            let entry = &entries[which];
            let at = if offset == u64::MAX { entry.slot_at } else { entry.at() + offset };
            assert_eq!(listed_by(&fs, dir, 40), (300, false), "before, or once it is mended");
            let word = fs.memory().load_word(at);
            fs.memory().store_word(at, change(word));
            for count in [1, 40, 128, 1000] {
                assert_eq!(listed_by(&fs, dir, count), (299, true), "{what}, {which}, by {count}");
            }
            fs.memory().store_word(at, word);
        }
    }
}

#[test]
fn canary_a_listing_that_forgets_what_was_damaged_is_found() {
    let (fs, dir, entries) = several();
    fs.memory().store_word(entries[0].at(), 3);
    plant(Some(Bug::ForgottenDamage));
    let listed = listed_by(&fs, dir, 40);
    plant(None);
    assert_ne!(listed, (299, true), "FN4");
}

#[test]
fn fn4_a_name_has_no_zero_and_no_slash_wherever() {
    let fs = new_fs();
    for len in 1..=40 {
        for byte in [1, b'.', b'0', 0x7f, 0x80, 0xaf, 0xff] {
            let mut name = vec![byte; len];
            assert!(directory::hash_name(&fs, &name).is_ok(), "{name:?}");
            for at in 0..len {
                for wrong in [0, b'/'] {
                    name[at] = wrong;
                    assert!(directory::hash_name(&fs, &name).is_err(), "{name:?}");
                }
                name[at] = byte;
            }
        }
    }
}
