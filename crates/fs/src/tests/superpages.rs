//! Files that move to superpages, and chunks that come and go.

use ferrite_crash::Model;
use ferrite_memory::Memory;
use ferrite_pool::layout::CHUNK;

use super::client_house::House;
use super::support::*;
use crate::share::layout::request::LeaseAccess;
use crate::store::change::FREED_PAGES_MAX;
use crate::tree::inode_lifetime;
use crate::{Allocate, FileKind, FileSystem, Ino};

/// A file of `chunks` times 2 MiB and `more` bytes, each page told from the others.
fn large(fs: &FileSystem, chunks: u64, more: u64) -> (Ino, Vec<u8>) {
    let ino = fs.create_file(Ino::ROOT, b"large", &new(FileKind::File)).expect("made").ino;
    let bytes: Vec<u8> = (0..chunks * CHUNK + more).map(|i| (i / 4096 * 7 + i % 13) as u8).collect();
    assert_eq!(fs.write(ino, 0, &bytes).expect("room"), bytes.len());
    (ino, bytes)
}

fn supers(fs: &FileSystem) -> u64 {
    fs.statfs().super_bytes / CHUNK
}

#[test]
fn fs1_a_file_moves_to_superpages_and_back() {
    let fs = open(&new_memory(Model::MAPPED, 40 * CHUNK), None).expect("it opens");
    let (ino, mut bytes) = large(&fs, 3, 10_000);
    assert_eq!(supers(&fs), 0);
    run_steps(&fs);
    assert_eq!(supers(&fs), 3, "whole blocks have moved, the rest has not");
    assert!(content(&fs, ino).expect("it reads") == bytes);
    assert_sound(&fs);
    fs.write(ino, CHUNK - 5, b"over two superpages").expect("room");
    bytes[CHUNK as usize - 5..][..19].copy_from_slice(b"over two superpages");
    fs.allocate(ino, CHUNK + 1000..CHUNK + 20_000, Allocate::Punch).expect("punched");
    bytes[CHUNK as usize + 1000..CHUNK as usize + 20_000].fill(0);
    assert!(content(&fs, ino).expect("it reads") == bytes);
    assert_eq!(supers(&fs), 2, "a hole is not kept in a superpage");
    assert_sound(&fs);
    resize(&fs, ino, CHUNK / 2).expect("cut");
    run_steps(&fs);
    assert_eq!(supers(&fs), 0, "what a cut leaves of a superpage becomes pages");
    bytes.truncate(CHUNK as usize / 2);
    assert!(content(&fs, ino).expect("it reads") == bytes);
    let attr = fs.getattr(ino).expect("there");
    assert!(attr.allocated_bytes < CHUNK / 2 + 20 * 4096, "{}", attr.allocated_bytes);
    assert_sound(&fs);
}

/// Where there is no room for copies, whole superpages become pages all the same.
#[test]
fn fs1_a_superpage_of_a_full_file_system_becomes_pages() {
    let house = House::new();
    let ino = house.file("log", b"");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    let piece = vec![7; CHUNK as usize];
    while lease.append(&piece).is_some() {}
    drop(lease);
    run_steps(&house.fs);
    let size = house.fs.getattr(ino).expect("there").size;
    let all = supers(&house.fs);
    assert!(all > 30, "{all}");
    for block in 0..size / CHUNK {
        house
            .fs
            .allocate(ino, block * CHUNK + 4096..block * CHUNK + 8192, Allocate::Punch)
            .expect("one page is enough");
    }
    assert_eq!(supers(&house.fs), 0);
    let found = content(&house.fs, ino).expect("it reads");
    let is_hole = |at: usize| at as u64 % CHUNK / 4096 == 1;
    assert!(found.iter().enumerate().all(|(at, byte)| *byte == if is_hole(at) { 0 } else { 7 }));
    assert_sound(&house.fs);
}

/// A record has room for so many superpages: a file of more goes by steps.
#[test]
fn a_removed_file_of_many_superpages_goes_by_steps() {
    let fs = open(&new_memory(Model::MAPPED, 60 * CHUNK), None).expect("it opens");
    let (ino, _) = large(&fs, 2 * FREED_PAGES_MAX + 1, 0);
    run_steps(&fs);
    assert_eq!(supers(&fs), 2 * FREED_PAGES_MAX + 1);
    fs.hold(ino).expect("there");
    fs.unlink(Ino::ROOT, b"large").expect("held");
    fs.release(ino, 1);
    let mut steps = 0;
    while inode_lifetime::step_orphans(&fs).expect("each fits a record") {
        steps += 1;
    }
    assert_eq!(steps, 2, "and one when it was let go");
    assert_eq!(supers(&fs), 0);
    assert_sound(&fs);
}

