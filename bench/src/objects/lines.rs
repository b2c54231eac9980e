//! Figure 5: stores of 64 bits, each durable before the next, by many threads.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme};

use super::UpdatePlan;
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::rounds::BenchSubject;
use crate::scratch::{Scratch, touched};
use crate::session::{BenchSession, Race};

/// Bytes of each memory.
const MEMORY_BYTES: u64 = 64 << 20;
/// Stores between two looks at the clock.
const BATCH: u64 = 64;
const THREADS: [u64; 5] = [1, 2, 4, 8, 16];

/// The subjects: the name, whether the memory is a pool's, and the scheme.
const WAYS: [(&str, bool, Scheme); 4] = [
    ("RAM (flush)", false, Scheme::Flush),
    ("flush", true, Scheme::Flush),
    ("clflush", true, Scheme::Clflush),
    ("writethrough", true, Scheme::Writethrough),
];

/// A case.
#[derive(Clone, Copy)]
struct StoreCase {
    random: bool,
    threads: u64,
}

impl StoreCase {
    fn name(self) -> String {
        format!("64-bit stores {} {} threads", if self.random { "RND" } else { "SEQ" }, self.threads)
    }
}

/// Measures every case.
pub fn measure(session: &mut BenchSession<'_>, scratch: &Scratch, plan: &UpdatePlan) -> Result<()> {
    let of = |random| THREADS.map(|threads| StoreCase { random, threads });
    let cases = session.wanted([of(false), of(true)].concat(), |case| case.name());
    if cases.is_empty() {
        return Ok(());
    }
    let options = MapOptions { guard: Guard::None, name: "figure 5".into(), ..MapOptions::default() };
    let ram = touched(Mapped::anonymous(MEMORY_BYTES, &options)?)?;
    let pool = scratch.mapped("lines", MEMORY_BYTES, Guard::None)?;
    for case in &cases {
        let usable = WAYS.into_iter().filter(|(.., scheme)| scheme.ensure_available().is_ok());
        let subject = |(name, is_pool, scheme)| {
            let memory = if is_pool { &pool } else { &ram };
            BenchSubject::new(name, move |seed| Ok(megabytes_per_second(memory, *case, scheme, seed, plan.slice_ms)))
        };
        let (name, rounds, slice_ms) = (case.name(), plan.rounds, plan.slice_ms);
        let race = Race { case: &name, unit: "MB/s", rounds, slice_ms, beside: "flush" };
        session.race(&race, usable.map(subject).collect())?;
    }
    Ok(())
}

/// MB/s that all threads store together.
fn megabytes_per_second(memory: &Mapped, case: StoreCase, scheme: Scheme, seed: u64, ms: u64) -> f64 {
    let (stores, start) = (AtomicU64::new(0), Barrier::new(case.threads as usize));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..case.threads {
            let (stores, start) = (&stores, &start);
            scope.spawn(move || {
                start.wait();
                let done = store(memory, case, thread, scheme, seed, Duration::from_millis(ms));
                stores.fetch_add(done, Ordering::Relaxed);
            });
        }
    });
    (stores.load(Ordering::Relaxed) * 8) as f64 / begun.elapsed().as_secs_f64() / 1e6
}

/// Stores for `time` in the part of the memory of this thread; returns how often.
fn store(memory: &Mapped, case: StoreCase, thread: u64, scheme: Scheme, seed: u64, time: Duration) -> u64 {
    let words = MEMORY_BYTES / 8 / case.threads;
    let (mut random, mut next, mut done) = (BenchRandom::new(seed * 16 + thread), 0, 0_u64);
    let until = Instant::now() + time;
    while done == 0 || Instant::now() < until {
        for _ in 0..BATCH {
            next = if case.random { random.below(words) } else { (next + 1) % words };
            memory.store((thread * words + next) * 8, &done.to_le_bytes(), scheme);
            memory.fence();
        }
        done += BATCH;
    }
    done
}
