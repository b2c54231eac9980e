//! Sizes that rest on the bytes before them, from a client's appends on through crashes, overwrites and other owners.

use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};

use super::client_house::House;
use super::crash::{client, leave};
use super::support::*;
use super::{Bug, plant};
use crate::check::look;
use crate::client::direct_io::{DirectIo, DirectOutcome};
use crate::client::known_end::KnownEnd;
use crate::file::ahead;
use crate::share::layout::request::LeaseAccess;
use crate::{FileKind, FileSystem, Ino};

const PAGE: usize = 4096;

/// A file of a page in a new file system, with pages ahead.
pub fn lent(memory: &Arc<LyingMemory>) -> (Arc<FileSystem>, Ino) {
    let fs = open(memory, None).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
    fs.write(ino, 0, &[1; PAGE]).expect("room");
    fs.hold(ino).expect("it is there");
    ahead::reserve_ahead(&fs, ino, 70_000, 8).expect("room");
    (fs, ino)
}

/// Appends `bytes` at `at`, which moves to the new end.
pub fn append(client: &DirectIo<'_, dyn ferrite_memory::Memory + '_>, at: &mut u64, bytes: &[u8], is_known: bool) {
    if is_known {
        client.append_together(0, *at, bytes, || 3_000_000_000).expect("it ended there");
    } else {
        assert_eq!(client.append(0, Some(*at), bytes, || 3_000_000_000), DirectOutcome::Done(*at));
    }
    *at += bytes.len() as u64;
}

/// What is done to the file, and what is in it then.
struct Done<'a> {
    memory: &'a LyingMemory,
    states: Vec<Vec<u8>>,
}

impl Done<'_> {
    fn mark(&mut self, state: Vec<u8>) {
        self.memory.mark(self.states.len() as u64);
        self.states.push(state);
    }
}

