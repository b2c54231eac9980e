//! B8: a store that did not arrive is reported, and the old content stays.

use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_memory::{Error, forward_memory};

use super::*;

/// A memory that loses one store.
struct Lossy {
    memory: Arc<LyingMemory>,
    /// Stores until the one that is lost; negative: none is.
    countdown: AtomicI64,
}

impl Lossy {
    fn over(memory: Arc<LyingMemory>) -> Arc<Self> {
        Arc::new(Self { memory, countdown: AtomicI64::new(-1) })
    }

    fn lose(&self, nth: i64) {
        self.countdown.store(nth, Ordering::Relaxed);
    }

    /// Whether there was no store to be lost.
    fn has_lost_none(&self) -> bool {
        self.countdown.swap(-1, Ordering::Relaxed) >= 0
    }
}

impl Memory for Lossy {
    forward_memory!(
        self => self.memory;
        size, survival, fence_is_durable, load, zero, load_word, store_word, store_words, flush, fence, barrier
    );

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        if self.countdown.load(Ordering::Relaxed) < 0 || self.countdown.fetch_sub(1, Ordering::Relaxed) > 0 {
            self.memory.store(at, from, how);
        }
    }
}

fn verified() -> Vec<Way> {
    ways().into_iter().filter(|way| way.options.verify).collect()
}

/// Loses each store of a write and its flush in turn. The error is reported, and each block is then as before or as
/// written. In place the old content is gone: a read returns one of the two or reports damage.
#[test]
fn b8_a_store_that_does_not_arrive_is_told_and_the_old_block_stays() {
    for way in verified() {
        let memory = Lossy::over(fresh(way));
        memory.memory.keep_trace(false);
        let disk = open(memory.clone(), way);
        disk.write(0, &content(BLOCKS * 8, 1), Access::Fua).expect("written");
        for nth in 0.. {
            disk.write(0, &content(BLOCKS * 8, 1), Access::Fua).expect("written");
            memory.lose(nth);
            let written = disk.write(1024, &content(40, 2), Access::Fua);
            if memory.has_lost_none() {
                assert!(written.is_ok() && nth > 1);
                break;
            }
            let message = written.expect_err("told");
            assert!(matches!(message, Error::Damaged(_)), "{way:?} store {nth}: {message}");
            let mut expected = content(BLOCKS * 8, 1);
            let old = expected.clone();
            expected[1024..1024 + 40 * 512].copy_from_slice(&content(40, 2));
            for at in (0..BLOCKS * BLOCK).step_by(4096) {
                let mut found = vec![0; 4096];
                let range = at as usize..at as usize + 4096;
                match disk.read(at, &mut found) {
                    Ok(()) => assert!(
                        found == old[range.clone()] || found == expected[range],
                        "{way:?} store {nth}: block at {at} is neither old nor new"
                    ),
                    Err(error) => assert!(way.options.in_place && matches!(error, Error::Damaged(_)), "{error}"),
                }
            }
        }
    }
}

#[test]
fn b8_after_a_lost_store_a_new_write_arrives_and_is_there_when_reopened() {
    for way in verified() {
        for nth in 0..2 {
            let memory = Lossy::over(fresh(way));
            memory.memory.keep_trace(false);
            let disk = open(memory.clone(), way);
            disk.write(0, &content(8, 1), Access::Fua).expect("written");
            memory.lose(nth);
            if way.options.in_place && !way.checksum && nth > 0 {
                continue;
            }
            assert!(disk.write(0, &content(8, 2), Access::Fua).is_err(), "{way:?} store {nth}");
            assert!(!memory.has_lost_none());
            disk.write(0, &content(8, 3), Access::Fua).expect("written");
            drop(disk);
            assert!(read_all(&*open(memory.memory.clone(), way))[..4096] == content(8, 3));
        }
    }
}

#[test]
fn without_verify_nobody_notices() {
    let way = ways()[0];
    let memory = Lossy::over(fresh(way));
    let disk = open(memory.clone(), way);
    memory.lose(0);
    disk.write(0, &content(8, 1), Access::Fua).expect("this is what verify is for");
    assert!(read_all(&*disk)[..4096] != content(8, 1));
}
