//! A guest in the address space of this process: a program loads and stores, and calls nothing.
//!
//! ```text
//!   program's thread --- fault ---> fault thread: promotes, maps, shows
//!         ^                               | cannot be answered now
//!         +---- woken ---- batch thread <-+ demotes, stages
//! ```

use std::mem;
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_memory::{RegionPlace, Span, TrapFault, TrapRegion, planted};
use ferrite_owner::machine;
use ferrite_pool::Pool;
use ferrite_pool::holding::TagLease;
use ferrite_pool::layout::PAGE;
use parking_lot::{Condvar, Mutex};

use crate::demote::GuestStep;
use crate::frame_space::FrameSpace;
use crate::lent_guest::{BorrowedGuest, borrow_tag, open_disk};
use crate::open_guests::{PAUSE, RETRY};
use crate::plane::Plane;
use crate::trap_plane::TrapPlane;
use crate::{GuestEngine, RUN_PAGES, Result};

/// The time between two looks at the wish of the pool's owner.
const FOLLOWING: Duration = Duration::from_millis(100);

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
    /// Signalled when the region ends.
    stopped: Condvar,
}

impl RegionFaults {
    /// Opens the guest in the tag of `lease`, with a region at `place`, if that is given, of at most `mappings_max` mappings.
    ///
    /// # Errors
    /// As [`GuestRegion::open`].
    pub fn open(
        lease: TagLease,
        disk_of: impl FnOnce(&FrameSpace) -> Result<Arc<dyn Disk>>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
        place: Option<RegionPlace>,
        mappings_max: usize,
    ) -> Result<Self> {
        Self::open_with(lease, disk_of, random, |space| {
            let plane = TrapPlane::new(space, place, mappings_max)?;
            Ok((Arc::clone(plane.region()), Box::new(plane) as Box<dyn Plane>))
        })
    }

    /// Opens the guest in the tag of `lease`, with the region and the plane that `plane_of` returns for its frames.
    ///
    /// # Errors
    /// As [`GuestRegion::open`].
    pub fn open_with(
        lease: TagLease,
        disk_of: impl FnOnce(&FrameSpace) -> Result<Arc<dyn Disk>>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
        plane_of: impl FnOnce(&FrameSpace) -> Result<(Arc<TrapRegion>, Box<dyn Plane>)>,
    ) -> Result<Self> {
        let mut region = None;
        let engine = GuestEngine::open_with(lease, disk_of, random, |space| {
            let (made, plane) = plane_of(space)?;
            region = Some(made);
            Ok(plane)
        })?;
        let region = region.expect("made with the engine");
        Ok(Self { engine, region, waiting: Mutex::default(), changed: Condvar::new(), stopped: Condvar::new() })
    }

