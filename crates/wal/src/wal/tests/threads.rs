//! Many writers at once, beside a drainer and readers.

use ferrite_crash::interleave;
use ferrite_memory::planted::{PlantedBug, plant_with};

use super::super::append::ReservedPlace;
use super::*;

/// Returns record `number` of `writer`.
fn signed(writer: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![writer as u8; 16 + (number as usize * 37) % 400];
    bytes[..8].copy_from_slice(&writer.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Returns the number of records of each writer; they must be whole and in its order.
fn counts(wal: &Wal, writers: u64) -> Verdict<Vec<u64>> {
    let mut counts = vec![0; writers as usize];
    for record in wal.records() {
        let (position, bytes) = record.map_err(|error| error.to_string())?;
        let writer = u64::from_le_bytes(*bytes.first_chunk().ok_or("a short record")?);
        let next = counts.get_mut(writer as usize).ok_or("no such writer")?;
        if bytes != signed(writer, *next) {
            return Err(format!("at {position:?} not record {next} of writer {writer}"));
        }
        *next += 1;
    }
    Ok(counts)
}

/// As fast as the threads run, many times around a small ring.
#[test]
fn wo1_wo2_writers_a_drainer_and_a_reader_race() {
    let (each, writers) = (rounds(400), 3);
    for model in Model::ALL {
        let (memory, folder) = (new_pool(model), LyingFolder::default());
        memory.keep_trace(false);
        let wal = create(&memory, &folder);
        let ended = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (wal, ended) = (&wal, &ended);
                scope.spawn(move || {
                    for number in 0..each {
                        let durability = if number % 2 == 0 { Durability::Strict } else { Durability::Relaxed };
                        wal.append(&signed(writer, number), durability).unwrap();
                    }
                    ended.fetch_add(1, Ordering::Release);
                });
            }
            scope.spawn(|| {
                while ended.load(Ordering::Acquire) < writers {
                    wal.step().unwrap();
                }
            });
            while ended.load(Ordering::Acquire) < writers {
                counts(&wal, writers).unwrap();
            }
        });
        wal.commit().unwrap();
        assert_eq!(counts(&wal, writers).unwrap(), vec![each; writers as usize]);
    }
}

/// Makes each pause of the calling thread read a word of `memory`, where the interleaver switches threads.
fn pass_turn_in_pauses(memory: Arc<LyingMemory>) -> PlantedBug {
    plant_with("wal: thread pauses", move || {
        memory.load_word(0);
        false
    })
}

/// One thread at a time, switched at every call of the memory by seed, and crashed afterwards: each acknowledged record
/// is there.
#[test]
fn wo2_crash_seeded_writers_interleaved_at_every_call() {
    let first = seed();
    for seed in first..first + rounds(20) {
        for model in Model::ALL {
            let (memory, folder) = (new_pool(model), LyingFolder::default());
            memory.keep_trace(false);
            let wal = create(&memory, &folder);
            let (acknowledged, stop) = ([const { AtomicU64::new(0) }; 3], 4);
            let writer = |writer: usize| -> Box<dyn FnOnce() + Send + '_> {
                let (wal, acknowledged, memory) = (&wal, &acknowledged, memory.clone());
                Box::new(move || {
                    let _passes = pass_turn_in_pauses(memory);
                    for number in 0..stop {
                        wal.append(&signed(writer as u64, number), Durability::Strict).unwrap();
                        acknowledged[writer].fetch_add(1, Ordering::Release);
                    }
                })
            };
            let mut jobs: Vec<Box<dyn FnOnce() + Send + '_>> = (0..3).map(writer).collect();
            let (drains, drained) = (&wal, memory.clone());
            jobs.push(Box::new(move || {
                let _passes = pass_turn_in_pauses(drained);
                (0..6).for_each(|_| _ = drains.step().unwrap());
            }));
            interleave(seed, jobs);
            let after = open(&Arc::new(memory.crash(seed)), &folder).unwrap();
            let counts = counts(&after, 3).unwrap();
            assert!(
                counts
                    .iter()
                    .zip(&acknowledged)
                    .all(|(found, acknowledged)| *found >= acknowledged.load(Ordering::Acquire)),
                "seed {seed}: {counts:?}"
            );
        }
    }
}

/// A reader of records that are being truncated continues with the remaining ones.
#[test]
fn readers_beside_truncations_meet_no_error() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    memory.keep_trace(false);
    let wal = create(&memory, &folder);
    let count = rounds(1000);
    let at: Vec<LogPosition> = (0..count).map(|it| wal.append(&payload(it), Durability::Strict).unwrap()).collect();
    std::thread::scope(|scope| {
        let truncating = scope.spawn(|| at.iter().for_each(|position| wal.truncate(*position).unwrap()));
        while !truncating.is_finished() {
            let left = numbers(&wal).unwrap();
            assert!(left.is_sorted() && left.last() == Some(&(count - 1)), "{left:?}");
        }
    });
}

/// A writer that panics half-way does not leave the others waiting for ever.
#[test]
fn a_writer_that_panics_breaks_the_log_and_nobody_hangs() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    wal.append(&signed(0, 0), Durability::Strict).unwrap();
    drop(ReservedPlace { wal: &wal, start: wal.reserve(2).unwrap() });
    let message = wal.append(&signed(0, 1), Durability::Strict).unwrap_err().to_string();
    assert!(message.contains("ended before its record was whole"), "{message}");
    assert_eq!(counts(&wal, 1).unwrap(), [1]);
    drop(wal);
    assert_eq!(counts(&open(&memory, &folder).unwrap(), 1).unwrap(), [1]);
}
