//! What a change costs where each transaction waits for a disk, and what of it lasts.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};

use super::crash::{Case, at, explore_case, mixed, put, usual, whole};
use super::support::*;
use crate::{Attr, FileKind, FileSystem, Ino, Rename, SetAttr, SetTime, SetXattr, Time};

const PAGE: usize = 4096;
const MTIME: Time = Time(5);

/// How often `work` waits for the disk.
fn waits(memory: &LyingMemory, work: impl FnOnce()) -> u64 {
    let before = memory.calls();
    work();
    memory.calls() - before
}

/// A file system whose chunks for pages and inodes are there already.
fn begun() -> (Arc<LyingMemory>, Arc<FileSystem>) {
    let memory = new_memory(Model::FILE, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"first", &new(FileKind::File)).expect("made").ino;
    fs.write(ino, 0, &[1; 3 * PAGE]).expect("room");
    fs.set_xattr(ino, b"user.a", b"1", SetXattr::Any).expect("set");
    fs.flush().expect("durable");
    (memory, fs)
}

/// As a kernel does it, which holds each inode that it learns of.
fn copied(fs: &FileSystem, name: &[u8], content: &[u8]) -> Ino {
    let ino = fs.create_file(Ino::ROOT, name, &new(FileKind::File)).expect("made").ino;
    fs.hold(ino).expect("held");
    assert_eq!(fs.write(ino, 0, content).expect("room"), content.len());
    ino
}

fn set_times(fs: &FileSystem, ino: Ino) -> Attr {
    let time = Some(SetTime::To(MTIME));
    let mode = Some(new(FileKind::File).mode);
    let set = SetAttr { atime: time, mtime: time, mode, uid: Some(ME.uid), gid: Some(ME.gid), ..SetAttr::default() };
    fs.setattr(ino, &set).expect("set")
}

fn restarted(fs: Arc<FileSystem>, memory: &LyingMemory) -> Arc<FileSystem> {
    let image = memory.snapshot();
    drop(fs);
    open(&Arc::new(LyingMemory::from_image(&image, Model::FILE)), None).expect("it opens")
}

/// The page that it is created with is the one that it needs, and none must be freed.
#[test]
fn fw4_a_small_file_that_is_copied_waits_for_the_disk_once() {
    let (memory, fs) = begun();
    let mut ino = Ino::ROOT;
    assert_eq!(waits(&memory, || ino = copied(&fs, b"small", &[7; PAGE])), 1);
    let mut message = None;
    assert_eq!(waits(&memory, || message = Some(set_times(&fs, ino))), 0, "times wait");
    assert_eq!(fs.getattr(ino).ok(), message);
    let other = copied(&fs, b"other", &[7; PAGE]);
    // The clock ticks with each look: both rest, and nothing of them goes back but is written back.
    let stepped = || (0..300).for_each(|_| _ = fs.step().expect("steps work"));
    assert_eq!(waits(&memory, stepped), 2, "once for both");
    assert_eq!(waits(&memory, || fs.release(other, 1)), 0);
    assert_eq!(waits(&memory, || fs.release(ino, 1)), 0, "nothing is ahead");
    let again = restarted(fs, &memory);
    assert_eq!(again.getattr(ino).ok(), message);
    assert!(message.is_some_and(|message| message.mtime == MTIME && message.allocated_bytes == PAGE as u64));
    assert_eq!(content(&again, ino).expect("it reads"), [7; PAGE]);
    assert_sound(&again);
}

/// What is written over shows nothing that was not to be seen: its times need not wait for it.
#[test]
fn fw4_what_is_written_over_waits_for_the_disk_once() {
    let (memory, fs) = begun();
    let ino = fs.lookup(Ino::ROOT, b"first").expect("there").ino;
    assert_eq!(waits(&memory, || assert_eq!(fs.write(ino, PAGE as u64, &[8; 100]).expect("room"), 100)), 0);
    assert_eq!(waits(&memory, || fs.fsync(ino).expect("durable")), 1);
    let message = fs.getattr(ino).expect("there");
    let again = restarted(fs, &memory);
    assert_eq!(again.getattr(ino).ok(), Some(message));
    let content = content(&again, ino).expect("it reads");
    assert_eq!((content.len(), &content[PAGE..PAGE + 100]), (3 * PAGE, &[8; 100][..]));
}

/// The page that one without content was made with is not its own for long (FX1).
#[test]
fn fx1_the_page_of_a_file_without_content_goes_back() {
    let (_, fs) = begun();
    let ino = copied(&fs, b"empty", &[]);
    fs.release(ino, 1);
    assert_eq!(fs.getattr(ino).expect("there").allocated_bytes, 0);
    let ino = copied(&fs, b"kept open", &[]);
    // The clock ticks with each look.
    while fs.getattr(ino).expect("there").allocated_bytes > 0 {
        fs.step().expect("steps work");
    }
    assert_sound(&fs);
}

