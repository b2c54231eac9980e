//! Every crash of every operation: before it or after it, and nothing between.

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::Memory;
use ferrite_pool::layout::CHUNK;
use std::sync::atomic::Ordering;

use super::{fsync_waits, support::*, unlisted_orphans};
use crate::check::look;
use crate::client::direct_io::{DirectIo, DirectOutcome};
use crate::client::known_end::KnownEnd;
use crate::file::{ahead, compaction};
use crate::share::layout::{lease_state::LeaseState, request::LeaseAccess};
use crate::store::clients::Appender;
use crate::{Allocate, DataMode, FileKind, FileSystem, Ino, Rename, SetAttr, SetXattr};

/// One operation, and what is there before it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) setup: fn(&FileSystem),
    pub(super) run: fn(&FileSystem),
    /// Each byte of a file may be old or new; what is behind the old end is new.
    pub(super) mixes: bool,
}

pub(super) const fn whole(name: &'static str, setup: fn(&FileSystem), run: fn(&FileSystem)) -> Case {
    Case { name, setup, run, mixes: false }
}

pub(super) const fn mixed(name: &'static str, setup: fn(&FileSystem), run: fn(&FileSystem)) -> Case {
    Case { name, setup, run, mixes: true }
}

fn make(fs: &FileSystem, dir: Ino, name: &str, kind: FileKind) -> Ino {
    fs.create_file(dir, name.as_bytes(), &new(kind)).expect("it is made").ino
}

pub(super) fn at(fs: &FileSystem, name: &str) -> Ino {
    fs.lookup(Ino::ROOT, name.as_bytes()).expect("it is there").ino
}

pub(super) fn put(fs: &FileSystem, ino: Ino, at: u64, len: usize, byte: u8) {
    assert_eq!(fs.write(ino, at, &vec![byte; len]).expect("room"), len);
}

/// A file `a` of 6 bytes and a page, `big` of 30 pages, `b` with an attribute, directories `d` with `x`, and `e`.
pub(super) fn usual(fs: &FileSystem) {
    let a = make(fs, Ino::ROOT, "a", FileKind::File);
    put(fs, a, 0, 4102, 1);
    let big = make(fs, Ino::ROOT, "big", FileKind::File);
    put(fs, big, 0, 30 * 4096, 2);
    let b = make(fs, Ino::ROOT, "b", FileKind::File);
    fs.set_xattr(b, b"user.x", b"old", SetXattr::Any).expect("room");
    let d = make(fs, Ino::ROOT, "d", FileKind::Directory);
    make(fs, d, "x", FileKind::File);
    make(fs, Ino::ROOT, "e", FileKind::Directory);
}

/// The same, and pages of names of `d` that are full.
fn full_page(fs: &FileSystem) {
    usual(fs);
    let d = at(fs, "d");
    for i in 0..67 {
        make(fs, d, &format!("name {i} {}", "x".repeat(20)), FileKind::File);
    }
}

pub(super) fn held(fs: &FileSystem) {
    usual(fs);
    fs.hold(at(fs, "a")).expect("it is there");
    fs.hold(at(fs, "big")).expect("it is there");
}

fn appended(fs: &FileSystem) {
    held(fs);
    fs.append(at(fs, "a"), b"more").expect("room");
}

fn grown(fs: &FileSystem) {
    put(fs, make(fs, Ino::ROOT, "grown", FileKind::File), 0, SUPER_THRESHOLD as usize, 7);
}

fn superpage(fs: &FileSystem) {
    grown(fs);
    run_steps(fs);
}

/// A chunk of content with little in it, behind which are others with room.
fn sparse(fs: &FileSystem) {
    for (number, name) in ["one", "two", "three", "four"].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..1536 << 10).map(|at: usize| (at / 4096 * 5 + number * 97) as u8).collect();
        fs.write(make(fs, Ino::ROOT, name, FileKind::File), 0, &bytes).expect("room");
    }
    for name in ["one", "two"] {
        fs.allocate(at(fs, name), 40 << 10..1500 << 10, Allocate::Punch).expect("punched");
    }
}

