//! Threads at work on the same files: no reader sees bytes of another file, and no write is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Format, Pool};

use super::support::*;
use crate::{Allocate, DataMode, FileKind, FileSystem, FsSpec, Ino, Time};

fn mapped(data: Option<DataMode>) -> Arc<FileSystem> {
    let options = MapOptions { guard: Guard::None, read_only: false, name: "threads".into(), ..MapOptions::default() };
    let memory = Arc::new(Mapped::anonymous(48 * CHUNK, &options).expect("memory"));
    Pool::create(&memory, &Format { uuid: [3; 16], boot_id: BOOT }).expect("a new pool");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("it opens").0);
    let spec = FsSpec { super_threshold_bytes: Some(CHUNK), uid: 0, gid: 0, mode: 0o755, hash_seed: 5, now: Time(1) };
    FileSystem::create(&pool, NAME, &spec).expect("room");
    // A clock that stands still lets overwrites go without a lock.
    let options = crate::FsOptions { data, read_only: false, clock: Arc::new(|| Time(5_000_000)) };
    FileSystem::open(pool, NAME, options).expect("it opens")
}

fn file(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino
}

#[test]
fn fl2_nobody_reads_what_is_another_files() {
    for data in [DataMode::Sync, DataMode::Atomic] {
        let fs = mapped(Some(data));
        let files = [(file(&fs, "one"), 1_u8), (file(&fs, "two"), 2)];
        let size = 3 * CHUNK;
        for (ino, byte) in files {
            fs.write(ino, 0, &vec![byte; size as usize]).expect("room");
        }
        let read = || {
            // Long reads, of which most of a superpage is one copy, leave time to be overtaken.
            let mut bytes = vec![0; 1 << 20];
            for (ino, byte) in files {
                for at in (0..size).step_by(1 << 19) {
                    let len = fs.read(ino, at, &mut bytes).expect("it reads");
                    let other = bytes[..len].iter().step_by(512).find(|found| **found != 0 && **found != byte);
                    assert_eq!(other, None, "FL2: bytes of another file");
                }
            }
        };
        let migrate = || _ = fs.step().expect("steps work");
        beside(&[&read, &migrate], || {
            for round in 0..60_u64 {
                for (ino, byte) in files {
                    let at = round * 91 % 600 * 4096;
                    fs.allocate(ino, at..at + 200 * 4096, Allocate::Punch).expect("punched");
                    fs.write(ino, at + 4096, &vec![byte; 150 * 4096]).expect("room");
                    for page in 0..100 {
                        fs.write(ino, page * 3 * 4096, &[byte; 4096]).expect("room");
                    }
                    if round % 10 == 9 {
                        resize(&fs, ino, CHUNK / 2).expect("cut");
                        resize(&fs, ino, size).expect("grown");
                    }
                }
            }
        });
        run_steps(&fs);
        assert_sound(&fs);
    }
}

#[test]
fn fl2_what_was_freed_is_taken_again_after_the_pins_of_before() {
    let fs = mapped(None);
    let ino = file(&fs, "one");
    fs.write(ino, 0, &[1; 5 * 4096]).expect("room");
    let is_gone = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (pinned, is_pinned) = std::sync::mpsc::channel();
        let (unpin, may_unpin) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let pin = ferrite_memory::pin();
            pinned.send(()).expect("the test listens");
            let _ = may_unpin.recv();
            is_gone.store(true, Ordering::SeqCst);
            drop(pin);
        });
        is_pinned.recv().expect("it pins");
        fs.unlink(Ino::ROOT, b"one").expect("it goes");
        assert!(fs.space.deferred_frees.count().0 >= 5);
        let drainer = scope.spawn(|| {
            fs.space.drain_deferred_frees();
            assert!(is_gone.load(Ordering::SeqCst), "FL2: a reader may still copy from them");
        });
        std::thread::yield_now();
        unpin.send(()).expect("it waits");
        drainer.join().expect("it ends");
    });
    assert_eq!(fs.space.deferred_frees.count().0, 0);
    assert_sound(&fs);
}

