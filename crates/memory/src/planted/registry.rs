//! The bugs that are planted now.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bug that is planted until this guard is dropped, on the thread that planted it.
#[derive(Debug)]
#[must_use = "the bug is removed when the guard is dropped"]
pub struct PlantedBug {
    id: u64,
    in_process: bool,
    not_send: PhantomData<Rc<()>>,
}

struct PlantedEntry<F> {
    id: u64,
    /// The literal at the place: `planted: NAME`.
    place: String,
    /// Returns whether the bug acts at a visit; `None` if it always does.
    acts: Option<F>,
}

impl<F> PlantedEntry<F> {
    fn new(id: u64, name: &str, acts: Option<F>) -> Self {
        Self { id, place: format!("planted: {name}"), acts }
    }
}

type ThreadEntry = PlantedEntry<Rc<dyn Fn() -> bool>>;
type ProcessEntry = PlantedEntry<Arc<dyn Fn() -> bool + Send + Sync>>;

// The number of planted bugs in all threads. A place returns false at once while the number is zero.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT_ID: AtomicU64 = AtomicU64::new(0);
static PROCESS: Mutex<Vec<ProcessEntry>> = Mutex::new(Vec::new());
thread_local!(static THREAD: RefCell<Vec<ThreadEntry>> = const { RefCell::new(Vec::new()) });

/// Plants the bug `name` in the calling thread.
pub fn plant(name: &str) -> PlantedBug {
    plant_in_thread(name, None)
}

/// Plants the bug `name` in the calling thread. The bug acts at each visit for which `acts` returns true.
pub fn plant_with(name: &str, acts: impl Fn() -> bool + 'static) -> PlantedBug {
    plant_in_thread(name, Some(Rc::new(acts)))
}

fn plant_in_thread(name: &str, acts: Option<Rc<dyn Fn() -> bool>>) -> PlantedBug {
    let id = next_id();
    THREAD.with_borrow_mut(|bugs| bugs.push(PlantedEntry::new(id, name, acts)));
    PlantedBug { id, in_process: false, not_send: PhantomData }
}

/// Plants the bug `name` in all threads.
pub fn plant_in_process(name: &str) -> PlantedBug {
    plant_in_threads(name, None)
}

/// Plants the bug `name` in all threads. The bug acts at each visit for which `acts` returns true.
pub fn plant_in_process_with(name: &str, acts: impl Fn() -> bool + Send + Sync + 'static) -> PlantedBug {
    plant_in_threads(name, Some(Arc::new(acts)))
}

fn plant_in_threads(name: &str, acts: Option<Arc<dyn Fn() -> bool + Send + Sync>>) -> PlantedBug {
    let id = next_id();
    process().push(PlantedEntry::new(id, name, acts));
    PlantedBug { id, in_process: true, not_send: PhantomData }
}

/// Returns true if the bug of `place`, which is "planted: NAME", is planted here and acts at this visit.
pub fn is_planted(place: &str) -> bool {
    COUNT.load(Ordering::Acquire) > 0 && visit(place)
}

/// Some bugs are races, so a visit is quick: the thread's own bugs are found without a lock.
fn visit(place: &str) -> bool {
    // The closures run without the borrow and without the lock, because they may reach other places.
    let found = THREAD.try_with(|bugs| {
        let bugs = bugs.borrow();
        bugs.iter().find(|bug| bug.place == place).map(|bug| bug.acts.clone())
    });
    if let Ok(Some(acts)) = found {
        return acts.is_none_or(|acts| acts());
    }
    let found = process().iter().find(|bug| bug.place == place).map(|bug| bug.acts.clone());
    found.is_some_and(|acts| acts.is_none_or(|acts| acts()))
}

fn process() -> MutexGuard<'static, Vec<ProcessEntry>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next_id() -> u64 {
    COUNT.fetch_add(1, Ordering::Release);
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl Drop for PlantedBug {
    fn drop(&mut self) {
        if self.in_process {
            process().retain(|bug| bug.id != self.id);
        } else {
            // The list is gone already if the thread is ending.
            let _ = THREAD.try_with(|bugs| bugs.borrow_mut().retain(|bug| bug.id != self.id));
        }
        COUNT.fetch_sub(1, Ordering::Release);
    }
}