    /// Answers an access that faulted, or lets it wait (VP5).
    pub fn answer(&self, fault: TrapFault) {
        let page = fault.at / PAGE;
        let answered = match fault.is_store && self.engine.plane.maps_frames() {
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
        let stepped = match !waiting.is_empty() && self.engine.plane.maps_frames() {
            true => self.engine.evict(RUN_PAGES as usize),
            false => self.engine.step(),
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
    ///
    /// The thread is no user of the engine: the last user of the engine may stage pages, and then the region is stopped.
    fn answer_all(faults: &Weak<Self>, region: &TrapRegion) {
        let _guard = AbortIfPanicking;
        while let Ok(Some(fault)) = region.next_fault() {
            if let Some(faults) = faults.upgrade() {
                faults.answer(fault);
                planted!("guest: an access was answered" => ());
            }
        }
    }

    /// Follows the wishes of the pool's owner until it is stopped. If the owner does not answer, only this thread waits.
    fn follow_always(&self) {
        let _guard = AbortIfPanicking;
        loop {
            let pause = match self.engine.follow_owner() {
                Ok(GuestStep::Worked) => Duration::ZERO,
                Ok(GuestStep::Rests) => FOLLOWING,
                Err(_) => RETRY,
            };
            let mut waiting = self.waiting.lock();
            self.stopped.wait_while_for(&mut waiting, |waiting| !waiting.is_stopped, pause);
            if waiting.is_stopped {
                return;
            }
        }
    }

    /// Demotes batches until it is stopped.
    fn make_room_always(&self) {
        let _guard = AbortIfPanicking;
        loop {
            let stepped = self.make_room();
            self.engine.publish_counts();
            let mut waiting = self.waiting.lock();
            let pause = match stepped {
                Ok(GuestStep::Rests) => PAUSE,
                _ => Duration::ZERO,
            };
            if let Err(error) = stepped {
                waiting.failure = Some(error.to_string());
            }
            let rests = |waiting: &mut WaitingPages| !waiting.is_stopped && waiting.pages.is_empty();
            self.changed.wait_while_for(&mut waiting, rests, pause);
            if waiting.failure.is_some() {
                self.changed.wait_while_for(&mut waiting, |waiting| !waiting.is_stopped, RETRY);
                waiting.failure = None;
            }
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
    follows: JoinAtEnd,
    batches: JoinAtEnd,
    // Dropped in this order: the end of the region ends the thread that answers.
    faults: Arc<RegionFaults>,
    _answers: JoinAtEnd,
}

/// A thread that is joined when this is dropped.
#[derive(Default)]
struct JoinAtEnd(Option<JoinHandle<()>>);

impl JoinAtEnd {
    fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Self> {
        let thread = Builder::new().name(name.into()).spawn(work);
        Ok(Self(Some(thread.map_err(|why| ferrite_memory::Error::io("starting a thread", why))?)))
    }
}

impl Drop for JoinAtEnd {
    fn drop(&mut self) {
        self.0.take().map(JoinHandle::join);
    }
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
        let mappings_max = TrapRegion::mappings_max() / 4 * 3;
        Self::serve(RegionFaults::open(pool.hold(name)?, |_| Ok(disk), random, None, mappings_max)?, || ())
    }

    /// Maps the guest that `borrowed` describes: the owner of the pool is another process, which lends the guest (VG1).
    ///
    /// # Errors
    /// As [`GuestRegion::open`]; [`GuestError::Refused`] if the owner refuses, or if the disk is neither a file nor a
    /// device.
    pub fn borrow(borrowed: BorrowedGuest<'_>) -> Result<Self> {
        let lease = borrow_tag(borrowed.pool, borrowed.name)?;
        let random = || machine::random() as u16;
        let mappings_max = TrapRegion::mappings_max() / 4 * 3;
        Self::serve(RegionFaults::open(lease, open_disk, random, borrowed.place, mappings_max)?, borrowed.begin)
    }

    /// Starts the threads that serve the region. Each calls `begin` first.
    pub(crate) fn serve(faults: RegionFaults, begin: fn()) -> Result<Self> {
        let faults = Arc::new(faults);
        let (weak, region) = (Arc::downgrade(&faults), Arc::clone(&faults.region));
        let answers = JoinAtEnd::start("guest-faults", move || {
            begin();
            RegionFaults::answer_all(&weak, &region);
        })?;
        let (follows, batches) = (JoinAtEnd::default(), JoinAtEnd::default());
        let mut opened = Self { follows, batches, faults, _answers: answers };
        let batches = Arc::clone(&opened.faults);
        opened.batches = JoinAtEnd::start("guest-batches", move || {
            begin();
            batches.make_room_always();
        })?;
        if opened.faults.engine.is_lent() {
            let follows = Arc::clone(&opened.faults);
            opened.follows = JoinAtEnd::start("guest-frames", move || {
                begin();
                follows.follow_always();
            })?;
        }
        Ok(opened)
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
        self.faults.stopped.notify_all();
        // A batch waits for the thread that answers (VP7).
        self.follows = JoinAtEnd::default();
        self.batches = JoinAtEnd::default();
        // The thread that answers wakes an access before it has left the engine, and must not be its last user.
        while Arc::strong_count(&self.faults) > 1 {
            std::thread::yield_now();
        }
    }
}
