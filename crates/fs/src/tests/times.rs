//! What a file says of when it was changed and read.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};

use super::support::*;
use crate::{Attr, DataMode, FileKind, FileSystem, Ino, SetAttr, SetTime, Time};

fn file(fs: &FileSystem) -> Ino {
    fs.create_file(Ino::ROOT, b"f", &new(FileKind::File)).expect("made").ino
}

fn attr(fs: &FileSystem, ino: Ino) -> Attr {
    fs.getattr(ino).expect("it is there")
}

/// Also where size and times still wait for an fsync, which makes them durable.
#[test]
fn fw4_who_reads_what_was_just_written_is_noted() {
    for data in [None, Some(DataMode::Posix), Some(DataMode::Sync)] {
        let memory = new_memory(Model::FILE, POOL_BYTES);
        let fs = open(&memory, data).expect("it opens");
        let ino = file(&fs);
        fs.write(ino, 0, &[1; 100]).expect("room");
        let written = attr(&fs, ino);
        assert_eq!(fs.read(ino, 0, &mut [0; 100]).expect("it reads"), 100);
        let read = attr(&fs, ino);
        assert!(read.atime > read.mtime && read.atime > written.atime, "{data:?}: {read:?}");
        assert_eq!((read.mtime, read.ctime, read.size), (written.mtime, written.ctime, 100));
        fs.write(ino, 100, &[2; 100]).expect("room");
        let more = attr(&fs, ino);
        assert!(more.atime == read.atime && more.mtime > read.mtime, "{data:?}: {more:?}");
        assert_eq!(fs.read(ino, 0, &mut [0; 200]).expect("it reads"), 200);
        let last = attr(&fs, ino);
        assert!(last.atime > last.mtime, "{data:?}: {last:?}");
        fs.flush().expect("durable");
        let again = Arc::new(LyingMemory::from_image(&memory.snapshot(), Model::FILE));
        assert_eq!(attr(&open(&again, data).expect("it opens"), ino), last, "{data:?}");
    }
}

/// Its last change is that, though what was written to it still waits.
#[test]
fn fw4_who_takes_one_of_its_names_changes_it() {
    let fs = open(&new_memory(Model::FILE, POOL_BYTES), None).expect("it opens");
    let ino = file(&fs);
    fs.link(ino, Ino::ROOT, b"g").expect("linked");
    fs.write(ino, 0, &[1; 100]).expect("room");
    let written = attr(&fs, ino);
    fs.unlink(Ino::ROOT, b"g").expect("it goes");
    let left = attr(&fs, ino);
    assert!(left.ctime > written.ctime && left.mtime == written.mtime && left.size == 100, "{left:?}");
}

/// A writer that keeps the times sets them; the bytes and the size are as ever.
#[test]
fn what_is_written_unnoted_changes_no_times() {
    const DATA: [DataMode; 3] = [DataMode::Sync, DataMode::Atomic, DataMode::Posix];
    for (model, data) in [Model::MAPPED, Model::FILE].into_iter().flat_map(|model| DATA.map(|data| (model, data))) {
        let memory = new_memory(model, POOL_BYTES);
        let fs = open(&memory, Some(data)).expect("it opens");
        let ino = file(&fs);
        let set = SetAttr { mtime: Some(SetTime::To(Time(5))), ctime: Some(Time(7)), ..SetAttr::default() };
        fs.setattr(ino, &set).expect("set");
        let mut expected = vec![0; 30_000];
        for (at, len) in [(0, 100), (100, 100), (50, 100), (0, 9000), (9000, 4096), (20_000, 10_000), (12_000, 9)] {
            let bytes = vec![at as u8 | 1; len];
            assert_eq!(fs.write_unnoted(ino, at as u64, &bytes).expect("room"), len);
            expected[at..at + len].copy_from_slice(&bytes);
            let attr = attr(&fs, ino);
            assert_eq!((attr.mtime, attr.ctime), (Time(5), Time(7)), "{data:?}: {len} bytes at {at}");
        }
        fs.flush().expect("durable");
        let again = open(&Arc::new(LyingMemory::from_image(&memory.snapshot(), model)), Some(data)).expect("it opens");
        let attr = attr(&again, ino);
        assert_eq!((attr.mtime, attr.ctime), (Time(5), Time(7)), "{data:?}");
        assert!(content(&again, ino).expect("it reads") == expected, "{data:?}");
        again.write(ino, 0, b"noted").expect("room");
        assert!(again.getattr(ino).expect("there").mtime > attr.ctime);
    }
}