fn orphan(fs: &FileSystem) {
    usual(fs);
    fs.unlink(Ino::ROOT, b"big").expect("it goes");
}

fn cut(fs: &FileSystem) {
    usual(fs);
    resize(fs, at(fs, "big"), 5000).expect("it is cut");
}

fn rename(fs: &FileSystem, from: (Ino, &str), to: (Ino, &str), how: Rename) {
    fs.rename((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()), how).expect("it moves");
}

/// Gives a client, which is this thread, the right to append to `a`, with pages for that.
fn lent(fs: &FileSystem) {
    held(fs);
    ahead::reserve_ahead(fs, at(fs, "a"), 70_000, 8).expect("room");
}

/// A client that may append to `a`, until [`leave`] ends that.
pub(super) fn client<'a>(fs: &'a FileSystem, end: &'a KnownEnd) -> DirectIo<'a, dyn Memory + 'a> {
    let (ino, slot, serial) = (at(fs, "a"), 0, 7);
    fs.space.shared_state.pretend_owner_alive();
    fs.locks.write(ino).appenders.push(Appender { ino, slot, serial });
    fs.space.shared_state.lease(slot).store(LeaseState::new(serial, LeaseAccess::Append).0, Ordering::SeqCst);
    let (memory, shared_state, foreign) = (fs.memory(), &*fs.space.shared_state, ferrite_memory::Foreign::register());
    DirectIo { memory, shared_state, foreign, ino, slot, serial, number: 1, end }
}

pub(super) fn leave(fs: &FileSystem) {
    fs.locks.write(at(fs, "a")).appenders.clear();
}

fn append_directly(fs: &FileSystem, at_byte: Option<u64>, len: usize) {
    let end = KnownEnd::new();
    let appended = client(fs, &end).append(0, at_byte, &vec![9; len], || 3_000_000_000);
    assert!(matches!(appended, DirectOutcome::Done(_)));
    leave(fs);
}

/// Writes over what is there, at a time that the file says already; then again where that is known.
fn write_directly(fs: &FileSystem) {
    let (end, mtime) = (KnownEnd::new(), fs.getattr(at(fs, "a")).expect("it is there").mtime);
    let client = client(fs, &end);
    assert_eq!(client.write(0, 100, &[9; 3000], || mtime.0), DirectOutcome::Done(()));
    client.write_together(0, 2000, &[9; 700], || mtime.0).expect("it was seen");
    leave(fs);
}

fn appended_directly(fs: &FileSystem) {
    lent(fs);
    append_directly(fs, None, 5000);
}

