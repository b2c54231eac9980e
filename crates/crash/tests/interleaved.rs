//! The stores of two threads, in orders that seeds choose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_crash::{ExploreOptions, LyingMemory, Model, ThreadJob, explore, interleave};
use ferrite_memory::{Memory, Scheme, Span};

fn job<'a>(job: impl FnOnce() + Send + 'a) -> ThreadJob<'a> {
    Box::new(job)
}

/// Runs two threads that add to one word, with or without a lock. Returns the word at the end.
fn sums(seed: u64, lock: Option<&Mutex<()>>) -> u64 {
    let memory = LyingMemory::new(64, Model::MAPPED);
    let add = || {
        for _ in 0..20 {
            let _held = lock.map(|lock| lock.lock().unwrap());
            memory.store_word(0, memory.load_word(0) + 1);
        }
    };
    interleave(seed, vec![job(add), job(add), job(add)]);
    memory.load_word(0)
}

/// CI1: the same seed gives the same run, and different seeds give different runs.
#[test]
fn a_seed_repeats_its_run() {
    let first: Vec<u64> = (0..20).map(|seed| sums(seed, None)).collect();
    let again: Vec<u64> = (0..20).map(|seed| sums(seed, None)).collect();
    assert_eq!(first, again);
    assert!(first.iter().any(|&sum| sum < 60), "no update was ever lost: threads did not interleave: {first:?}");
}

/// CI3: if the holder waits for a lock of the code under test, the other threads go on, and the seed still repeats the
/// run.
#[test]
fn a_thread_blocked_on_a_lock_is_passed_over() {
    let lock = Mutex::new(());
    assert!((0..10).all(|seed| sums(seed, Some(&lock)) == 60));
    let order = |seed| {
        let (memory, lock) = (LyingMemory::new(128, Model::MAPPED), Mutex::new(Vec::new()));
        let work = |name: u64| {
            move |memory: &LyingMemory, lock: &Mutex<Vec<u64>>| {
                for step in 0..6 {
                    memory.store_word(0, name);
                    let mut order = lock.lock().unwrap();
                    memory.store_word(64, name);
                    order.push(name * 10 + step);
                }
            }
        };
        let (one, two) = (work(1), work(2));
        interleave(seed, vec![job(|| one(&memory, &lock)), job(|| two(&memory, &lock))]);
        lock.into_inner().unwrap()
    };
    let first: Vec<_> = (0..8).map(order).collect();
    assert_eq!(first, (0..8).map(order).collect::<Vec<_>>());
    assert!(first.iter().any(|run| *run != first[0]), "every seed gave the same order");
}

/// CI2: another thread sees half of a long store.
#[test]
fn a_long_store_is_seen_half_done() {
    let torn = (0..40).any(|seed| {
        let (memory, halves) = (LyingMemory::new(256, Model::MAPPED), AtomicU64::new(0));
        let write = || memory.store(0, &[1; 256], Scheme::Nt);
        let read = || {
            let mut bytes = [0; 256];
            memory.load(0, &mut bytes);
            halves.fetch_add(u64::from(bytes[0] != bytes[255]), Ordering::Relaxed);
        };
        interleave(seed, vec![job(write), job(read)]);
        halves.into_inner() > 0
    });
    assert!(torn, "in 40 seeds no read fell between the halves of a store");
}

/// Runs two writers with a slot each and one published count. If `fenced`, each writer makes its slot durable first.
fn two_writers(seed: u64, fenced: bool) -> Option<String> {
    let memory = LyingMemory::new(256, Model::MAPPED);
    let published = Mutex::new(0u64);
    let write = |slot: u64| {
        let (memory, published) = (&memory, &published);
        job(move || {
            memory.store(64 + slot * 64, &[9; 64], Scheme::Nt);
            if fenced {
                memory.fence();
            }
            let mut bits = published.lock().unwrap();
            *bits |= 1 << slot;
            memory.store_word(0, *bits);
            memory.persist(Span::new(0, 8)).unwrap();
            memory.mark(slot);
        })
    };
    interleave(seed, vec![write(0), write(1)]);
    let report = explore(&memory, &ExploreOptions { seed, ..ExploreOptions::default() }, |crash| {
        let bits = crash.load_word(0);
        for slot in 0..2 {
            let (there, mut bytes) = (bits >> slot & 1 == 1, [0; 64]);
            crash.load(64 + slot * 64, &mut bytes);
            if there && bytes != [9; 64] || !there && crash.has_mark(slot) {
                return Err(format!("slot {slot}: published {there}, holds {:?}", &bytes[..8]));
            }
        }
        Ok(())
    });
    report.assert_exhaustive();
    report.failure.map(|failure| failure.to_string())
}

/// M1, by two real threads: each must fence its own slot before the shared word names it.
#[test]
fn two_writers_of_one_published_word() {
    for seed in 0..12 {
        assert_eq!(two_writers(seed, true), None, "seed {seed}");
    }
    assert!((0..12).any(|seed| two_writers(seed, false).is_some()));
}

/// A panic in a thread names the seed, and the other threads end.
#[test]
fn a_panic_names_its_seed() {
    let panic = std::panic::catch_unwind(|| {
        let memory = LyingMemory::new(64, Model::MAPPED);
        let other = || (0..10).for_each(|_| memory.fence());
        interleave(77, vec![job(|| panic!("planted")), job(other)]);
    });
    let text = panic.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("seed 77") && text.contains("thread 0 panicked: planted"), "{text}");
}
