//! Damage that is found, told, and put right where that has one right answer.

use std::sync::Arc;

use ferrite_crash::{ExploreOptions, LyingMemory, Model, explore};
use ferrite_memory::Memory;
use ferrite_pool::check::{self, PoolCheckReport, TagOwners};
use ferrite_pool::layout::CHUNK;

use super::support::*;
use super::{Bug, plant};
use crate::check::FilesOwner;
use crate::file::index::{self, IndexEntry};
use crate::format::layout::ChunkKind;
use crate::format::leaf::name_hash;
use crate::{FileKind, FileSystem, Ino, SetXattr};

pub fn owners() -> TagOwners {
    let mut owners = TagOwners::default();
    owners.register(Box::new(FilesOwner));
    owners
}

/// A memory with a few files, closed; and where inodes and the first page of names lie.
pub fn filled() -> Arc<LyingMemory> {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(FileKind::Directory)).expect("made").ino;
    for i in 0..150 {
        let ino = fs.create_file(dir, format!("file {i}").as_bytes(), &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, &vec![i as u8; i * 400]).expect("room");
    }
    let big = fs.create_file(Ino::ROOT, b"big", &new(FileKind::File)).expect("made").ino;
    fs.write(big, 0, &vec![1; 300_000]).expect("room");
    fs.set_xattr(big, b"user.a", b"value", SetXattr::Any).expect("room");
    fs.symlink(Ino::ROOT, b"link", &[b't'; 300], ME).expect("made");
    fs.unlink(dir, b"file 9").expect("it goes");
    closed(fs);
    memory
}

pub fn closed(fs: Arc<FileSystem>) {
    let pool = fs.pool().clone();
    drop(fs);
    Arc::into_inner(pool).expect("nobody else has it").close().expect("it closes");
}

pub fn repaired(memory: &Arc<LyingMemory>) -> PoolCheckReport {
    let memory: Arc<dyn Memory> = memory.clone();
    check::repair(&memory, &owners(), &[], &mut |_| ()).expect("the medium works")
}

pub fn checked(memory: &Arc<LyingMemory>) -> PoolCheckReport {
    let memory: Arc<dyn Memory> = memory.clone();
    check::check(&memory, &owners(), &mut |_| ())
}

/// Where inode `ino`, of the first chunk, lies.
pub fn place(memory: &Arc<LyingMemory>, ino: u64) -> u64 {
    let fs = open(memory, None).expect("it opens");
    let place = fs.space.inode_place(ino).expect("it is there");
    closed(fs);
    place
}

#[test]
fn a_sound_file_system_is_found_sound_and_left_alone() {
    let memory = filled();
    assert!(checked(&memory).findings.is_empty(), "{:#?}", checked(&memory).findings);
    assert!(repaired(&memory).findings.is_empty());
}

/// The name is whole, and its hash shows the content of the slot.
#[test]
fn a_name_whose_slot_has_a_damaged_tag_is_kept() {
    let memory = filled();
    let fs = open(&memory, None).expect("it opens");
    let slot_at = slot_of_77(&fs);
    closed(fs);
    memory.store_word(slot_at, memory.load_word(slot_at) ^ 1 << 20);
    assert!(!checked(&memory).is_sound());
    assert!(repaired(&memory).is_sound());
    let fs = open(&memory, None).expect("it opens");
    assert_eq!(slot_of_77(&fs), slot_at, "found by its name");
}

fn slot_of_77(fs: &FileSystem) -> u64 {
    let dir = fs.load(fs.lookup(Ino::ROOT, b"dir").expect("there").ino).expect("there");
    let hit = name_hit(fs, &dir, b"file 77");
    hit.entry.slot_at
}