static CASES: [Case; 46] = [
    whole("create", usual, |fs| _ = make(fs, Ino::ROOT, "new", FileKind::File)),
    whole("create first", |_| (), |fs| _ = make(fs, Ino::ROOT, "new", FileKind::File)),
    whole("mkdir", usual, |fs| _ = make(fs, Ino::ROOT, "new", FileKind::Directory)),
    whole("mkfifo", usual, |fs| _ = make(fs, Ino::ROOT, "new", FileKind::Fifo)),
    whole("symlink", usual, |fs| _ = fs.symlink(Ino::ROOT, b"l", b"short", ME).expect("made")),
    whole("symlink long", usual, |fs| _ = fs.symlink(Ino::ROOT, b"l", &[b't'; 900], ME).expect("made")),
    whole("create that splits a page", full_page, |fs| {
        let d = at(fs, "d");
        make(fs, d, &"y".repeat(30), FileKind::File);
    }),
    whole("link", usual, |fs| _ = fs.link(at(fs, "a"), at(fs, "d"), b"l").expect("made")),
    whole("unlink", usual, |fs| fs.unlink(Ino::ROOT, b"a").expect("it goes")),
    whole("unlink the last name of a page", usual, |fs| fs.unlink(at(fs, "d"), b"x").expect("it goes")),
    whole("unlink large", usual, |fs| fs.unlink(Ino::ROOT, b"big").expect("it goes")),
    whole("unlink with attributes", usual, |fs| fs.unlink(Ino::ROOT, b"b").expect("it goes")),
    whole("unlink held", held, |fs| fs.unlink(Ino::ROOT, b"a").expect("it goes")),
    whole(
        "release the last hold",
        |fs| {
            held(fs);
            fs.unlink(Ino::ROOT, b"a").expect("it goes");
        },
        |fs| fs.release(Ino(2), 1),
    ),
    whole("step of an orphan", orphan, run_steps),
    whole("rmdir", usual, |fs| fs.rmdir(Ino::ROOT, b"e").expect("it goes")),
    whole("rename", usual, |fs| rename(fs, (Ino::ROOT, "a"), (Ino::ROOT, "c"), Rename::Replace)),
    whole("rename alone in a page", usual, |fs| rename(fs, (at(fs, "d"), "x"), (at(fs, "d"), "y"), Rename::Replace)),
    whole("rename over", usual, |fs| rename(fs, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Rename::Replace)),
    whole("rename over large", usual, |fs| rename(fs, (Ino::ROOT, "a"), (Ino::ROOT, "big"), Rename::Replace)),
    whole("rename into a directory", usual, |fs| rename(fs, (Ino::ROOT, "a"), (at(fs, "e"), "a"), Rename::NoReplace)),
    whole("rename a directory", usual, |fs| rename(fs, (Ino::ROOT, "d"), (at(fs, "e"), "d"), Rename::Replace)),
    whole("rename a directory over", usual, |fs| rename(fs, (Ino::ROOT, "d"), (Ino::ROOT, "e"), Rename::Replace)),
    whole("rename that leaves a whiteout", usual, |fs| {
        rename(fs, (Ino::ROOT, "a"), (at(fs, "e"), "a"), Rename::Whiteout(ME))
    }),
    whole("rename over, and a whiteout", usual, |fs| {
        rename(fs, (Ino::ROOT, "a"), (Ino::ROOT, "b"), Rename::Whiteout(ME))
    }),
    whole("exchange", usual, |fs| rename(fs, (Ino::ROOT, "a"), (Ino::ROOT, "d"), Rename::Exchange)),
    whole("exchange across", usual, |fs| rename(fs, (at(fs, "d"), "x"), (Ino::ROOT, "e"), Rename::Exchange)),
    whole("chmod", usual, |fs| {
        let set = SetAttr { mode: Some(0o600), uid: Some(1), ..SetAttr::default() };
        fs.setattr(at(fs, "a"), &set).expect("changed");
    }),
    whole("truncate", usual, |fs| resize(fs, at(fs, "a"), 10).expect("cut")),
    whole("truncate large", usual, |fs| resize(fs, at(fs, "big"), 10).expect("cut")),
    whole("truncate after an append", appended, |fs| resize(fs, at(fs, "a"), 10).expect("cut")),
    whole("truncate after a direct append", appended_directly, |fs| resize(fs, at(fs, "a"), 10).expect("cut")),
    whole("truncate within a superpage", superpage, |fs| resize(fs, at(fs, "grown"), 1 << 20).expect("cut")),
    whole("grow after a cut", cut, |fs| {
        resize(fs, at(fs, "big"), 90_000).expect("grown");
        let found = content(fs, at(fs, "big")).expect("it reads");
        assert!(found[5000..].iter().all(|byte| *byte == 0), "FT1: what was cut off came back");
    }),
    whole("grow by a hole over what was taken ahead", lent, |fs| {
        let pages = fs.getattr(at(fs, "a")).expect("there").allocated_bytes;
        resize(fs, at(fs, "a"), 1 << 20).expect("grown");
        assert!(fs.getattr(at(fs, "a")).expect("there").allocated_bytes < pages, "they went back");
    }),
    whole("write behind what was taken ahead", lent, |fs| put(fs, at(fs, "a"), 100_000, 5000, 5)),
    whole("set attributes", usual, |fs| fs.set_xattr(at(fs, "b"), b"user.x", &[5; 6000], SetXattr::Any).expect("room")),
    whole("remove attributes", usual, |fs| fs.remove_xattr(at(fs, "b"), b"user.x").expect("it goes")),
    whole("allocate", usual, |fs| fs.allocate(at(fs, "a"), 0..70_000, Allocate::Grow).expect("room")),
    whole("give back what was taken ahead", lent, |fs| fs.release(at(fs, "a"), 1)),
    whole("compaction", sparse, |fs| assert!(compaction::compact(fs).expect("nothing fails"), "no chunk became empty")),
    whole("superpages ahead", grown, |fs| ahead::reserve_ahead(fs, at(fs, "grown"), 2 * CHUNK, 8).expect("room")),
    mixed("punch", usual, |fs| fs.allocate(at(fs, "big"), 5000..100_000, Allocate::Punch).expect("punched")),
    mixed("zero", usual, |fs| fs.allocate(at(fs, "big"), 5000..30_000, Allocate::Zero).expect("zeroed")),
    mixed("write over an end and into new pages", usual, |fs| put(fs, at(fs, "a"), 4000, 50_000, 9)),
    mixed("write behind a gap", cut, |fs| put(fs, at(fs, "big"), 20_000, 600, 9)),
];