/// A new owner or mode is durable at once; what was written before still waits, and is not lost by that.
#[test]
fn fw4_what_is_set_while_a_size_waits_costs_one_wait() {
    let (memory, fs) = begun();
    let ino = copied(&fs, b"small", &[7; 100]);
    let set = |set| _ = fs.setattr(ino, &set).expect("set");
    assert_eq!(waits(&memory, || set(SetAttr { mode: Some(0o600), ..SetAttr::default() })), 1);
    assert_eq!(
        waits(&memory, || set(SetAttr { uid: Some(9), mtime: Some(SetTime::To(MTIME)), ..SetAttr::default() })),
        1
    );
    let other = |value| fs.set_xattr(ino, b"user.a", value, SetXattr::Any).expect("set");
    other(b"1");
    let before = fs.getattr(ino).expect("there");
    assert_eq!((before.mtime, before.size, before.mode, before.uid), (MTIME, 100, 0o600, 9));
    fs.fsync(ino).expect("durable");
    let again = restarted(fs, &memory);
    assert_eq!(again.getattr(ino).expect("there"), before);
    assert_eq!(content(&again, ino).expect("it reads"), [7; 100]);
}

/// Changes of a file while what was appended to it waits.
pub(super) static CASES: [Case; 4] = [
    whole("append, and move over another", usual, |fs| {
        put(fs, at(fs, "a"), 4102, 64, 9);
        fs.rename((Ino::ROOT, b"a"), (Ino::ROOT, b"b"), Rename::Replace).expect("moved");
    }),
    mixed("append, and set a mode", usual, |fs| {
        put(fs, at(fs, "a"), 4102, 64, 9);
        fs.setattr(at(fs, "a"), &SetAttr { mode: Some(0o600), ..SetAttr::default() }).expect("set");
    }),
    mixed("append, and set an attribute", usual, |fs| {
        put(fs, at(fs, "a"), 4102, 64, 9);
        fs.set_xattr(at(fs, "a"), b"user.a", b"1", SetXattr::Any).expect("set");
    }),
    whole("end several files", removed, run_steps),
];

/// Files that were removed while they were held, and are held no more.
fn removed(fs: &FileSystem) {
    usual(fs);
    let names = ["one", "two", "three", "four"];
    let inos = names.map(|name| copied(fs, name.as_bytes(), &[3; 100]));
    names.iter().for_each(|name| fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes"));
    inos.iter().for_each(|ino| fs.release(*ino, 1));
}

#[test]
fn fo2_files_that_were_removed_end_together() {
    let (memory, fs) = begun();
    removed(&fs);
    let free = || fs.space.inodes_in_use(fs.memory()).count();
    let before = free();
    assert_eq!(waits(&memory, || assert!(fs.step().expect("it steps"))), 1);
    assert_eq!(free() + 4, before);
    assert_sound(&fs);
}

/// What is moved over another is whole: what was written to it is durable before.
#[test]
fn fw1_fw4_fo2_every_crash_of_what_waits_shows_only_what_was_written() {
    for case in &CASES {
        explore_case(case, Model::FILE, None, case.mixes).assert_clean();
    }
}

#[test]
fn fw1_what_is_moved_over_another_waits_for_the_disk_twice() {
    let (memory, fs) = begun();
    let ino = copied(&fs, b"new", &[7; 100]);
    let moved = || fs.rename((Ino::ROOT, b"new"), (Ino::ROOT, b"first"), Rename::Replace).expect("moved");
    assert_eq!(waits(&memory, moved), 2);
    let message = fs.getattr(ino).ok();
    assert_eq!(restarted(fs, &memory).getattr(ino).ok(), message);
}

/// A kernel that keeps times itself may say one that is earlier than what the medium has.
#[test]
fn fw4_a_time_that_is_set_back_is_set_back() {
    let (memory, fs) = begun();
    let ino = copied(&fs, b"small", &[7; 100]);
    let set = SetAttr { mtime: Some(SetTime::To(MTIME)), ctime: Some(Time(6)), ..SetAttr::default() };
    let message = fs.setattr(ino, &set).expect("set");
    assert_eq!((message.mtime, message.ctime), (MTIME, Time(6)));
    assert_eq!(fs.getattr(ino).ok(), Some(message));
    fs.flush().expect("durable");
    assert_eq!(restarted(fs, &memory).getattr(ino).ok(), Some(message));
}
