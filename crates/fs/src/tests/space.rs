//! What is free, and which allocation gets it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use ferrite_crash::{LyingMemory, Model};
use ferrite_pool::layout::CHUNK;

use super::client_house::*;
use super::support::*;
use super::{Bug, plant};
use crate::client::FileLease;
use crate::format::layout::CHUNK_INODES;
use crate::format::layout::ChunkKind;
use crate::share::layout::request::LeaseAccess;
use crate::tree::inode_lifetime;
use crate::{Error, FileKind, FileSystem, FsOptions, FsSpec, Ino, Result, Time};

fn file(fs: &FileSystem, name: &str) -> Ino {
    fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).expect("it is made").ino
}

/// Writes to `ino` until nothing more goes in; how many bytes did.
fn fill(fs: &FileSystem, ino: Ino) -> u64 {
    let mut sum = 0;
    for len in [64 << 10, 4096] {
        loop {
            match fs.write(ino, sum, &vec![1; len]) {
                Ok(written) => sum += written as u64,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    sum
}

/// `df` is asked whether something fits.
#[test]
fn what_is_said_to_be_free_can_be_had() {
    let fs = new_fs();
    let ino = file(&fs, "large");
    let free = fs.statfs().free_bytes;
    let written = fill(&fs, ino);
    assert!(written.abs_diff(free) <= CHUNK, "{free} bytes were free, {written} went in");
    assert!(fs.statfs().free_bytes < CHUNK, "{:?}", fs.statfs());
}

/// Every chunk has something in it and half of all is free: names, words and inodes get chunks, for files move
/// together.
#[test]
fn fe_what_is_free_in_parts_can_be_had_for_anything() {
    let fs = open(&new_memory(Model::MAPPED, 40 * CHUNK), None).expect("it opens");
    let page = |number: u64| vec![number as u8; 4096];
    let mut count = 0;
    while fs
        .create_file(Ino::ROOT, count.to_string().as_bytes(), &new(FileKind::File))
        .is_ok_and(|made| fs.write(made.ino, 0, &page(count)).is_ok_and(|written| written == 4096))
    {
        count += 1;
    }
    (0..count).step_by(2).for_each(|number| fs.unlink(Ino::ROOT, number.to_string().as_bytes()).expect("it goes"));
    run_steps(&fs);
    let free = fs.statfs().free_bytes;
    assert!(free > 25 << 20, "{free} bytes free");
    let folder = |number: u64| -> Result<()> {
        let folder = fs.create_file(Ino::ROOT, format!("folder {number}").as_bytes(), &new(FileKind::Directory))?.ino;
        let file = fs.create_file(folder, b"file", &new(FileKind::File))?.ino;
        match fs.write(file, 0, &page(number))? {
            4096 => fs.set_xattr(file, b"user.x", &[5; 600], crate::SetXattr::Any),
            _ => Err(Error::NoSpace),
        }
    };
    let folders = (0..).find(|number| folder(*number).is_err_and(|error| error.is_no_space())).expect("it ends");
    let had = folders * 3 * 4096;
    assert!(had > free / 10 * 7, "{had} of {free} bytes that were free");
    for number in (1..count).step_by(2) {
        let ino = fs.lookup(Ino::ROOT, number.to_string().as_bytes()).expect("there").ino;
        assert!(content(&fs, ino).expect("it reads") == page(number), "{number}");
    }
    assert_sound(&fs);
}

/// Chunks that inodes had are for content when the files are gone, in the same run too.
#[test]
fn fc2_what_many_small_files_had_a_large_one_gets() {
    let fs = new_fs();
    let before = fill(&fs, file(&fs, "large"));
    fs.unlink(Ino::ROOT, b"large").expect("it goes");
    run_steps(&fs);
    let names: Vec<String> = (0..40_000).map(|number| format!("small-{number}")).collect();
    names.iter().for_each(|name| _ = file(&fs, name));
    names.iter().for_each(|name| fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes"));
    run_steps(&fs);
    let after = fill(&fs, file(&fs, "large"));
    assert!(after + 2 * CHUNK >= before, "{before} bytes, and {after} after many small files");
    assert_sound(&fs);
}

/// Others in the pool have what an emptied file system had: of inodes, names and content, and what its threads took
/// from.
#[test]
fn fc2_what_an_emptied_file_system_had_goes_back_to_the_pool() {
    let fs = open(&new_memory(Model::MAPPED, 60 * CHUNK), None).expect("it opens");
    let work = |thread: u64| {
        let names: Vec<String> = (0..9000).map(|number| format!("{thread}-{number}")).collect();
        names.iter().for_each(|name| _ = fs.write(file(&fs, name), 0, &[1; 100]).expect("room"));
        names.iter().for_each(|name| fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes"));
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|thread| {
            _ = scope.spawn({
                let work = &work;
                move || work(thread)
            })
        })
    });
    run_steps(&fs);
    let own = fs.statfs().own_bytes;
    assert!(own <= 4 * CHUNK, "{} chunks of nothing but the root", own / CHUNK);
    assert_sound(&fs);
}

/// A crash while chunks of inodes and names go back leaves every file that is there, and nothing of those that were.
#[test]
fn fc3_every_crash_while_chunks_of_inodes_go_back_is_sound() {
    let memory = new_memory(Model::MAPPED, 40 * CHUNK);
    let fs = open(&memory, None).expect("it opens");
    let kept = file(&fs, "kept");
    fs.write(kept, 0, b"bytes").expect("room");
    let names: Vec<String> = (0..5 * CHUNK_INODES).map(|number| number.to_string()).collect();
    names.iter().for_each(|name| _ = file(&fs, name));
    names.iter().for_each(|name| fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes"));
    inode_lifetime::free_removed(&fs);
    let own = fs.statfs().own_bytes;
    memory.forget_trace();
    run_steps(&fs);
    assert!(fs.statfs().own_bytes < own, "nothing went back");
    // And the few that it keeps, where others ask.
    assert!(fs.spare(), "it had none left");
    super::crash::explore_sound(&memory, 3, |fs| {
        let found = fs.lookup(Ino::ROOT, b"kept").map_err(|error| error.to_string())?.ino;
        let read = content(fs, found).map_err(|error| error.to_string())?;
        file(fs, "again");
        if read == b"bytes" { Ok(()) } else { Err(format!("{} bytes", read.len())) }
    })
    .assert_clean();
}

/// A small file that grew by appends takes no more than one that was written at once; who remembers where its pages
/// were found reads and writes on.
#[test]
fn ft2_what_was_appended_ends_as_low_as_it_can() {
    let house = House::new();
    let (ino, other) = (house.file("log", b""), house.client());
    let client = house.client();
    let mut expected = Vec::new();
    for round in 0..3 {
        let lease = to_append(&client, ino);
        for number in 0..20_u8 {
            assert!(lease.append(&[number; 500]).is_some());
            expected.extend([number; 500]);
        }
        let seen = other.lease(ino, LeaseAccess::Write).expect("leased beside it");
        let mut bytes = vec![0; expected.len()];
        assert_eq!(seen.read(0, &mut bytes), Some(bytes.len()));
        drop(lease);
        assert_eq!(
            seen.write(4000, &[100 + round; 200]),
            Some(200),
            "the index is lower, the pages are where they were"
        );
        expected[4000..4200].fill(100 + round);
        assert_eq!(seen.read(0, &mut bytes), Some(bytes.len()));
        assert!(bytes == expected && content(&house.fs, ino).expect("it reads") == expected);
        let allocated = house.fs.getattr(ino).expect("there").allocated_bytes;
        assert_eq!(allocated, (expected.len() as u64).next_multiple_of(4096), "of {} bytes", expected.len());
        assert_sound(&house.fs);
    }
    let lease = to_append(&client, ino);
    assert!(lease.append(&[7; 5000]).is_some());
    drop(lease);
    let allocated = house.fs.getattr(ino).expect("there").allocated_bytes;
    assert_eq!(allocated, 35_000_u64.next_multiple_of(4096) + 4096, "nine pages need one that names them");
    assert_sound(&house.fs);
}

/// Returns true if content that lies where inodes were is still there after a kill: records of the files that ended
/// may be in the log.
fn outlives_a_kill(bug: Option<Bug>) -> bool {
    const SMALL: u64 = 9000;
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let large = file(&fs, "large");
    let mut files: Vec<(Ino, String)> =
        (0..SMALL).map(|number| format!("small-{number}")).map(|n| (file(&fs, &n), n)).collect();
    let taken = files[SMALL as usize - 1].0.0 / CHUNK_INODES;
    assert!(taken > 0, "there is more than one chunk of them");
    let at = fill(&fs, large);
    // Those that lie at the beginning of the chunk end last.
    files.sort_by_key(|(ino, _)| std::cmp::Reverse(ino.0));
    files.retain(|(ino, _)| ino.0 / CHUNK_INODES == taken);
    files.iter().for_each(|(_, name)| fs.unlink(Ino::ROOT, name.as_bytes()).expect("it goes"));
    plant(bug);
    assert_eq!(fs.write(large, at, &[1; 16 << 10]).expect("room"), 16 << 10);
    plant(None);
    assert_eq!(fs.space.kind(taken), Some(ChunkKind::Data), "content lies there");
    let image = memory.snapshot();
    drop(fs);
    let again = open(&Arc::new(LyingMemory::from_image(&image, Model::MAPPED)), None).expect("it opens");
    let found = content(&again, large).expect("it reads");
    found.len() as u64 == at + (16 << 10) && found.iter().all(|byte| *byte == 1)
}

#[test]
fn fc1_nothing_is_replayed_over_what_lies_where_inodes_were() {
    assert!(outlives_a_kill(None));
}

#[test]
fn canary_a_chunk_that_is_used_anew_too_soon_is_found() {
    assert!(!outlives_a_kill(Some(Bug::HastyChunk)));
}

/// Pages of names and words lie apart by thread, as long as that takes little of what content could have.
#[test]
fn threads_of_a_small_file_system_share_a_chunk_of_names() {
    const THREADS: usize = 16;
    let fs = new_fs();
    let ready = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (fs, ready) = (&fs, &ready);
            scope.spawn(move || {
                ready.wait();
                let name = format!("folder-{thread}");
                let folder = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::Directory)).expect("made").ino;
                fs.create_file(folder, b"file", &new(FileKind::File)).expect("made");
            });
        }
    });
    let chunks = (0..fs.space.chunks()).filter(|chunk| fs.space.kind(*chunk) == Some(ChunkKind::Index)).count();
    assert!(chunks <= 4, "{chunks} chunks for {THREADS} folders");
    assert_sound(&fs);
}