/// Takes the name of `file 77` away, whose number this is, and repairs that; `before` is there then.
fn nameless(before: impl FnOnce(&FileSystem, Ino)) -> (Arc<LyingMemory>, Ino) {
    let memory = filled();
    let fs = open(&memory, None).expect("it opens");
    let dir = fs.lookup(Ino::ROOT, b"dir").expect("there").ino;
    let ino = fs.lookup(dir, b"file 77").expect("there").ino;
    before(&fs, ino);
    let slot_at = slot_of_77(&fs);
    closed(fs);
    memory.store_word(slot_at, 0);
    assert!(!checked(&memory).is_sound());
    let report = repaired(&memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    (memory, ino)
}

/// Asserts that `file 77`, whose number is `ino`, is called `name` in `dir`, with its bytes.
fn assert_rescued(memory: &Arc<LyingMemory>, ino: Ino, (dir, name): (&str, &str)) {
    let fs = open(memory, None).expect("it opens");
    let found = fs.lookup(Ino::ROOT, dir.as_bytes()).expect("there").ino;
    assert_eq!(fs.lookup(found, name.as_bytes()).expect("rescued").ino, ino);
    assert_eq!(content(&fs, ino).expect("it reads"), vec![77; 77 * 400]);
    assert_sound(&fs);
    closed(fs);
}

#[test]
fn what_lost_its_name_is_in_lost_and_found_with_its_bytes() {
    let (memory, ino) = nameless(|_, _| ());
    assert_rescued(&memory, ino, ("lost+found", &format!("#{}", ino.0)));
}

/// Files or links of users that have the names: opening goes on, and nothing of theirs is touched.
#[test]
fn what_is_rescued_has_another_name_where_its_own_is_taken() {
    let make =
        |fs: &FileSystem, dir, name: &str| fs.create_file(dir, name.as_bytes(), &new(FileKind::File)).expect("room");
    let (memory, ino) = nameless(|fs, _| {
        fs.symlink(Ino::ROOT, b"lost+found", b"/etc", ME).expect("room");
        make(fs, Ino::ROOT, "lost+found.1");
    });
    assert_rescued(&memory, ino, ("lost+found.2", &format!("#{}", ino.0)));
    let (memory, ino) = nameless(|fs, ino| {
        let found = fs.create_file(Ino::ROOT, b"lost+found", &new(FileKind::Directory)).expect("room").ino;
        for end in ["", ".1"] {
            make(fs, found, &format!("#{}{end}", ino.0));
        }
    });
    assert_rescued(&memory, ino, ("lost+found", &format!("#{}.2", ino.0)));
}

/// Until then no file uses it, whatever is done in between, and each opening looks for it.
#[test]
fn what_cannot_be_rescued_stays_until_it_can() {
    let (memory, ino) = nameless(|fs, _| {
        for name in (1..100).map(|number| format!("lost+found.{number}")).chain(["lost+found".to_owned()]) {
            fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("room");
        }
    });
    let fs = open(&memory, None).expect("it opens");
    run_steps(&fs);
    fs.allocate(ino, 0..9000, crate::Allocate::Grow).expect("room");
    assert!(fs.load(ino).expect("there").head.orphan != 0);
    assert_sound(&fs);
    fs.unlink(Ino::ROOT, b"lost+found.60").expect("there");
    closed(fs);
    assert_rescued(&memory, ino, ("lost+found.60", &format!("#{}", ino.0)));
}

/// As one is that an earlier version could not rescue.
#[test]
fn what_is_lost_and_found_by_no_orphan_word_is_told_and_found_again() {
    let (memory, ino) = nameless(|_, _| ());
    let fs = open(&memory, None).expect("it opens");
    let found = fs.lookup(Ino::ROOT, b"lost+found").expect("there").ino;
    let dir = fs.load(found).expect("there");
    let name = format!("#{}", ino.0);
    let hit = name_hit(&fs, &dir, name.as_bytes());
    let at = fs.load(ino).expect("there").at;
    closed(fs);
    memory.store_word(hit.entry.slot_at, 0);
    memory.store_word(at, memory.load_word(at) | u64::from(crate::format::inode::LOST) << 24);
    assert!(!checked(&memory).is_sound());
    assert!(repaired(&memory).is_sound());
    assert_rescued(&memory, ino, ("lost+found", &name));
}

/// The words that name a page of names show its directory: for a damaged head no name is given up.
#[test]
fn a_page_of_names_whose_head_is_damaged_keeps_its_names() {
    for (word, bit) in [(0, 3), (0, 40), (8, 2), (8, 33)] {
        let memory = filled();
        let fs = open(&memory, None).expect("it opens");
        let dir = fs.lookup(Ino::ROOT, b"dir").expect("there").ino;
        let inode = fs.load(dir).expect("there");
        let hit = name_hit(&fs, &inode, b"file 77");
        let at = hit.entry.slot_at / 4096 * 4096 + word;
        closed(fs);
        memory.store_word(at, memory.load_word(at) ^ 1 << bit);
        assert!(!checked(&memory).is_sound());
        let report = repaired(&memory);
        assert!(report.is_sound(), "{:#?}", report.findings);
        let fs = open(&memory, None).expect("it opens");
        assert!(fs.lookup(Ino::ROOT, b"lost+found").is_err(), "nothing was lost: {:#?}", report.findings);
        assert_eq!(fs.lookup(dir, b"file 77").expect("kept").ino, hit.entry.ino);
        assert_sound(&fs);
    }
}

/// A memory with two files, closed, all words of one of which name the same page of the other, which is sound and has
/// this number and these bytes. Of two the one that was made first is asked first.
fn named_twice(sound_is_first: bool) -> (Arc<LyingMemory>, Ino, Vec<u8>) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let [first, second] = ["first", "second"].map(|name| {
        let ino = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, name.repeat(4096).as_bytes()).expect("room");
        ino
    });
    let (sound, wrong) = if sound_is_first { (first, second) } else { (second, first) };
    let words = |ino| match index::walk(&fs, &fs.load(ino).expect("there"), 2).expect("it reads") {
        IndexEntry::Words { at, left } => (at, left),
        _ => panic!("it has no page there"),
    };
    let ((from, _), (to, count)) = (words(sound), words(wrong));
    let bytes = content(&fs, sound).expect("it reads");
    closed(fs);
    (0..count).for_each(|index| memory.store_word(to + index * 8, memory.load_word(from)));
    // The damage is durable.
    (Arc::new(memory.kill()), sound, bytes)
}

