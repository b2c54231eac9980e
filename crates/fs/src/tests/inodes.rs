//! What a repair makes of inodes, and of names that lead to the wrong one.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;

use super::repair::{checked, closed, place, repaired};
use super::support::*;
use crate::tree::directory;
use crate::{Error, FileKind, FileSystem, Ino, SetAttr};

/// Runs `damage` on the closed medium of a file system that `make` has filled, and repairs it.
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
    let mut message = BTreeSet::new();
    assert!(
        report.findings.iter().all(|wrong| message.insert((&wrong.what, wrong.at))),
        "twice: {:#?}",
        report.findings
    );
    let fs = open(&memory, None).expect("it opens");
    assert_sound(&fs);
    (fs, made)
}

fn make(fs: &FileSystem, dir: Ino, name: &str, kind: FileKind) -> Ino {
    fs.create_file(dir, name.as_bytes(), &new(kind)).expect("made").ino
}

/// Where the word lies that says what `name` in `dir` leads to.
fn way(fs: &FileSystem, dir: Ino, name: &str) -> u64 {
    let name = directory::hash_name(fs, name.as_bytes()).expect("a name");
    let hit = directory::find_name(fs, &fs.load(dir).expect("there"), &name).expect("it reads").expect("there");
    hit.entry.at() + 8
}

fn found(fs: &FileSystem, path: &str) -> Option<Ino> {
    let names = path.split('/');
    names.into_iter().try_fold(Ino::ROOT, |dir, name| Some(fs.lookup(dir, name.as_bytes()).ok()?.ino))
}

/// Two directories with a file each, and the words that lead to them and to a file.
fn two(fs: &FileSystem, [one, other]: [(Ino, &str); 2]) -> ([Ino; 2], [u64; 3]) {
    let dirs = [one, other].map(|(dir, name)| make(fs, dir, name, FileKind::Directory));
    dirs.iter().for_each(|dir| _ = make(fs, *dir, "file", FileKind::File));
    make(fs, Ino::ROOT, "beside", FileKind::File);
    let ways = [way(fs, one.0, one.1), way(fs, other.0, other.1), way(fs, Ino::ROOT, "beside")];
    (dirs, ways)
}

/// Makes the name with the word at `at` lead to `ino`.
fn lead(memory: &LyingMemory, at: u64, ino: Ino) {
    let was = memory.load_word(at);
    assert!(was < 1 << 32 && was != ino.0, "the word is a number");
    memory.store_word(at, ino.0);
}

#[test]
fn a_directory_that_two_names_lead_to_lies_where_it_says_and_the_other_is_found() {
    for which in [0, 1] {
        let fill = |fs: &FileSystem| {
            let above = ["a", "b"].map(|name| make(fs, Ino::ROOT, name, FileKind::Directory));
            two(fs, above.map(|dir| (dir, "sub")))
        };
        let (fs, (dirs, _)) = mended(fill, |memory, (dirs, ways)| lead(memory, ways[1 - which], dirs[which]));
        let (own, other) = [("a", "b"), ("b", "a")][which];
        assert_eq!(found(&fs, &format!("{own}/sub")), Some(dirs[which]));
        assert_eq!(found(&fs, &format!("{other}/sub")), None);
        assert_eq!(found(&fs, &format!("lost+found/#{}", dirs[1 - which].0)), Some(dirs[1 - which]));
        assert!(found(&fs, &format!("lost+found/#{}/file", dirs[1 - which].0)).is_some());
    }
}

#[test]
fn of_two_names_in_one_directory_one_is_kept_and_no_directory_is_lost() {
    let fill = |fs: &FileSystem| two(fs, [(Ino::ROOT, "a"), (Ino::ROOT, "b")]);
    let (fs, (dirs, _)) = mended(fill, |memory, (dirs, ways)| lead(memory, ways[1], dirs[0]));
    let named: Vec<Ino> = ["a", "b"].into_iter().filter_map(|name| found(&fs, name)).collect();
    assert_eq!(named, [dirs[0]]);
    assert!(found(&fs, &format!("lost+found/#{}/file", dirs[1].0)).is_some());
}

/// One leads up to where it lies, one to the root, and one is a file's.
#[test]
fn a_name_that_leads_up_or_is_a_files_keeps_no_directory_elsewhere() {
    for root in [false, true] {
        let fill = |fs: &FileSystem| {
            let above = make(fs, Ino::ROOT, "a", FileKind::Directory);
            (above, two(fs, [(above, "b"), (above, "c")]))
        };
        let (fs, (above, _)) = mended(fill, |memory, (above, (_, ways))| {
            lead(memory, ways[1], if root { Ino::ROOT } else { *above });
            lead(memory, ways[2], *above);
        });
        let kept = ["a", "beside"].into_iter().filter(|name| found(&fs, name) == Some(above)).count();
        assert_eq!((kept, fs.getattr(Ino::ROOT).expect("there").links), (1, 4));
        let names = fs.list(above, 0, 100).expect("it lists").into_iter().map(|entry| entry.name);
        assert!(names.eq([b"b"]));
        assert_eq!(fs.list(found(&fs, "lost+found").expect("made"), 0, 100).expect("it lists").len(), 2);
    }
}

#[test]
fn an_owner_that_none_can_be_is_roots_without_the_rights_of_who_runs_it() {
    let fill = |fs: &FileSystem| {
        let ino = make(fs, Ino::ROOT, "file", FileKind::File);
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

#[test]
fn a_symbolic_link_without_its_target_is_given_up() {
    for word in [0, 1 << 62 | 77] {
        let fill = |fs: &FileSystem| {
            let ino = fs.symlink(Ino::ROOT, b"link", &[b't'; 200], ME).expect("made").ino;
            fs.link(ino, Ino::ROOT, b"another").expect("room");
            fs.symlink(Ino::ROOT, b"other", &[b'u'; 200], ME).expect("made");
            ino
        };
        let (fs, ino) = mended(fill, |memory, ino| memory.store_word(place(memory, ino.0) + 64, word));
        assert!(["link", "another", "lost+found"].into_iter().all(|name| found(&fs, name).is_none()));
        assert!(matches!(fs.getattr(ino), Err(Error::Stale)));
        assert_eq!(fs.readlink(found(&fs, "other").expect("kept")).expect("it reads"), [b'u'; 200]);
    }
}

/// Its head, which says of how many pages it is, is written with its words.
#[test]
fn what_is_put_right_of_an_inode_is_not_undone_by_what_comes_next() {
    let fill = |fs: &FileSystem| {
        let ino = make(fs, Ino::ROOT, "file", FileKind::File);
        fs.write(ino, 0, &[b'a'; 8192]).expect("room");
        ino
    };
    let (fs, ino) = mended(fill, |memory, ino| memory.store_word(place(memory, ino.0) + 64, 1 << 62 | 77));
    assert_eq!(content(&fs, ino).expect("it reads"), [[0; 4096], [b'a'; 4096]].concat());
}
