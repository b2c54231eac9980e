//! Pages that were taken ahead of appends that do not come.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_crash::{LyingMemory, Model};
use ferrite_pool::Pool;
use ferrite_pool::layout::CHUNK;

use super::client_house::*;
use super::client_leases::Copied;
use super::support::*;
use crate::file::ahead;
use crate::{Allocate, DataMode, FileKind, FileSystem, FsOptions, Ino, Time};

const PAGE: u64 = 4096;
/// Bytes of a file that a kernel writes by two requests, and what it has for them: pages, and one that names them.
const BYTES: u64 = 1_100_000;
const ALLOCATED: u64 = BYTES.next_multiple_of(PAGE) + PAGE;

const KINDS: [(Model, Option<DataMode>); 2] = [(Model::MAPPED, None), (Model::FILE, Some(DataMode::Posix))];

/// Writes a file as a kernel does, which remembers it; how much of it fits.
fn put(fs: &FileSystem, name: &str) -> (Ino, u64) {
    let ino = fs.create_file_held(name);
    let (mut at, content) = (0, vec![5; BYTES as usize]);
    while at < BYTES {
        let end = (at + (1 << 20)).min(BYTES);
        match fs.write(ino, at, &content[at as usize..end as usize]) {
            Ok(written) => at += written as u64,
            Err(error) if error.is_no_space() => break,
            Err(error) => panic!("{error}"),
        }
    }
    (ino, at)
}

impl FileSystem {
    fn create_file_held(&self, name: &str) -> Ino {
        let ino = self.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("made").ino;
        self.hold(ino).expect("held");
        ino
    }
}

/// Bytes that go into such files until there is no space.
fn fill(fs: &FileSystem, prefix: &str) -> u64 {
    let mut sum = 0;
    for number in 0.. {
        let written = put(fs, &format!("{prefix}{number}")).1;
        sum += written;
        if written < BYTES {
            break;
        }
    }
    sum
}

fn allocated(fs: &FileSystem, ino: Ino) -> u64 {
    fs.getattr(ino).expect("there").allocated_bytes
}

/// The file system as the next owner finds it after the owner was killed.
fn killed(fs: Arc<FileSystem>, memory: &LyingMemory, (model, data): (Model, Option<DataMode>)) -> Arc<FileSystem> {
    fs.flush().expect("durable");
    let image = memory.snapshot();
    drop(fs);
    open(&Arc::new(LyingMemory::from_image(&image, model)), data).expect("it opens")
}

/// A file system whose clock is the returned one.
fn with_clock(kind: (Model, Option<DataMode>)) -> (Arc<FileSystem>, Arc<AtomicI64>) {
    let pool = Pool::open(new_memory(kind.0, POOL_BYTES), BOOT).expect("it opens").0;
    let time = Arc::new(AtomicI64::new(2_000_000_000));
    let message = Arc::clone(&time);
    let clock = Arc::new(move || Time(message.load(Ordering::Relaxed)));
    let options = FsOptions { data: kind.1, read_only: false, clock };
    (FileSystem::open(Arc::new(pool), NAME, options).expect("it opens"), time)
}

#[test]
fn fx1_files_that_are_remembered_fill_what_is_free() {
    for (model, data) in KINDS {
        let fs = open(&new_memory(model, POOL_BYTES), data).expect("it opens");
        let free = fs.statfs().free_bytes;
        let written = fill(&fs, "f");
        assert!(written + 2 * CHUNK > free, "{written} bytes where {free} were free");
        assert_sound(&fs);
    }
}

#[test]
fn fx1_what_was_taken_ahead_goes_back_when_a_file_rests() {
    for kind in KINDS {
        let (fs, time) = with_clock(kind);
        let (ino, _) = put(&fs, "f");
        run_steps(&fs);
        let ahead = allocated(&fs, ino);
        assert!(ahead > ALLOCATED + 10 * PAGE, "pages were taken ahead");
        time.fetch_add(900_000_000, Ordering::Relaxed);
        fs.append(ino, &[5; 10]).expect("room");
        time.fetch_add(900_000_000, Ordering::Relaxed);
        run_steps(&fs);
        assert_eq!(allocated(&fs, ino), ahead, "it is still being written to");
        time.fetch_add(1_000_000_000, Ordering::Relaxed);
        run_steps(&fs);
        assert_eq!(allocated(&fs, ino), ALLOCATED);
        fs.append(ino, &[5; 10_000]).expect("room");
        assert_eq!(content(&fs, ino).expect("it reads"), vec![5; BYTES as usize + 10_010]);
        assert_sound(&fs);
    }
}

