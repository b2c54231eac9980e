//! Threads that go on from one slice to the next, as those of a program do: what one learned of a file it still knows. Each
//! has a processor of its own, where there are as many.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, Result};

thread_local! {
    static CREWS: RefCell<HashMap<u64, Rc<ThreadPool>>> = RefCell::default();
}

/// Does `work` at once by as many threads, each with its number: whenever the caller asks for so many, the same ones, and
/// himself where he asks for one.
pub fn together<T: Send>(threads: u64, work: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    if threads == 1 {
        return Ok(vec![work(0)?]);
    }
    let crew = crew_of(threads)?;
    crew.broadcast(|member| work(member.index() as u64)).into_iter().collect()
}

/// Where threads wait for each other, awake: one that has to be woken begins later than the others, by as long as a hundred
/// records take.
#[derive(Default)]
pub struct Start(AtomicU64);

impl Start {
    /// Waits until so many threads do.
    pub fn wait_for(&self, threads: u64) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < threads {
            thread::yield_now();
        }
    }
}

fn crew_of(threads: u64) -> Result<Rc<ThreadPool>> {
    let known = CREWS.with_borrow(|crews| crews.get(&threads).cloned());
    if let Some(crew) = known {
        return Ok(crew);
    }
    let places = places(threads as usize);
    let settle = move |member: usize| {
        if let Some(place) = places.get(member) {
            // Where it is refused, the scheduler places it.
            let _ = sched_setaffinity(None, place);
        }
    };
    let built = ThreadPoolBuilder::new().num_threads(threads as usize).start_handler(settle).build();
    let failed = |why| Error::io(format!("starting {threads} threads"))(std::io::Error::other(why));
    let crew = Rc::new(built.map_err(failed)?);
    CREWS.with_borrow_mut(|crews| crews.insert(threads, Rc::clone(&crew)));
    Ok(crew)
}

/// A processor for each of so many threads, where there are as many: two that a scheduler wakes on the same one it leaves
/// there for longer than a slice takes.
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