/// Whichever of two files is asked first, the one that is sound keeps its bytes.
#[test]
fn a_page_that_two_files_name_is_lost_by_none() {
    for sound_is_first in [true, false] {
        let (memory, sound, bytes) = named_twice(sound_is_first);
        assert!(!checked(&memory).is_sound());
        let report = repaired(&memory);
        assert!(report.is_sound(), "{:#?}", report.findings);
        let fs = open(&memory, None).expect("it opens");
        assert_eq!(content(&fs, sound).expect("it reads"), bytes);
        assert_sound(&fs);
    }
}

/// What some crash of that repair leaves which another one does not end well; with `bug` planted in the first.
fn failure_of_a_repair(bug: Option<Bug>) -> Option<String> {
    let (memory, sound, bytes) = named_twice(false);
    plant(bug);
    repaired(&memory);
    plant(None);
    let options = ExploreOptions { images_per_point_max: 12, samples_per_point: 12, ..ExploreOptions::default() };
    let report = explore(&memory, &options, |crash| {
        let memory = Arc::new(crash.memory());
        let report = repaired(&memory);
        let fs = open(&memory, None).map_err(|error| error.to_string())?;
        match content(&fs, sound) {
            Ok(found) if found == bytes && report.is_sound() => Ok(()),
            _ => Err(format!("its bytes are lost, or it is not sound: {:#?}", report.findings)),
        }
    });
    report.failure.map(|failure| format!("{failure:?}"))
}

#[test]
fn fk1_every_crash_of_a_repair_leaves_a_page_that_two_files_name_to_both() {
    assert_eq!(failure_of_a_repair(None), None);
}

#[test]
fn canary_a_copy_that_is_named_before_it_is_durable_is_found() {
    assert!(failure_of_a_repair(Some(Bug::NameBeforeCopy)).is_some());
}