#[test]
fn fx1_what_was_asked_for_or_a_client_has_stays() {
    let house = House::new();
    let (kept, lent) = (house.fs.create_file_held("kept"), house.file("lent", &[7; 40_000]));
    for ino in [kept, lent] {
        (0..64).for_each(|_| assert_eq!(house.fs.append(ino, &[7; 2000]).expect("room").1, 2000));
    }
    house.fs.allocate(kept, 0..2 << 20, Allocate::KeepSize).expect("room");
    let client = house.client();
    let lease = to_append(&client, lent);
    let before = [kept, lent].map(|ino| allocated(&house.fs, ino));
    ahead::free_all_ahead(&house.fs, || Some(house.fs.gate.pass()));
    ahead::free_left_ahead(&house.fs);
    assert_eq!([kept, lent].map(|ino| allocated(&house.fs, ino)), before);
    drop(lease);
    house.fs.release(kept, 1);
    assert_eq!(allocated(&house.fs, kept), before[0]);
    assert!(allocated(&house.fs, lent) < before[1], "the client's went back with its lease");
    assert_sound(&house.fs);
}

/// As on tmpfs and ext4, whether that is more than one change frees or not.
#[test]
fn fx1_what_was_asked_for_goes_with_a_cut_to_the_same_size() {
    for (kind, size, kept) in KINDS.into_iter().flat_map(|kind| [(kind, 5000, 100_000), (kind, 0, 4 << 20)]) {
        let (fs, time) = with_clock(kind);
        let ino = fs.create_file_held("f");
        fs.write(ino, 0, &vec![5; size as usize]).expect("room");
        fs.allocate(ino, 0..kept, Allocate::KeepSize).expect("room");
        time.fetch_add(2_000_000_000, Ordering::Relaxed);
        run_steps(&fs);
        assert!(allocated(&fs, ino) >= kept, "it was asked for");
        resize(&fs, ino, size + 1).expect("grown");
        run_steps(&fs);
        assert!(allocated(&fs, ino) >= kept, "nothing was cut");
        resize(&fs, ino, size + 1).expect("cut");
        run_steps(&fs);
        let page_and_index = 3 * PAGE;
        assert!(allocated(&fs, ino) <= page_and_index, "{} bytes", allocated(&fs, ino));
        assert_eq!(content(&fs, ino).expect("it reads"), [&vec![5; size as usize][..], &[0]].concat());
        assert_sound(&fs);
    }
}

/// Only then: what a client was given to append to stays its own.
#[test]
fn fx1_what_was_asked_for_goes_with_a_clients_cut_to_the_same_size() {
    let house = House::new();
    let [kept, lent] = ["kept", "lent"].map(|name| house.file(name, &[7; 40_000]));
    house.fs.allocate(kept, 0..4 << 20, Allocate::KeepSize).expect("room");
    let client = house.client();
    let [asked, given] = [kept, lent].map(|ino| {
        let lease = to_append(&client, ino);
        let before = allocated(&house.fs, ino);
        assert_eq!(lease.resize(40_000), Some(()));
        assert_eq!(lease.append(&[8; 100]), Some((40_000, 100)), "the lease stays");
        assert_eq!(content(&house.fs, ino).expect("it reads"), [&[7; 40_000][..], &[8; 100]].concat());
        (before, allocated(&house.fs, ino))
    });
    run_steps(&house.fs);
    assert!(asked.0 >= 4 << 20 && allocated(&house.fs, kept) <= 12 * PAGE, "{} bytes", allocated(&house.fs, kept));
    assert!(given.0 > 1 << 20 && given.1 == given.0, "{given:?}");
    assert_sound(&house.fs);
}

#[test]
fn fx1_nothing_stays_ahead_when_the_file_system_is_left() {
    for (model, data) in KINDS {
        let fs = open(&new_memory(model, POOL_BYTES), data).expect("it opens");
        let inos = [put(&fs, "f").0, put(&fs, "g").0];
        assert!(inos.iter().all(|ino| allocated(&fs, *ino) > ALLOCATED));
        fs.dismiss();
        assert_eq!(inos.map(|ino| allocated(&fs, ino)), [ALLOCATED; 2]);
        assert_sound(&fs);
    }
}