/// Another thread may be about to free the space that an allocation needs.
#[test]
fn what_is_on_its_way_out_of_limbo_is_waited_for() {
    let fs = new_fs();
    let ino = file(&fs, "one");
    fs.write(ino, 0, &[1; 8192]).expect("room");
    fs.unlink(Ino::ROOT, b"one").expect("it goes");
    let (deferred_frees, pins) = (&fs.space.deferred_frees, &*fs.clients);
    assert!(deferred_frees.count().0 >= 2);
    let (message, heard) = mpsc::channel();
    std::thread::scope(|scope| {
        deferred_frees.drain(pins, |_| {
            scope.spawn(move || {
                deferred_frees.drain(pins, |_| ());
                message.send(()).expect("the test listens");
            });
            let early = heard.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "it found nothing, while something was on its way");
        });
        heard.recv().expect("it goes on");
    });
}

/// Another thread may have freed all there was during one attempt.
#[test]
fn who_met_no_space_while_another_got_some_looks_again() {
    let fs = new_fs();
    let other = file(&fs, "other");
    fill(&fs, file(&fs, "large"));
    fs.unlink(Ino::ROOT, b"large").expect("it goes");
    assert!(fs.orphans.some_ready(1).len() == 1, "it goes by steps");
    let mut tries = 0;
    let done = fs.with_space(|| {
        tries += 1;
        if tries > 1 {
            return Ok(());
        }
        // This one gets it.
        fs.write(other, 0, &[1; 1 << 20])?;
        Err(Error::NoSpace)
    });
    assert!(done.is_ok() && tries == 2, "{done:?} after {tries} tries");
    assert_sound(&fs);
}