/// Every crash of appends of a client, which writes over its last one, before the owner does and appends too.
fn explore_appends(bug: Option<Bug>) -> CrashReport {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let (fs, ino) = lent(&memory);
    fs.flush().expect("nothing fails");
    memory.forget_trace();
    plant(bug);
    let mut done = Done { memory: &memory, states: vec![vec![1; PAGE]] };
    let (end, mut at, mut all) = (KnownEnd::new(), PAGE as u64, vec![1; PAGE]);
    let one = client(&fs, &end);
    for (len, byte, is_known) in [(64, 2, false), (PAGE - 64, 3, true), (64, 4, true), (128, 5, true)] {
        append(&one, &mut at, &vec![byte; len], is_known);
        all.extend(vec![byte; len]);
        done.mark(all.clone());
    }
    // Over the last append: first what it rests on no more, then its bytes.
    let over = at - 100;
    assert_eq!(one.write(0, over, &[6; 50], || 3_000_000_000), DirectOutcome::Refused, "FP3");
    assert_eq!(one.append(0, Some(over), &[6; 50], || 3_000_000_000), DirectOutcome::Done(over));
    all[over as usize..][..50].fill(6);
    done.mark(all.clone());
    append(&one, &mut at, &[7; 192], true);
    all.extend([7; 192]);
    done.mark(all.clone());
    leave(&fs);
    fs.write(ino, at - 192, &[8; 100]).expect("it is there");
    all[at as usize - 192..][..100].fill(8);
    done.mark(all.clone());
    fs.append(ino, &[9; 64]).expect("room");
    all.extend([9; 64]);
    done.mark(all);
    plant(None);
    let states = done.states;
    let options = ExploreOptions {
        images_per_point_max: 96,
        samples_per_point: 96,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(&memory, &options, |crash| {
        let fs = open(&Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let found = content(&fs, ino).map_err(|error| error.to_string())?;
        let mark = crash.last_mark().unwrap_or(0) as usize;
        let (old, new) = (&states[mark], states.get(mark + 1).unwrap_or(&states[mark]));
        let is_mixed = || {
            found.len() == old.len()
                && old.len() == new.len()
                && (0..found.len()).all(|i| [old[i], new[i]].contains(&found[i]))
        };
        if found != *old && found != *new && !is_mixed() {
            return Err(format!("{} bytes after mark {mark}, of {} or {}", found.len(), old.len(), new.len()));
        }
        match look(fs.pool(), &fs.tag()) {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(format!("{wrong:?}")),
        }
    })
}

#[test]
fn fp_every_crash_of_appends_behind_one_fence_leaves_what_was_acknowledged() {
    explore_appends(None).assert_clean();
}

#[test]
fn canary_what_a_size_rests_on_and_is_stored_over_is_found() {
    assert!(explore_appends(Some(Bug::UncommittedSize)).failure.is_some());
}

#[test]
fn canary_a_proof_over_that_of_the_append_before_is_found() {
    assert!(explore_appends(Some(Bug::OneChecksum)).failure.is_some());
}

/// Its bytes may have been stored over, so the next append must not leave the size to rest on them.
#[test]
fn fp3_after_a_write_over_the_end_that_found_no_pages_the_size_rests_on_nothing() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let (fs, ino) = lent(&memory);
    let (end, mut at) = (KnownEnd::new(), PAGE as u64);
    let one = client(&fs, &end);
    append(&one, &mut at, &[2; 64], false);
    append(&one, &mut at, &[3; 64], true);
    assert_eq!(one.append(0, Some(at - 64), &[4; 200_000], || 3_000_000_000), DirectOutcome::NoPages);
    memory.forget_trace();
    append(&one, &mut at, &[5; 64], true);
    leave(&fs);
    let options = ExploreOptions {
        images_per_point_max: 96,
        samples_per_point: 96,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    let report = explore(&memory, &options, |crash| {
        let fs = open(&Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let found = content(&fs, ino).map_err(|error| error.to_string())?;
        // What was stored over was not acknowledged.
        let (first, last) = found.split_at(found.len().min(PAGE + 128));
        let is_first = first.len() == PAGE + 128 && first[PAGE + 64..].iter().all(|byte| [3, 4].contains(byte));
        if is_first && (last.is_empty() || last == [5; 64]) { Ok(()) } else { Err(format!("{} bytes", found.len())) }
    });
    report.assert_clean();
}

/// A crash that left the last of an append without the first is no append, even when the first comes later.
#[test]
fn fp4_what_a_crash_left_of_an_append_never_counts() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let (fs, ino) = lent(&memory);
    let (end, mut at) = (KnownEnd::new(), PAGE as u64);
    let one = client(&fs, &end);
    append(&one, &mut at, &[2; 64], false);
    let before = memory.snapshot();
    append(&one, &mut at, &[3; 192], true);
    let mut image = memory.snapshot();
    let first = image.windows(192).position(|bytes| *bytes == [3; 192]).expect("it was stored");
    image[first..first + 64].copy_from_slice(&before[first..first + 64]);
    drop(fs);
    let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
    let expected = [&[1; PAGE][..], &[2; 64], &[3; 64]].concat();
    let fs = open(&memory, None).expect("it opens");
    let has = |fs: &FileSystem, len: usize| content(fs, ino).expect("it reads") == expected[..len];
    assert!(has(&fs, PAGE + 64), "FP1: its bytes are not there");
    assert_eq!(fs.append(ino, &[3; 64]).expect("room"), (PAGE as u64 + 64, 64));
    assert!(has(&fs, expected.len()));
    assert_sound(&fs);
    drop(fs);
    let fs = open(&Arc::new(LyingMemory::from_image(&memory.snapshot(), Model::MAPPED)), None).expect("it opens");
    assert!(has(&fs, expected.len()), "FP4: nor are they when they come one by one");
    assert_sound(&fs);
}

/// Opening a file that a crash left in this state commits its size, so that later readers need not verify its bytes.
#[test]
fn fp4_a_file_that_is_held_rests_on_nothing() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let (fs, ino) = lent(&memory);
    let (end, mut at) = (KnownEnd::new(), PAGE as u64);
    let one = client(&fs, &end);
    append(&one, &mut at, &[2; 64], false);
    append(&one, &mut at, &[3; 64], true);
    let fs = open(&Arc::new(LyingMemory::from_image(&memory.snapshot(), Model::MAPPED)), None).expect("it opens");
    assert!(fs.load(ino).expect("there").needs_commit());
    fs.hold(ino).expect("there");
    assert!(!fs.load(ino).expect("there").needs_commit());
    assert_eq!(fs.getattr(ino).expect("there").size, at);
}

/// Others read each append when it has returned, whole; so do the client's other threads, and what the client writes
/// over its last append stays.
#[test]
fn fp1_everybody_sees_each_append_as_soon_as_it_returns() {
    let house = House::new();
    let ino = house.file("log", b"");
    let (writer, reader) = (house.client(), house.client());
    let lease = writer.lease(ino, LeaseAccess::Append).expect("leased");
    let other = reader.lease(ino, LeaseAccess::Read).expect("leased");
    let mut all = Vec::new();
    for number in 0..600_usize {
        let record = vec![(number % 250) as u8 + 1; [64, PAGE, 100, 4032][number % 4]];
        assert_eq!(lease.append(&record), Some((all.len() as u64, record.len())));
        all.extend(&record);
        if number % 3 == 0 {
            let over = all.len() - 30;
            assert_eq!(lease.write(over as u64, &[0xff; 20]), Some(20), "record {number}");
            all[over..over + 20].fill(0xff);
        }
        let from = all.len().saturating_sub(9000);
        let expected = &all[from..];
        for lease in [&lease, &other] {
            let mut bytes = vec![0; expected.len() + 1];
            assert_eq!(lease.read(from as u64, &mut bytes), Some(expected.len()), "record {number}");
            assert!(bytes[..expected.len()] == *expected, "record {number}");
        }
        assert_eq!(house.fs.getattr(ino).expect("there").size, all.len() as u64);
    }
    drop((lease, other));
    assert!(!house.fs.load(ino).expect("there").needs_commit(), "who appends no more leaves nothing to read");
    assert!(content(&house.fs, ino).expect("it reads") == all);
    assert_sound(&house.fs);
}

/// A reader beside an appender, on another thread: every byte before the size that it sees is there.
#[test]
fn fp1_a_reader_beside_sees_only_bytes_that_are_there() {
    let house = House::new();
    let ino = house.file("log", b"");
    let (writer, reader) = (house.client(), house.client());
    let lease = writer.lease(ino, LeaseAccess::Append).expect("leased");
    let other = reader.lease(ino, LeaseAccess::Read).expect("leased");
    const PAGES: u64 = 4000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..PAGES {
                let page = [number as u8 % 250 + 1; PAGE];
                let appended =
                    lease.append(&page).map_or_else(|| house.fs.append(ino, &page).expect("room").0, |(at, _)| at);
                assert_eq!(appended, number * PAGE as u64);
            }
        });
        let mut seen = 0;
        while seen < PAGES {
            let mut page = [0; PAGE];
            let read = other.read(seen * PAGE as u64, &mut page);
            let read = read.unwrap_or_else(|| house.fs.read(ino, seen * PAGE as u64, &mut page).expect("it reads"));
            assert!(read == 0 || read == PAGE, "{read} bytes of page {seen}");
            if read == PAGE {
                assert!(page == [seen as u8 % 250 + 1; PAGE], "page {seen}");
                seen += 1;
            }
        }
    });
    assert_sound(&house.fs);
}