/// However many append, there is space for each as long as there is any: none is given most of what is free.
#[test]
fn fg7_many_clients_append_much_in_little_space() {
    let house = House::new();
    let client = house.client();
    let leases: Vec<_> = (0..12)
        .map(|number| client.lease(house.file(&format!("log {number}"), b""), LeaseAccess::Append).expect("leased"))
        .collect();
    let piece = vec![7; 256 << 10];
    for _ in 0..12 {
        assert!(leases.iter().all(|lease| lease.append(&piece).is_some()), "{:?}", house.fs.statfs());
    }
    assert_sound(&house.fs);
}

#[test]
fn fs1_small_files_and_blocks_with_holes_stay() {
    let fs = open(&new_memory(Model::MAPPED, 40 * CHUNK), None).expect("it opens");
    let (ino, _) = large(&fs, 1, 0);
    run_steps(&fs);
    assert_eq!(supers(&fs), 0, "below the threshold");
    resize(&fs, ino, 5 * CHUNK).expect("grown");
    fs.write(ino, 3 * CHUNK, &vec![1; CHUNK as usize - 6 * 4096]).expect("room");
    run_steps(&fs);
    assert_eq!(supers(&fs), 1, "the first block alone is there for 99 %");
    fs.write(ino, 4 * CHUNK - 6 * 4096, &[1; 4096]).expect("room");
    resize(&fs, ino, 6 * CHUNK).expect("grown");
    fs.hold(ino).expect("there");
    run_steps(&fs);
    assert_sound(&fs);
}

/// FS1: a client that appends much has superpages ahead, and keeps of the last one only what it has used.
#[test]
fn fs1_a_client_appends_to_superpages() {
    let house = House::new();
    let ino = house.file("log", b"");
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    let bytes: Vec<u8> = (0..9 * CHUNK + CHUNK / 3).map(|i| (i / 4096 * 7 + i % 13) as u8).collect();
    for piece in bytes.chunks(50_001) {
        assert!(lease.append(piece).is_some(), "it needs the mount for nothing");
    }
    assert!(supers(&house.fs) > 8, "all but the first block, and some ahead");
    let mut found = vec![0; bytes.len()];
    assert_eq!(lease.read(0, &mut found), Some(bytes.len()));
    assert!(found == bytes && content(&house.fs, ino).expect("it reads") == bytes);
    assert_sound(&house.fs);
    drop(lease);
    let allocated = house.fs.getattr(ino).expect("there").allocated_bytes;
    assert!(allocated <= bytes.len() as u64 + 20 * 4096, "{allocated}");
    assert!(content(&house.fs, ino).expect("it reads") == bytes);
    run_steps(&house.fs);
    assert_eq!(supers(&house.fs), 9, "the first block has moved, the last one is pages");
    assert!(content(&house.fs, ino).expect("it reads") == bytes);
    assert_sound(&house.fs);
}

#[test]
fn fs3_a_file_that_a_client_appends_to_moves_when_that_has_ended() {
    let house = House::new();
    let ino = house.file("log", &vec![7; 2 * CHUNK as usize]);
    let lease = house.client().lease(ino, LeaseAccess::Append).expect("leased");
    run_steps(&house.fs);
    assert_eq!(supers(&house.fs), 0, "FS3: not while a client appends");
    assert_eq!(lease.append(&[8; 100]), Some((2 * CHUNK, 100)));
    drop(lease);
    run_steps(&house.fs);
    assert_eq!(supers(&house.fs), 2, "FS3: it is looked for again");
    assert_sound(&house.fs);
}

#[test]
fn fs2_every_crash_while_a_file_moves_leaves_its_bytes() {
    let memory = new_memory(Model::MAPPED, 24 * CHUNK);
    let fs = open(&memory, None).expect("it opens");
    let (_, bytes) = large(&fs, 2, CHUNK / 2);
    memory.forget_trace();
    run_steps(&fs);
    assert_eq!(supers(&fs), 2);
    let report = super::crash::explore_sound(&memory, 3, |fs| {
        let ino = fs.lookup(Ino::ROOT, b"large").map_err(|error| error.to_string())?.ino;
        let found = content(fs, ino).map_err(|error| error.to_string())?;
        if found == bytes { Ok(()) } else { Err("FS2: other bytes".into()) }
    });
    report.assert_clean();
}