/// Writes, each mixed in place and whole where they are atomic.
static WRITES: [Case; 6] = [
    mixed("overwrite", usual, |fs| put(fs, at(fs, "big"), 6000, 9000, 9)),
    whole("move to a superpage", grown, run_steps),
    mixed("append", held, |fs| put(fs, at(fs, "a"), 4102, 64, 9)),
    mixed("append to a new page", held, |fs| put(fs, at(fs, "a"), 4102, 5000, 9)),
    mixed(
        "write a hole",
        |fs| {
            usual(fs);
            resize(fs, at(fs, "a"), 90_000).expect("grown");
        },
        |fs| put(fs, at(fs, "a"), 50_000, 700, 9),
    ),
    mixed("write the first bytes", usual, |fs| put(fs, at(fs, "b"), 0, 100, 9)),
];

/// What clients do by themselves.
static DIRECT: [Case; 4] = [
    mixed("overwrite directly", lent, write_directly),
    mixed("append directly", lent, |fs| append_directly(fs, None, 64)),
    mixed("append pages directly", lent, |fs| append_directly(fs, None, 20_000)),
    mixed("write over the end directly", lent, |fs| append_directly(fs, Some(4000), 9000)),
];

/// The case called `name`.
pub(super) fn find(name: &str) -> &'static Case {
    CASES
        .iter()
        .chain(&WRITES)
        .chain(&DIRECT)
        .chain(unlisted_orphans::CASES.iter().chain(&fsync_waits::CASES))
        .find(|case| case.name == name)
        .expect("there is such a case")
}