#[test]
fn a_directory_whose_names_are_gone_loses_no_file() {
    let memory = filled();
    let dir_at = place(&memory, 2);
    memory.store_word(dir_at + 64, 0);
    let report = repaired(&memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    let fs = open(&memory, None).expect("it opens");
    let found = fs.lookup(Ino::ROOT, b"lost+found").expect("made").ino;
    let mut count = 0;
    fs.readdir(found, 2, &mut |_| {
        count += 1;
        true
    })
    .expect("it lists");
    assert_eq!(count, 149);
    assert_sound(&fs);
}

#[test]
fn whatever_is_damaged_a_repair_ends_and_what_it_calls_sound_is() {
    let image = filled().snapshot();
    let (seed, rounds) = (ferrite_crash::seed(), ferrite_crash::rounds(30));
    let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
    let (inodes, words) = (place(&memory, 0), metadata_words(&memory));
    let mut mended = 0;
    for round in 0..rounds {
        let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
        memory.keep_trace(false);
        for number in 0..=round % 4 {
            let random = name_hash(seed, &(round * 8 + number).to_le_bytes());
            let at = match random % 3 {
                0 => inodes + random / 3 % (160 * 32) * 8,
                _ => words[(random / 3) as usize % words.len()],
            };
            memory.store_word(at, damaged(memory.load_word(at), random));
        }
        let report = repaired(&memory);
        if !report.opened || !report.is_sound() {
            continue;
        }
        mended += u64::from(!report.findings.is_empty());
        let again = checked(&memory);
        assert!(again.is_sound(), "round {round}: {:#?} after {:#?}", again.findings, report.findings);
        let Ok(fs) = open(&memory, None) else { continue };
        tree(&fs).expect("all of it reads");
        run_steps(&fs);
        assert_sound(&fs);
    }
    assert!(mended * 4 > rounds, "{mended} of {rounds} were damaged and mended: the test looks at too little");
}

pub fn damaged(word: u64, random: u64) -> u64 {
    match random >> 20 & 3 {
        0 => 0,
        1 => word ^ 1 << (random >> 24 & 63),
        2 => word.wrapping_add(1),
        _ => random,
    }
}

/// Where words of the tables and of index pages lie.
pub fn metadata_words(memory: &Arc<LyingMemory>) -> Vec<u64> {
    let fs = open(memory, None).expect("it opens");
    let mut words: Vec<u64> = (0..4).map(|chunk| fs.space.map.descriptor(chunk)).collect();
    words.extend(
        (0..4)
            .flat_map(|chunk| (8..16).map(move |word| (chunk, word)))
            .map(|(chunk, word)| fs.space.map.descriptor(chunk) + word * 8),
    );
    words.extend((0..4).map(|index| fs.space.map.orphan(index)));
    let index = (0..fs.space.chunks()).find(|chunk| fs.space.kind(*chunk) == Some(ChunkKind::Index));
    let base = fs.place(index.expect("there are names") * (CHUNK / 4096)).expect("there");
    words.extend((0..6 * 512).map(|word| base + word * 8));
    closed(fs);
    words
}

#[test]
fn a_file_system_is_defragmented_with_its_pool() {
    let memory = new_memory(Model::MAPPED, 24 * CHUNK);
    memory.keep_trace(false);
    let before = {
        let fs = open(&memory, None).expect("it opens");
        let pool = fs.pool().clone();
        let fill = |name: &str, bytes: usize| {
            let ino = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino;
            fs.write(ino, 0, &vec![name.len() as u8; bytes]).expect("room");
        };
        // A disk between the chunks of the files, which is then removed.
        let needs =
            [ferrite_pool::SpaceNeed { role: ferrite_pool::Role::DATA, zone: ferrite_pool::Zone::Super, bytes: CHUNK }];
        let tag = |name| ferrite_pool::NewTag {
            name,
            kind: ferrite_pool::TagKind::BYTES,
            size: CHUNK,
            attributes: [0; 64],
            needs: &needs,
        };
        for (i, name) in ["a", "bb", "ccc"].into_iter().enumerate() {
            fill(name, 3 << 20);
            pool.create_tag(&tag(["x", "y", "z"][i]), |_| Ok(())).expect("room");
        }
        for name in ["x", "y", "z"] {
            pool.remove_tag(&pool.tag(name).expect("there")).expect("it goes");
        }
        let before = tree(&fs).expect("it reads");
        drop(pool);
        closed(fs);
        before
    };
    let chunks = |memory: &Arc<LyingMemory>| {
        let fs = open(memory, None).expect("it opens");
        let (extents, found) = (fs.tag().extents.clone(), tree(&fs).expect("it reads"));
        assert_sound(&fs);
        closed(fs);
        (extents, found)
    };
    let mut moved_bytes = 0;
    for _ in 0..2 {
        let (extents, _) = chunks(&memory);
        let mut pool = ferrite_pool::Pool::open(memory.clone(), BOOT).expect("it opens").0;
        let done = ferrite_pool::defrag::defrag(&mut pool, &owners(), &mut |_| true).expect("room");
        pool.close().expect("it closes");
        assert!(done.left.is_empty(), "{:?}", done.left);
        let (after, found) = chunks(&memory);
        assert!(found == before, "the files are what they were");
        moved_bytes += done.moved_bytes;
        assert!(done.moved_bytes == 0 || after != extents, "it lies elsewhere");
    }
    assert!(moved_bytes > 0, "there was something to move");
}
