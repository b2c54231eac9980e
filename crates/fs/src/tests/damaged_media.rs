//! What a damaged medium says: every operation ends, with an error or without, and none panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;

use super::repair::{closed, damaged, filled, metadata_words, place};
use super::support::*;
use crate::format::inode::ROOTS_AT;
use crate::format::leaf::{HEAP, SLOTS, SLOTS_AT};
use crate::format::word::{IndexWord, NamedBy};
use crate::{Allocate, Error, FileKind, FileSystem, Ino, Rename, Result, SetXattr};

/// A little of everything with all that is there; what fails is nothing to us.
fn use_all(fs: &FileSystem) {
    let mut known = vec![Ino::ROOT];
    let mut names = Vec::new();
    let mut next = 0;
    while let Some(dir) = known.get(next).copied().filter(|_| known.len() < 400) {
        next += 1;
        let _ = fs.readdir(dir, 0, &mut |entry| {
            names.push((dir, entry.name.to_vec(), entry.ino));
            if !known.contains(&entry.ino) {
                known.push(entry.ino);
            }
            known.len() < 400
        });
        let _ = fs.list(dir, 0, 50);
    }
    let _ = fs.statfs();
    for ino in &known {
        let _ = fs.hold(*ino);
        let mut bytes = [0; 9000];
        let _ = (fs.getattr(*ino), fs.read(*ino, 3000, &mut bytes), fs.readlink(*ino), fs.xattrs(*ino));
        fs.release(*ino, 1);
    }
    let made = fs.create_file(Ino::ROOT, b"sub", &new(FileKind::Directory)).map_or(Ino::ROOT, |attr| attr.ino);
    for (number, (dir, name, ino)) in names.iter().enumerate() {
        match number % 8 {
            0 => drop(fs.write(*ino, 10_000, &[7; 9000])),
            1 => drop(fs.append(*ino, &[8; 5000])),
            2 => drop(resize(fs, *ino, number as u64 * 100)),
            3 => drop(fs.rename((*dir, name), (made, name), Rename::Replace)),
            4 => drop(fs.link(*ino, *dir, b"another name")),
            5 => drop(fs.set_xattr(*ino, b"user.b", &[1; 5000], SetXattr::Any)),
            6 => drop(fs.allocate(*ino, 0..20_000, [Allocate::Punch, Allocate::Grow, Allocate::Zero][number % 3])),
            _ => drop(fs.rename((*dir, name), (made, b"sub"), Rename::Exchange)),
        }
    }
    for number in 0..40 {
        let _ = fs.create_file(made, format!("a new name {number}").as_bytes(), &new(FileKind::File));
        let _ = fs.create_file(Ino(2), format!("a new name {number}").as_bytes(), &new(FileKind::File));
    }
    let _ = fs.flush();
    for (dir, name, ino) in names.iter().rev() {
        let _ = (fs.unlink(*dir, name), fs.rmdir(*dir, name), fs.remove_xattr(*ino, b"user.b"));
    }
    (0..50).for_each(|_| drop(fs.step()));
    let _ = fs.statfs();
}

/// Of a file system with a little of everything, a superpage too.
pub fn image() -> Vec<u8> {
    let memory = filled();
    let fs = open(&memory, None).expect("it opens");
    let large = make(&fs, Ino::ROOT, b"large", FileKind::File);
    fs.write(large, 0, &vec![1; SUPER_THRESHOLD as usize + 5000]).expect("room");
    run_steps(&fs);
    assert!(fs.statfs().super_bytes > 0);
    closed(fs);
    memory.snapshot()
}

#[test]
fn whatever_is_damaged_every_operation_ends_without_a_panic() {
    let image = image();
    let (seed, rounds) = (ferrite_crash::seed(), ferrite_crash::rounds(60));
    let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
    let (inodes, words) = (place(&memory, 0), metadata_words(&memory));
    let mut panicked = Vec::<u64>::new();
    for round in 0..rounds {
        let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
        memory.keep_trace(false);
        for number in 0..=round % 4 {
            let random = crate::format::leaf::name_hash(seed, &(round * 8 + number).to_le_bytes());
            let at = match random % 3 {
                0 => inodes + random / 3 % (20 * 32) * 8,
                1 => inodes + random / 3 % (160 * 32) * 8,
                _ => words[(random / 3) as usize % words.len()],
            };
            let other = words[(random / 7) as usize % words.len()];
            let word =
                if random >> 40 & 1 == 0 { memory.load_word(other) } else { damaged(memory.load_word(at), random) };
            memory.store_word(at, word);
        }
        let used = catch_unwind(AssertUnwindSafe(|| open(&memory, None).map(|fs| use_all(&fs))));
        panicked.extend(used.is_err().then_some(round));
    }
    assert!(panicked.is_empty(), "rounds {panicked:?} panicked");
}

/// A file system with a directory of one file, another one that is empty, and a file of a few pages.
fn small() -> (Arc<FileSystem>, [Ino; 3]) {
    let fs = new_fs();
    let [full, empty] = [&b"full"[..], b"empty"].map(|name| make(&fs, Ino::ROOT, name, FileKind::Directory));
    make(&fs, full, b"a", FileKind::File);
    let file = make(&fs, Ino::ROOT, b"file", FileKind::File);
    fs.write(file, 0, &[1; 40_000]).expect("room");
    (fs, [full, empty, file])
}