#[test]
fn fc3_chunks_go_back_to_the_pool_and_come_again() {
    let memory = new_memory(Model::MAPPED, 40 * CHUNK);
    let fs = open(&memory, None).expect("it opens");
    let (own, free) = (fs.statfs().own_bytes, fs.pool().usage().free_bytes);
    let (ino, _) = large(&fs, 12, 0);
    assert!(fs.statfs().own_bytes >= own + 12 * CHUNK);
    resize(&fs, ino, 0).expect("cut");
    memory.forget_trace();
    run_steps(&fs);
    assert!(fs.pool().usage().free_bytes + 5 * CHUNK >= free, "the pool has its chunks back");
    assert_sound(&fs);
    super::crash::explore_sound(&memory, 3, |_| Ok(())).assert_clean();
    let after = open(&std::sync::Arc::new(memory.kill()), None).expect("it opens");
    assert_eq!(after.statfs().own_bytes, fs.statfs().own_bytes);
    fs.write(ino, 0, &vec![4; 20 * CHUNK as usize]).expect("room");
    assert_sound(&fs);
    assert!(memory.size() > 0);
}

/// A step that finds something to do for ever keeps a processor busy for as long as the file system is mounted.
#[test]
fn steps_end_also_where_many_threads_keep_an_empty_chunk_each() {
    let fs = open(&new_memory(Model::MAPPED, 60 * CHUNK), None).expect("it opens");
    let ready = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (fs, ready) = (&fs, &ready);
            scope.spawn(move || {
                let name = format!("{thread}");
                let ino = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino;
                fs.write(ino, 0, &[1; 4096]).expect("room");
                ready.wait();
                fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes");
            });
        }
    });
    let steps = (0..1000).take_while(|_| fs.step().expect("steps work")).count();
    assert!(steps < 1000, "they do not end");
    assert_sound(&fs);
}

#[test]
fn fc2_chunks_of_inodes_are_used_for_something_else_when_all_are_free() {
    let fs = open(&new_memory(Model::MAPPED, 40 * CHUNK), None).expect("it opens");
    let dir = fs.create_file(Ino::ROOT, b"d", &new(FileKind::Directory)).expect("made").ino;
    let make = |fs: &FileSystem| {
        (0..9000)
            .map(|i| fs.create_file(dir, format!("{i}").as_bytes(), &new(FileKind::File)).expect("room"))
            .collect::<Vec<_>>()
    };
    let first = make(&fs);
    assert!(fs.statfs().inodes >= 9001);
    (0..9000).for_each(|i| fs.unlink(dir, format!("{i}").as_bytes()).expect("it goes"));
    run_steps(&fs);
    assert_sound(&fs);
    assert!(fs.statfs().own_bytes <= 6 * CHUNK, "{}", fs.statfs().own_bytes / CHUNK);
    let (ino, bytes) = large(&fs, 12, 0);
    assert!(content(&fs, ino).expect("it reads") == bytes);
    let again = make(&fs);
    assert_sound(&fs);
    let same =
        again.iter().filter(|attr| first.iter().any(|old| (old.ino, old.generation) == (attr.ino, attr.generation)));
    assert_eq!(same.count(), 0, "FI4: a number and a generation name one file for ever");
}

#[test]
fn readers_go_on_while_a_file_moves_and_writers_lose_nothing() {
    let fs = open(&new_memory(Model::MAPPED, 40 * CHUNK), None).expect("it opens");
    let (ino, bytes) = large(&fs, 4, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| run_steps(&fs));
        scope.spawn(|| {
            let mut page = [0; 4096];
            for i in 0..3000_u64 {
                let at = i * 37 % 1000 * 4096;
                fs.read(ino, at, &mut page).expect("it reads");
                assert!(page[100..] == bytes[at as usize + 100..][..3996]);
            }
        });
        scope.spawn(|| {
            for i in 0..1000_u64 {
                fs.write(ino, i * 4096, &[9; 8]).expect("it writes");
            }
        });
    });
    run_steps(&fs);
    let found = content(&fs, ino).expect("it reads");
    assert!((0..1000).all(|i| found[i * 4096..][..8] == [9; 8] && found[i * 4096 + 8] == bytes[i * 4096 + 8]));
    assert_sound(&fs);
}