#[test]
fn a_frozen_pool_does_not_change() {
    let fs = mapped(None);
    let ino = file(&fs, "one");
    fs.write(ino, 0, &[1; 4096]).expect("room");
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let frozen = fs.pool().freeze();
        for work in [|fs: &FileSystem, ino| _ = fs.write(ino, 0, &[2; 4096]), |fs: &FileSystem, _| _ = file(fs, "two")]
        {
            let fs = &fs;
            scope.spawn(move || {
                work(fs, ino);
                assert!(done.load(Ordering::SeqCst), "it changed while the pool stood still");
            });
        }
        std::thread::yield_now();
        assert_eq!(content(&fs, ino).expect("reads go on"), [1; 4096]);
        done.store(true, Ordering::SeqCst);
        drop(frozen);
    });
    assert_eq!(content(&fs, ino).expect("it reads"), [2; 4096]);
    assert_sound(&fs);
}

#[test]
fn fl3_no_write_is_lost_while_a_file_moves() {
    let fs = mapped(None);
    let ino = file(&fs, "moving");
    let pages = 4 * CHUNK / 4096;
    fs.write(ino, 0, &vec![0; 4 * CHUNK as usize]).expect("room");
    let migrate = || _ = fs.step().expect("steps work");
    for round in 1..=30_u8 {
        // Splits what the last round moved.
        for block in 0..4 {
            fs.allocate(ino, block * CHUNK..block * CHUNK + 4096, Allocate::Punch).expect("punched");
            fs.write(ino, block * CHUNK, &[0; 4096]).expect("room");
        }
        resize(&fs, ino, 4 * CHUNK - 1).expect("cut");
        resize(&fs, ino, 4 * CHUNK).expect("grown");
        beside(&[&migrate], || {
            (0..pages).for_each(|page| _ = fs.write(ino, page * 4096, &[round; 4096]).expect("room"));
        });
        let found = content(&fs, ino).expect("it reads");
        let lost = found.chunks(4096).position(|page| page[..4095].iter().any(|byte| *byte != round));
        assert_eq!(lost, None, "round {round}");
        run_steps(&fs);
    }
    assert_sound(&fs);
}

#[test]
fn appends_of_many_threads_are_each_whole() {
    let fs = mapped(None);
    let ino = file(&fs, "log");
    fs.hold(ino).expect("there");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let fs = &fs;
            scope.spawn(move || {
                for number in 0..500_u16 {
                    let mut record = [thread; 32];
                    record[..2].copy_from_slice(&number.to_le_bytes());
                    assert_eq!(fs.append(ino, &record).expect("room").1, 32);
                }
            });
        }
    });
    let found = content(&fs, ino).expect("it reads");
    assert_eq!(found.len(), 4 * 500 * 32);
    let mut next = [0_u16; 4];
    for record in found.chunks(32) {
        let thread = record[31];
        assert!(record[2..].iter().all(|byte| *byte == thread));
        assert_eq!(u16::from_le_bytes([record[0], record[1]]), next[usize::from(thread)], "in order");
        next[usize::from(thread)] += 1;
    }
    assert_sound(&fs);
}

#[test]
fn names_of_many_threads_are_all_there() {
    let fs = mapped(None);
    let dirs: Vec<Ino> = (0..3)
        .map(|i| fs.create_file(Ino::ROOT, format!("d{i}").as_bytes(), &new(FileKind::Directory)).expect("made").ino)
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (fs, dirs) = (&fs, &dirs);
            scope.spawn(move || {
                for number in 0..300_usize {
                    let name = format!("{thread}-{number}");
                    let (from, to) = (dirs[(thread + number) % 3], dirs[(thread + number * 7 + 1) % 3]);
                    fs.create_file(from, name.as_bytes(), &new(FileKind::File)).expect("made");
                    fs.rename((from, name.as_bytes()), (to, b"shared"), crate::Rename::Replace).expect("it moves");
                    fs.create_file(to, name.as_bytes(), &new(FileKind::File)).expect("made");
                    if number % 3 == 0 {
                        fs.unlink(to, name.as_bytes()).expect("it goes");
                    }
                }
            });
        }
    });
    run_steps(&fs);
    assert_sound(&fs);
    let files = tree(&fs).expect("it reads").len();
    assert_eq!(files, 1 + 3 + 4 * 200 + 3);
}