pub(super) fn explore_case(case: &Case, model: Model, data: Option<DataMode>, mixes: bool) -> CrashReport {
    let memory = new_memory(model, POOL_BYTES);
    let fs = open(&memory, data).expect("it opens");
    (case.setup)(&fs);
    fs.flush().expect("nothing fails");
    memory.forget_trace();
    let before = tree(&fs).expect("it reads");
    (case.run)(&fs);
    // Where nothing waits for it, what returned is durable.
    if fs.waits() {
        fs.flush().expect("nothing fails");
    }
    memory.mark(1);
    let after = tree(&fs).expect("it reads");
    // A record is whole or absent, so few images suffice; of bytes in place any may be missing.
    let images = if mixes { 64 } else { 12 };
    let options = ExploreOptions {
        images_per_point_max: images,
        samples_per_point: images,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(&memory, &options, |crash| judge(crash, data, &before, &after, mixes))
}

/// Every crash of what `memory` recorded, `images` of each: sound, and as `check` says.
pub(super) fn explore_sound(
    memory: &LyingMemory,
    images: u64,
    mut check: impl FnMut(&FileSystem) -> Result<(), String>,
) -> CrashReport {
    let options = ExploreOptions {
        images_per_point_max: images,
        samples_per_point: images,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(memory, &options, |crash| {
        let fs = open(&std::sync::Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let wrong = look(fs.pool(), &fs.tag());
        if wrong.is_empty() { check(&fs) } else { Err(format!("{wrong:?}")) }
    })
}

fn judge(crash: &Crash<'_>, data: Option<DataMode>, before: &Tree, after: &Tree, mixes: bool) -> Result<(), String> {
    let fs = open(&std::sync::Arc::new(crash.memory()), data).map_err(|error| error.to_string())?;
    judge_opened(&fs, crash.last_mark().is_some(), (before, after), mixes)
}

/// Sound, and as before or after; after, once that was acknowledged. Ending what was begun changes nothing of that.
pub(super) fn judge_opened(
    fs: &FileSystem,
    is_acknowledged: bool,
    (before, after): (&Tree, &Tree),
    mixes: bool,
) -> Result<(), String> {
    let sound = |fs: &FileSystem| match look(fs.pool(), &fs.tag()) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(format!("{wrong:?}")),
    };
    sound(fs)?;
    let found = tree(fs).map_err(|error| error.to_string())?;
    let is_after = found == *after;
    if !is_after && is_acknowledged {
        return Err(format!("acknowledged and lost: {}", difference(&found, after)));
    }
    if !is_after && found != *before && !(mixes && is_mixture(&found, before, after)) {
        let (one, other) = (difference(&found, before), difference(&found, after));
        return Err(format!("neither before ({one}) nor after ({other})"));
    }
    run_steps(fs);
    sound(fs)?;
    if tree(fs).map_err(|error| error.to_string())? != found {
        return Err("what orphans wait for changed what a user sees".into());
    }
    Ok(())
}

fn difference(found: &Tree, wanted: &Tree) -> String {
    let paths = found.keys().chain(wanted.keys()).filter(|path| found.get(*path) != wanted.get(*path));
    paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect::<Vec<_>>().join(" ")
}

/// Returns true if each byte is old or new, and all that is behind the old end is new (FW1).
fn is_mixture(found: &Tree, before: &Tree, after: &Tree) -> bool {
    found.len() == after.len()
        && found.iter().all(|(path, seen)| {
            let (Some(old), Some(new)) = (before.get(path), after.get(path)) else { return false };
            let len = seen.content.len();
            let fits = len == old.content.len() || len == new.content.len();
            let plain = |seen: &Seen| Seen { content: Vec::new(), ..seen.clone() };
            let byte = |i: usize| {
                let new = new.content.get(i) == Some(&seen.content[i]);
                new || old.content.get(i) == Some(&seen.content[i])
            };
            fits && plain(seen) == plain(new) && (0..len).all(byte)
        })
}

#[test]
fn fi_fo_fc_ft_fn_every_crash_of_every_change_is_before_or_after_it() {
    for model in Model::ALL {
        for case in &CASES {
            println!("{}", case.name);
            explore_case(case, model, None, case.mixes).assert_clean();
        }
    }
}

#[test]
fn fw_every_crash_of_a_write_shows_only_what_was_written() {
    for case in &WRITES {
        println!("{}", case.name);
        explore_case(case, Model::MAPPED, None, true).assert_clean();
        explore_case(case, Model::FILE, None, true).assert_clean();
        explore_case(case, Model::FILE, Some(DataMode::Sync), true).assert_clean();
    }
}

#[test]
fn fw2_fg7_every_crash_of_a_direct_write_shows_only_what_was_written() {
    for case in &DIRECT {
        println!("{}", case.name);
        explore_case(case, Model::MAPPED, None, true).assert_clean();
    }
}

#[test]
fn fw4_where_fences_are_not_durable_a_size_shows_only_what_was_flushed() {
    let parts = mixed("append in parts", held, |fs| {
        for part in 0..10 {
            put(fs, at(fs, "a"), 4102 + part * 7000, 7000, 9);
        }
    });
    explore_case(&parts, Model::FILE, None, true).assert_clean();
}

#[test]
fn fw3_an_atomic_write_is_whole() {
    for case in &WRITES {
        println!("{}", case.name);
        explore_case(case, Model::MAPPED, Some(DataMode::Atomic), false).assert_clean();
    }
}
