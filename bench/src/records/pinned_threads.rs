//! Threads that live from one slice to the next and keep what they cached of a file, like threads of a program. Each has a
//! processor of its own if there are enough.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, Result};

thread_local! {
    static THREAD_POOLS: RefCell<HashMap<u64, Rc<ThreadPool>>> = RefCell::default();
}

/// Runs `work` by so many threads at once, with the number of each. The same number of threads gives the same threads; one
/// thread is the caller.
pub fn together<T: Send>(threads: u64, work: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    if threads == 1 {
        return Ok(vec![work(0)?]);
    }
    let pool = pool_of(threads)?;
    pool.broadcast(|member| work(member.index() as u64)).into_iter().collect()
}

/// A barrier at which threads wait without sleeping, because waking a thread takes as long as a hundred records.
#[derive(Default)]
pub struct StartLine(AtomicU64);

impl StartLine {
    /// Waits until so many threads wait.
    pub fn wait_for(&self, threads: u64) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
    }
}

fn pool_of(threads: u64) -> Result<Rc<ThreadPool>> {
    let known = THREAD_POOLS.with_borrow(|pools| pools.get(&threads).cloned());
    if let Some(pool) = known {
        return Ok(pool);
    }
    let places = places(threads as usize);
    let pin = move |member: usize| {
        if let Some(place) = places.get(member) {
            // Without a place of its own, the scheduler places the thread.
            let _ = sched_setaffinity(None, place);
        }
    };
    let built = ThreadPoolBuilder::new().num_threads(threads as usize).start_handler(pin).build();
    let failed = |why| Error::io(format!("starting {threads} threads"))(std::io::Error::other(why));
    let pool = Rc::new(built.map_err(failed)?);
    THREAD_POOLS.with_borrow_mut(|pools| pools.insert(threads, Rc::clone(&pool)));
    Ok(pool)
}

/// A processor for each thread, if there are enough. Without places, the scheduler may leave two threads on one processor for
/// a whole slice.
fn places(threads: usize) -> Vec<CpuSet> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let one = |cpu| {
        let mut one = CpuSet::new();
        one.set(cpu);
        one
    };
    let places: Vec<CpuSet> = all.map(one).collect();
    if threads <= places.len() { places } else { Vec::new() }
}

#[cfg(test)]
mod tests;