/// What clients have ahead is little beside what is free, and those who meet no space all at once get it.
#[test]
fn fg7_many_who_append_to_small_files_find_space() {
    const THREADS: usize = 24;
    let house = House::new();
    let client = house.client();
    let full = house.file("full", b"");
    let room = house.fs.statfs().free_bytes - (24 << 20);
    (0..room >> 20)
        .for_each(|at| assert_eq!(house.fs.write(full, at << 20, &vec![1; 1 << 20]).expect("room"), 1 << 20));
    let (ready, by_itself) = (Barrier::new(THREADS), AtomicUsize::new(0));
    let append = |lease: &FileLease, ino| {
        // A program that has no pages by itself asks the kernel.
        if lease.append(&[7; 4096]).is_some() {
            by_itself.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        house.fs.append(ino, &[7; 4096]).map(drop)
    };
    let work = |thread: usize| {
        // A failing thread waits for the others first: they wait for it.
        let rounds = (0..6).map(|round| {
            let name = format!("fresh-{thread}-{round}");
            let ino = house.file(&name, b"");
            let lease = client.lease(ino, LeaseAccess::Append).expect("leased");
            let appended = (0..100).try_for_each(|_| append(&lease, ino));
            ready.wait();
            drop(lease);
            house.fs.unlink(Ino::ROOT, name.as_bytes()).and(appended)
        });
        rounds.collect::<Vec<Result<()>>>().into_iter().collect::<Result<()>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends").expect("there is space"));
    });
    let by_itself = by_itself.into_inner();
    assert!(by_itself > THREADS * 6 * 50, "{by_itself} appends by themselves: most of them");
    assert_sound(&house.fs);
}