/// Also what waits for an fsync when the kernel forgets it.
#[test]
fn fx1_nothing_stays_ahead_when_nobody_holds_a_file() {
    for kind in KINDS {
        let (fs, time) = with_clock(kind);
        let (ino, _) = put(&fs, "f");
        fs.release(ino, 1);
        time.fetch_add(1_000_000_000, Ordering::Relaxed);
        run_steps(&fs);
        assert_eq!(allocated(&fs, ino), ALLOCATED);
        assert_sound(&fs);
    }
}

#[test]
fn fx2_what_a_crash_left_goes_back_when_a_file_is_held() {
    for kind in KINDS {
        let memory = new_memory(kind.0, POOL_BYTES);
        let fs = open(&memory, kind.1).expect("it opens");
        let (ino, _) = put(&fs, "f");
        let fs = killed(fs, &memory, kind);
        assert!(allocated(&fs, ino) > ALLOCATED, "a crash leaves it");
        fs.hold(ino).expect("held");
        assert_eq!(allocated(&fs, ino), ALLOCATED);
        assert_eq!(content(&fs, ino).expect("it reads"), vec![5; BYTES as usize]);
        assert_sound(&fs);
    }
}

#[test]
fn fx2_what_a_crash_left_is_had_by_who_has_no_space() {
    for kind in KINDS {
        let memory = new_memory(kind.0, POOL_BYTES);
        let fs = open(&memory, kind.1).expect("it opens");
        let free = fs.statfs().free_bytes;
        let first: u64 = (0..12).map(|number| put(&fs, &format!("f{number}")).1).sum();
        let fs = killed(fs, &memory, kind);
        let written = first + fill(&fs, "g");
        assert!(written + 2 * CHUNK > free, "{written} bytes where {free} were free");
        assert_sound(&fs);
    }
}

/// An allocation of chunks gets the pages that many files had ahead.
#[test]
fn fx2_what_a_crash_left_others_in_the_pool_get() {
    let kind = KINDS[0];
    let memory = new_memory(kind.0, POOL_BYTES);
    let fs = open(&memory, kind.1).expect("it opens");
    let ino = fs.create_file_held("f");
    fs.write(ino, 0, &[5; 10]).expect("room");
    ahead::reserve_ahead(&fs, ino, 3 * CHUNK, 2).expect("room");
    let fs = killed(fs, &memory, kind);
    let own = fs.statfs().own_bytes;
    assert!(fs.spare(), "it had some");
    assert!(fs.statfs().own_bytes + 3 * CHUNK <= own, "{own} bytes, then {}", fs.statfs().own_bytes);
    assert_sound(&fs);
}

#[test]
fn fx3_copies_of_attributes_are_forgotten_behind_what_goes_back() {
    for kind in KINDS {
        let ((fs, time), copies) = (with_clock(kind), Arc::new(Copied::default()));
        fs.set_copies(Arc::<Copied>::clone(&copies));
        let (ino, _) = put(&fs, "f");
        run_steps(&fs);
        assert!(copies.attributes_forgotten.lock().is_empty(), "nothing went");
        time.fetch_add(2_000_000_000, Ordering::Relaxed);
        run_steps(&fs);
        assert_eq!(allocated(&fs, ino), ALLOCATED);
        assert_eq!(*copies.attributes_forgotten.lock(), [ino]);
        ahead::free_left_ahead(&fs);
        run_steps(&fs);
        assert_eq!(copies.attributes_forgotten.lock().len(), 1, "nothing more went");
    }
}

/// A block of 2 MiB that moves to a superpage takes pages that were not there, and gives back the one that named it.
#[test]
fn fx3_copies_of_attributes_are_forgotten_behind_a_move() {
    let (house, copies) = (House::new(), Arc::new(Copied::default()));
    house.fs.set_copies(Arc::<Copied>::clone(&copies));
    let ino = house.file("f", &vec![7; CHUNK as usize + 10]);
    let before = allocated(&house.fs, ino);
    run_steps(&house.fs);
    assert_ne!(allocated(&house.fs, ino), before);
    assert_eq!(*copies.attributes_forgotten.lock(), [ino]);
}
