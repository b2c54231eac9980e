//! What a repair makes of inodes, and of names that lead to the wrong one.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_medium::Memory;

use super::repair::{checked, closed, place, repaired};
use super::world::*;
use crate::{FileSystem, Ino, Kind, SetAttr};

/// Lets `damage` happen to the closed medium of a file system that `make` has filled, and repairs it.
#[track_caller]
fn mended<T>(make: impl FnOnce(&FileSystem) -> T, damage: impl FnOnce(&Arc<LyingMemory>, &T)) -> (Arc<FileSystem>, T) {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    let made = make(&fs);
    closed(fs);
    damage(&memory, &made);
    assert!(!checked(&memory).is_sound());
    let report = repaired(&memory);
    assert!(report.is_sound(), "{:#?}", report.findings);
    let fs = open(&memory, None).expect("it opens");
    assert_sound(&fs);
    (fs, made)
}

fn make(fs: &FileSystem, dir: Ino, name: &str, kind: Kind) -> Ino {
    fs.create_file(dir, name.as_bytes(), &new(kind)).expect("made").ino
}

#[test]
fn an_owner_that_none_can_be_is_roots_without_the_rights_of_who_runs_it() {
    let fill = |fs: &FileSystem| {
        let ino = make(fs, Ino::ROOT, "file", Kind::File);
        fs.setattr(ino, &SetAttr { mode: Some(0o6755), ..SetAttr::default() }).expect("it is set");
        ino
    };
    for (lost, owner) in [(u64::MAX, (0, 0)), (0xffff_ffff, (0, ME.gid)), (0xffff_ffff << 32, (ME.uid, 0))] {
        let damage = |memory: &Arc<LyingMemory>, ino: &Ino| {
            let at = place(memory, ino.0) + 8;
            memory.store_word(at, memory.load_word(at) | lost);
        };
        let (fs, ino) = mended(fill, damage);
        let attr = fs.getattr(ino).expect("there");
        assert_eq!((attr.uid, attr.gid, attr.mode), (owner.0, owner.1, 0o755));
    }
}
