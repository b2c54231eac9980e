//! The log compared with a list of records: crashes, failures, threads.

mod crash;
mod failures;
mod folder;
mod golden;
mod model;
mod openings;
mod segment_disks;
mod threads;

use ferrite_crash::{LyingMemory, Model, rounds, seed};
use ferrite_memory::{Memory, Scheme, forward_memory};
use ferrite_pool::Format;
use ferrite_pool::layout::{CHUNK, PAGE, POOL_BYTES_MIN};

use super::*;
use folder::LyingFolder;

/// A memory that wipes no line.
struct Unwiped(Arc<LyingMemory>);

impl Memory for Unwiped {
    forward_memory!(self => self.0; size, survival, fence_is_durable, load, zero, load_word, store_word, store_words, flush,
        fence, barrier, reserve);

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        if *from != [0; 64] {
            self.0.store(at, from, how);
        }
    }
}

const BOOT: [u8; 16] = [7; 16];
/// Bytes of the ring: 128 lines.
const CAPACITY: u64 = 2 * PAGE;

/// The result of a checker.
type Verdict<T = ()> = std::result::Result<T, String>;

fn new_pool(model: Model) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(POOL_BYTES_MIN + CHUNK, model);
    Pool::create(&memory, &Format { uuid: *b"wal test pool 01", boot_id: BOOT }).unwrap();
    memory.barrier().unwrap();
    memory.forget_trace();
    Arc::new(memory)
}

fn open_pool(memory: &Arc<LyingMemory>) -> Verdict<Arc<Pool>> {
    let shared: Arc<dyn Memory> = if planted!("wal: ring keeps lines behind its end") {
        Arc::new(Unwiped(memory.clone()))
    } else {
        memory.clone()
    };
    Ok(Arc::new(Pool::open(shared, BOOT).map_err(|error| error.to_string())?.0))
}

fn create(memory: &Arc<LyingMemory>, folder: &(impl SegmentFolder + Clone + 'static)) -> Arc<Wal> {
    let spec = WalSpec { capacity_bytes: CAPACITY };
    let wal = Wal::create(&open_pool(memory).unwrap(), "log", &spec, Box::new(folder.clone())).unwrap();
    // Small segments give several in each run.
    wal.set_segment_bytes(6 << 10);
    wal
}

fn open(memory: &Arc<LyingMemory>, folder: &(impl SegmentFolder + Clone + 'static)) -> Verdict<Arc<Wal>> {
    let wal = Wal::open(&open_pool(memory)?, "log", Box::new(folder.clone())).map_err(|error| error.to_string())?;
    wal.set_segment_bytes(6 << 10);
    Ok(wal)
}

/// Returns the payload of record `number`: short ones and ones over several lines.
fn payload(number: u64) -> Vec<u8> {
    let len = [0, 60, 300, 7][number as usize % 4];
    number.to_le_bytes().into_iter().cycle().take(8 + len).collect()
}

/// Returns the numbers of the records in `wal`, each checked.
fn numbers(wal: &Wal) -> Verdict<Vec<u64>> {
    let mut numbers = Vec::new();
    for record in wal.records() {
        let (position, bytes) = record.map_err(|error| error.to_string())?;
        let number = u64::from_le_bytes(*bytes.first_chunk().ok_or("a short record")?);
        if bytes != payload(number) {
            return Err(format!("record {number} at {position:?} holds something else"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// Checks that `numbers` run from `first` without a gap to `least` or further.
fn runs(numbers: &[u64], first: u64, least: u64) -> Verdict {
    let right = numbers.iter().enumerate().all(|(i, number)| *number == first + i as u64);
    let end = first + numbers.len() as u64;
    if right && end >= least {
        return Ok(());
    }
    Err(format!("{numbers:?} where {first}.. up to {least} at least was durable"))
}

#[test]
fn records_are_read_back_from_files_and_ring_as_one() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    for number in 0..40 {
        wal.append(&payload(number), Durability::Strict).unwrap();
        if number == 25 {
            wal.drain().unwrap();
        }
    }
    let standing = wal.standing();
    assert!(standing.start < standing.head && standing.head < standing.durable, "{standing:?}");
    runs(&numbers(&wal).unwrap(), 0, 40).unwrap();
    let third = wal.records().nth(2).unwrap().unwrap().0;
    let tail: Vec<_> = wal.records_from(third).map(|record| record.unwrap().1).collect();
    assert_eq!((tail.len(), &tail[0]), (38, &payload(2)));
    drop(wal);
    runs(&numbers(&open(&memory, &folder).unwrap()).unwrap(), 0, 40).unwrap();
}

#[test]
fn truncation_forgets_records_and_frees_files_and_stays_after_opening() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    let at: Vec<LogPosition> =
        (0..200).map(|number| wal.append(&payload(number), Durability::Strict).unwrap()).collect();
    wal.drain().unwrap();
    let files = folder.names().len();
    assert!(files > 3, "{files} files");
    wal.truncate(at[150]).unwrap();
    runs(&numbers(&wal).unwrap(), 150, 200).unwrap();
    assert!(folder.names().len() < files);
    for bad in [at[162].number() + 1, wal.standing().end.number() + 1] {
        let error = wal.truncate(LogPosition::from_number(bad)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("no record of log \"log\" starts at position {bad}")), "{error}");
    }
    wal.append(&payload(200), Durability::Strict).unwrap();
    drop(wal);
    let wal = open(&memory, &folder).unwrap();
    runs(&numbers(&wal).unwrap(), 150, 201).unwrap();
    wal.truncate(wal.standing().end).unwrap();
    assert_eq!(numbers(&wal).unwrap(), Vec::<u64>::new());
}

#[test]
fn a_group_is_appended_as_one_and_what_never_fits_is_refused() {
    let (memory, folder) = (new_pool(Model::FILE), LyingFolder::default());
    let wal = create(&memory, &folder);
    let payloads: Vec<Vec<u8>> = (0..5).map(payload).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let calls = memory.calls();
    let at = wal.append_many(&payloads, Durability::Strict).unwrap();
    assert_eq!(memory.calls() - calls, 1, "five copies share one barrier");
    assert_eq!(at, wal.records().map(|record| record.unwrap().0).collect::<Vec<_>>());
    for none in [&[0; CAPACITY as usize][..], &[0; CAPACITY as usize - 23]] {
        let error = wal.append(none, Durability::Strict).unwrap_err().to_string();
        assert!(error.contains("do not fit log \"log\", which holds 8192"), "{error}");
    }
    wal.append(&[0; CAPACITY as usize - 24], Durability::Strict).unwrap();
}

/// During a backup or a check the pool is frozen: appends wait, and continue afterwards.
#[test]
fn appends_wait_while_the_pool_stands_still() {
    let pool = open_pool(&new_pool(Model::MAPPED)).unwrap();
    let folder = Box::new(LyingFolder::default());
    let wal = Wal::create(&pool, "log", &WalSpec { capacity_bytes: CAPACITY }, folder).unwrap();
    let frozen = pool.freeze();
    std::thread::scope(|scope| {
        let appends = [0, 1].map(|number| {
            let wal = &wal;
            scope.spawn(move || wal.append(&payload(number), Durability::Strict))
        });
        for _ in 0..1000 {
            assert_eq!(wal.standing().end.number(), 0);
            std::thread::yield_now();
        }
        drop(frozen);
        appends.into_iter().for_each(|append| _ = append.join().unwrap().unwrap());
    });
    assert_eq!(wal.records().count(), 2);
}