/// Space that one thread freed is available to another at once, without the steps of the first.
#[test]
fn fc3_what_a_file_system_can_spare_is_had_by_another_and_by_disks() {
    let one = new_fs();
    let pool = Arc::clone(one.pool());
    let spec = FsSpec { super_threshold_bytes: None, uid: 0, gid: 0, mode: 0o755, hash_seed: 1, now: Time(1) };
    FileSystem::create(&pool, "two", &spec).expect("room");
    let options = FsOptions { data: None, read_only: false, clock: Arc::new(|| Time(2)) };
    let two = FileSystem::open(Arc::clone(&pool), "two", options).expect("it opens");
    let fill = |fs: &FileSystem| {
        let ino = fs.create_file(Ino::ROOT, b"fill", &new(FileKind::File)).expect("made").ino;
        let mut size = 0;
        while let Ok(written) = fs.append(ino, &[7; 65536]) {
            size += written.1 as u64;
        }
        size
    };
    let most = fill(&one);
    assert!(most > 8 << 20, "{most} bytes");
    one.unlink(Ino::ROOT, b"fill").expect("it goes");
    let had = fill(&two);
    assert!(had > most - most / 8, "{had} of {most} bytes");
    two.unlink(Ino::ROOT, b"fill").expect("it goes");
    let spec = FsSpec { hash_seed: 2, ..spec };
    FileSystem::create(&pool, "three", &spec).expect("what is free again is room for one more");
    [&one, &two].into_iter().for_each(|fs| assert_sound(fs));
}

/// A call while the pool stands still returns what is known; a backup can take minutes.
#[test]
fn bk1_how_much_is_free_is_told_amid_a_backup() {
    let house = House::new();
    house.file("large", &vec![1; 24 << 20]);
    house.fs.unlink(Ino::ROOT, b"large").expect("it goes");
    assert!(house.fs.orphans.some_ready(1).len() == 1, "it goes by steps");
    let (mut image, mut asked) = (Vec::new(), false);
    let watch = &mut |_| {
        if !asked {
            asked = true;
            let (fs, (message, heard)) = (house.fs.clone(), mpsc::channel());
            std::thread::spawn(move || message.send(fs.statfs()));
            heard.recv_timeout(Duration::from_secs(20)).expect("BK1: it waits for the backup");
        }
        true
    };
    ferrite_pool::backup::backup(house.fs.pool(), &mut image, [3; 16], watch).expect("it is written");
    assert!(asked);
    assert_sound(&house.fs);
}
