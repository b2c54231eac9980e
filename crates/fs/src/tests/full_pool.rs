//! Writes that there is not space enough for.

use ferrite_crash::Model;
use ferrite_pool::grant::{GrantRequest, GrantRights, Process};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Caller, NewTag, PidFd, Role, SpaceNeed, TagKind, Zone};

use super::client_house::House;
use super::support::*;
use crate::share::layout::request::LeaseAccess;
use crate::tree::inode_lifetime;
use crate::{Allocate, DataMode, Error, FileKind, FileSystem, Ino, Result};

const PAGE: u64 = 4096;
/// Pages that are left free.
const LEFT: u64 = 150;

fn file(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino
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
        run_steps(&fs);
        assert!(fs.statfs().free_bytes < SEVERAL as u64);
        fs.unlink(Ino::ROOT, b"large").expect("it goes");
        assert!(fs.orphans.some_ready(1).len() == 1, "it goes by steps");
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

fn take(fs: &FileSystem, name: &str, zone: Zone) -> ferrite_pool::Result<()> {
    let needs = [SpaceNeed { role: Role::DATA, zone, bytes: 1 }];
    let new = NewTag { name, kind: TagKind::BYTES, size: 0, attributes: [0; 64], needs: &needs };
    fs.pool().create_tag(&new, |_| Ok(())).map(drop)
}

/// A full pool, half of which a file system has, in chunks that lie apart; it needs every second one of them.
fn apart() -> std::sync::Arc<FileSystem> {
    let fs = open(&new_memory(Model::MAPPED, 36 * CHUNK), None).expect("it opens");
    fall_apart(&fs);
    fs
}

fn fall_apart(fs: &FileSystem) {
    for number in 0..14 {
        let ino = file(fs, &number.to_string());
        fs.write(ino, 0, &[1; CHUNK as usize]).expect("room");
        take(fs, &format!("super {number}"), Zone::Super).expect("room");
    }
    for zone in [Zone::Super, Zone::Normal] {
        (0..).take_while(|number| take(fs, &format!("{zone:?} {number}"), zone).is_ok()).for_each(drop);
    }
    (0..14).step_by(2).for_each(|number| fs.unlink(Ino::ROOT, number.to_string().as_bytes()).expect("it goes"));
    while inode_lifetime::step_orphans(fs).expect("it goes") {}
    assert!(fs.tag().extents.len() > 8 && fs.pool().usage().free_bytes == 0);
}

#[test]
fn fc3_a_full_pool_is_given_chunks_by_a_file_system_of_many_extents() {
    let fs = apart();
    let free = fs.statfs().free_bytes;
    while fs.return_all_chunks().expect("it can") {}
    let given = fs.pool().usage().free_bytes;
    assert!(given >= 6 * CHUNK && given + 2 * CHUNK > free, "{given} of {free} bytes");
    assert_sound(&fs);
    (0..5).for_each(|number| take(&fs, &format!("given {number}"), Zone::Super).expect("it is free"));
}

/// As if a client still had a grant on all of it, so that the list of its extents can lie nowhere.
#[test]
fn fc3_chunks_that_cannot_be_given_are_still_its_own() {
    let fs = apart();
    let before = fs.statfs();
    let caller = Caller {
        pid: std::process::id(),
        uid: 0,
        process: PidFd::open(std::process::id()).expect("it lives"),
        connection: 0,
    };
    let (process, tag) = (Process::of(&caller, BOOT), fs.tag());
    // A grant of a few pieces needs no page for a list of them.
    let data: Vec<_> = tag.extents.iter().copied().filter(|it| it.role == Role::DATA).collect();
    let grants: Vec<_> = data
        .chunks(3)
        .map(|extents| GrantRequest { tag: &tag, extents, rights: GrantRights::ReadWrite, process: &process })
        .map(|ask| fs.pool().grant(&ask).expect("a grant"))
        .collect();
    assert!(fs.return_all_chunks().is_err(), "nowhere to put the list");
    assert_eq!(fs.statfs(), before);
    assert_sound(&fs);
    grants.iter().for_each(|grant| fs.pool().grants().release(fs.pool(), grant.id).expect("given back"));
    assert!(fs.return_all_chunks().expect("it can"));
}

/// It would have all that is free before it fails, and keep what lies before its end.
#[test]
fn what_no_pool_of_its_size_can_give_is_refused_at_once() {
    let fs = new_fs();
    let ino = file(&fs, "f");
    resize(&fs, ino, 1 << 40).expect("a hole");
    for how in [Allocate::Grow, Allocate::KeepSize, Allocate::Zero, Allocate::ZeroKeepSize] {
        assert!(is_full(&fs.allocate(ino, 0..POOL_BYTES + PAGE, how)), "{how:?}");
        assert_eq!(fs.getattr(ino).expect("there").allocated_bytes, 0, "{how:?}");
    }
    // What is there already needs no more; nor does what is taken.
    fs.write(ino, 0, &[1; 1 << 20]).expect("room");
    assert!(fs.allocate(ino, 0..1 << 20, Allocate::Grow).is_ok());
    assert!(fs.allocate(ino, 0..1 << 40, Allocate::Punch).is_ok());
    assert_sound(&fs);
}

/// A grant on all of it needs a page for the list of its extents.
#[test]
fn fc3_a_client_of_a_file_system_of_many_extents_in_a_full_pool_is_let_in() {
    let house = House::new();
    fall_apart(&house.fs);
    let ino = house.fs.lookup(Ino::ROOT, b"1").expect("there").ino;
    let mut bytes = [0; 9];
    let lease = house.client().lease(ino, LeaseAccess::Read).expect("leased");
    assert_eq!((lease.read(0, &mut bytes).expect("it reads"), bytes), (9, [1; 9]));
    assert!(house.fs.tag().extents.len() > 3);
    assert_sound(&house.fs);
}
