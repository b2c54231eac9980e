//! A guest in the address space of this process: a program loads and stores, and calls nothing.
//!
//! ```text
//!   program's thread --- fault ---> fault thread: promotes, maps, shows
//!         ^                               | cannot be answered now
//!         +---- woken ---- batch thread <-+ demotes, stages
//! ```

use std::mem;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_memory::{Span, TrapFault, TrapRegion};
use ferrite_pool::Pool;
use ferrite_pool::layout::PAGE;
use parking_lot::{Condvar, Mutex};

use crate::demote::GuestStep;
use crate::open_guests::{PAUSE, RETRY};
use crate::trap_plane::TrapPlane;
use crate::{GuestEngine, RUN_PAGES, Result};

/// Accesses that no answer is possible for now (VP5).
#[derive(Default)]
struct WaitingPages {
    pages: Vec<u64>,
    /// Why the last answer failed.
    failure: Option<String>,
    is_stopped: bool,
}

/// The two sides that answer the accesses of a program.
pub(crate) struct RegionFaults {
    pub engine: Arc<GuestEngine>,
    pub region: Arc<TrapRegion>,
    waiting: Mutex<WaitingPages>,
    changed: Condvar,
}

impl RegionFaults {
    /// Opens the guest called `name` of `pool` with a region of at most `mappings_max` mappings.
    ///
    /// # Errors
    /// As [`GuestRegion::open`].
    pub fn open(
        pool: &Arc<Pool>,
        name: &str,
        disk: Arc<dyn Disk>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
        mappings_max: usize,
    ) -> Result<Self> {
        let mut region = None;
        let engine = GuestEngine::open_with(pool, name, disk, random, |space| {
            let plane = TrapPlane::new(space, mappings_max)?;
            region = Some(Arc::clone(plane.region()));
            Ok(Box::new(plane))
        })?;
        let region = region.expect("made with the engine");
        Ok(Self { engine, region, waiting: Mutex::default(), changed: Condvar::new() })
    }

    /// Answers an access that faulted, or lets it wait (VP5).
    pub fn answer(&self, fault: TrapFault) {
        let page = fault.at / PAGE;
        let answered = match fault.is_store {
            true => self.engine.fault(page),
            false => self.engine.read_fault(page).map(|()| true),
        };
        if matches!(answered, Ok(true)) {
            return self.wake(page);
        }
        let mut waiting = self.waiting.lock();
        waiting.pages.push(page);
        waiting.failure = answered.err().map(|error| error.to_string());
        self.changed.notify_all();
    }

    fn wake(&self, page: u64) {
        self.region.wake(Span::new(page * PAGE, PAGE));
    }

    /// Demotes a batch if few frames are free, or if accesses wait; then these are tried again.
    ///
    /// # Errors
    /// As [`GuestEngine::step`].
    pub fn make_room(&self) -> Result<GuestStep> {
        let waiting = mem::take(&mut self.waiting.lock().pages);
        let stepped = match waiting.is_empty() {
            true => self.engine.step(),
            false => self.engine.evict(RUN_PAGES as usize),
        };
        waiting.into_iter().for_each(|page| self.wake(page));
        stepped
    }

    /// Returns the number of accesses that wait.
    #[cfg(test)]
    pub fn waiting_pages(&self) -> usize {
        self.waiting.lock().pages.len()
    }

    /// Answers accesses until the region is stopped. If the kernel reports no more faults, accesses wait: they never see
    /// bytes that are not the guest's.
    fn answer_all(&self) {
        let _guard = AbortIfPanicking;
        while let Ok(Some(fault)) = self.region.next_fault() {
            self.answer(fault);
        }
    }

    /// Demotes batches until it is stopped.
    fn make_room_always(&self) {
        let _guard = AbortIfPanicking;
        loop {
            let stepped = self.make_room();
            let mut waiting = self.waiting.lock();
            let pause = match stepped {
                Ok(GuestStep::Worked) => Duration::ZERO,
                Ok(GuestStep::Rests) => PAUSE,
                Err(_) => RETRY,
            };
            if let Err(error) = stepped {
                waiting.failure = Some(error.to_string());
            }
            let has_failed = waiting.failure.is_some();
            let pause = if has_failed { RETRY } else { pause };
            let rests = |waiting: &mut WaitingPages| !waiting.is_stopped && (has_failed || waiting.pages.is_empty());
            self.changed.wait_while_for(&mut waiting, rests, pause);
            waiting.failure = None;
            if waiting.is_stopped {
                return;
            }
        }
    }
}

/// Ends the process if its thread panics: a program whose faults have no answer would wait forever.
struct AbortIfPanicking;

impl Drop for AbortIfPanicking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// A guest whose bytes are a region of this process. A store that was flushed and fenced survives what the pool survives.
///
/// While this lives the guest has no other user. Buffers of direct I/O do not belong into the region: the kernel may store
/// into their frames after the pages left (TR2).
pub struct GuestRegion {
    faults: Arc<RegionFaults>,
    threads: Vec<JoinHandle<()>>,
}

impl GuestRegion {
    /// Opens the guest called `name` of `pool`, whose disk is `disk`, and maps it. `random` gives nonces of generations.
    ///
    /// # Errors
    /// Those of [`GuestEngine::open`]; and if the pool's fences are not durable, or the system allows no region.
    pub fn open(
        pool: &Arc<Pool>,
        name: &str,
        disk: Arc<dyn Disk>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
    ) -> Result<Self> {
        let faults = Arc::new(RegionFaults::open(pool, name, disk, random, TrapRegion::mappings_max() / 4 * 3)?);
        let mut opened = Self { faults, threads: Vec::new() };
        opened.start("guest-faults", RegionFaults::answer_all)?;
        opened.start("guest-batches", RegionFaults::make_room_always)?;
        Ok(opened)
    }

    fn start(&mut self, name: &str, work: fn(&RegionFaults)) -> Result<()> {
        let faults = Arc::clone(&self.faults);
        let thread = Builder::new().name(name.into()).spawn(move || work(&faults));
        self.threads.push(thread.map_err(|why| ferrite_memory::Error::io("starting a thread", why))?);
        Ok(())
    }

    /// Returns the region.
    pub fn region(&self) -> &TrapRegion {
        &self.faults.region
    }

    /// Returns the engine.
    pub fn engine(&self) -> &GuestEngine {
        &self.faults.engine
    }

    /// Returns why accesses or batches wait, if they failed.
    pub fn failure(&self) -> Option<String> {
        self.faults.waiting.lock().failure.clone()
    }
}

impl Drop for GuestRegion {
    fn drop(&mut self) {
        self.faults.waiting.lock().is_stopped = true;
        self.faults.changed.notify_all();
        // The batch thread may wait for the fault thread (VP7).
        let batches = if self.threads.len() > 1 { self.threads.pop() } else { None };
        let _ = batches.map(JoinHandle::join);
        self.faults.region.stop();
        let _ = self.threads.pop().map(JoinHandle::join);
    }
}