fn make(fs: &FileSystem, dir: Ino, name: &[u8], kind: FileKind) -> Ino {
    fs.create_file(dir, name, &new(kind)).expect("made").ino
}

/// Lets word `index` of inode `ino` be `word`.
fn set(fs: &FileSystem, ino: Ino, index: u64, word: u64) {
    fs.memory().store_word(fs.space.inode_place(ino.0).expect("there") + index * 8, word);
}

/// The page of names of directory `dir`, which has one alone.
fn page_of_names(fs: &FileSystem, dir: Ino) -> u64 {
    match fs.load(dir).expect("there").roots[0].named() {
        NamedBy::Page(page) => page,
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
    assert!(is_corrupt(fs.create_file(full, b"b", &new(FileKind::File))));
    assert!(fs.create_file(Ino::ROOT, b"b", &new(FileKind::File)).is_ok(), "nothing else is the worse for it");
}

#[test]
fn a_tree_of_names_that_lies_in_itself_is_damage_and_ends_nobody() {
    let (fs, [full, empty, _]) = small();
    let page = page_of_names(&fs, full);
    let at = fs.place(page).expect("there");
    (0..512).for_each(|index| fs.memory().store_word(at + index * 8, 0));
    fs.memory().store_word(at + 5 * 8, IndexWord::node(page).0);
    set(&fs, empty, 8, IndexWord::node(page).0);
    assert!(is_corrupt(fs.rmdir(Ino::ROOT, b"empty")));
}

/// Rings of one to five directories; who would be moved lies beside them.
#[test]
fn directories_that_lie_in_one_another_are_damage_and_hold_nobody_up() {
    const PARENT: u64 = 17;
    for count in 1..=5 {
        let (fs, [moved, ..]) = small();
        let ring: Vec<Ino> = (0..count).map(|n| make(&fs, Ino::ROOT, &[b'0' + n], FileKind::Directory)).collect();
        ring.iter().zip(ring.iter().cycle().skip(1)).for_each(|(dir, above)| set(&fs, *dir, PARENT, above.0));
        let tail = make(&fs, ring[0], b"tail", FileKind::Directory);
        for into in [ring[0], tail] {
            assert!(is_corrupt(fs.rename((Ino::ROOT, b"full"), (into, b"x"), Rename::Replace)), "{count}");
        }
        assert_eq!(fs.lookup(Ino::ROOT, b"full").expect("it stays").ino, moved);
    }
}

/// Neither is what its number would be elsewhere in the tables touched.
#[test]
fn what_is_to_be_freed_and_is_not_there_is_damage() {
    for word in [IndexWord::page(1 << 40), IndexWord::superpage(1 << 40), IndexWord::page(3), IndexWord::superpage(512)]
    {
        let (fs, [_, _, file]) = small();
        let NamedBy::Node(node) = fs.load(file).expect("there").roots[0].named() else { panic!("it has an index") };
        fs.memory().store_word(fs.place(node).expect("there") + 8, word.0);
        assert!(is_corrupt(fs.unlink(Ino::ROOT, b"file")), "{word:?}");
        assert!(fs.create_file(Ino::ROOT, b"b", &new(FileKind::File)).is_ok());
    }
    for number in [9000, u32::MAX] {
        let (fs, [_, _, file]) = small();
        set(&fs, file, 6, u64::from(number) << 32);
        assert!(is_corrupt(fs.unlink(Ino::ROOT, b"file")), "{number}");
    }
}

/// It would reach over what lies behind it.
#[test]
fn a_superpage_that_begins_amid_a_chunk_is_damage() {
    let (fs, [_, _, file]) = small();
    set(&fs, file, 8, IndexWord::superpage(1023).0);
    assert!(is_corrupt(fs.read(file, 0, &mut [0; 9000])));
    assert!(is_corrupt(fs.write(file, 0, &[1; 9000])));
}

#[test]
fn an_index_that_is_too_high_is_damage_whatever_is_done() {
    let (fs, [_, _, file]) = small();
    let head = fs.memory().load_word(fs.space.inode_place(file.0).expect("there"));
    set(&fs, file, 0, head & !(0xff << 16) | 200 << 16);
    assert!(is_corrupt(fs.read(file, 0, &mut [0; 9000])));
    assert!(is_corrupt(fs.unlink(Ino::ROOT, b"file")));
}

/// What cannot be freed takes no other's space with it.
#[test]
fn a_damaged_file_that_was_removed_keeps_no_other_from_going() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let inos = [&b"damaged"[..], b"sound"].map(|name| {
        let ino = fs.create_file(Ino::ROOT, name, &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, &[7; 100_000]).expect("room");
        fs.hold(ino).expect("there");
        fs.unlink(Ino::ROOT, name).expect("held");
        ino
    });
    let at = fs.load(inos[0]).expect("there").at + ROOTS_AT;
    memory.store_word(at, memory.load_word(at) | 0xff_ffff << 12);
    inos.iter().for_each(|ino| fs.release(*ino, 1));
    assert!((0..20).any(|_| fs.step().is_err()), "one is told of");
    for _ in 0..20 {
        let _ = fs.step();
    }
    assert!(fs.load(inos[0]).is_ok() && fs.load(inos[1]).is_err());
}
