//! The engine of one guest: the state that promotion and demotion share.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::planted;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::holding::TagLease;
use ferrite_pool::layout::PAGE;
use ferrite_pool::{ChangeGate, Freeze, Pool};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::demote::DemotionPolicy;
use crate::frame_space::FrameSpace;
use crate::frame_table::FrameTable;
use crate::frame_word::FrameContent;
use crate::ghost_pages::GhostPages;
use crate::guest_stats::GuestCounts;
use crate::guest_tie::{GuestIdentity, advance};
use crate::plane::{DirectPlane, Plane};
use crate::run_sizer::RunSizer;
use crate::{GuestError, Result};

/// The pages that a guest remembers after they lost their frames: 512 MiB, or an eighth of its frames.
const GHOST_PAGES: usize = 1 << 17;

/// What the lock of an engine protects. Only a thread that holds the lock stores into the guest's part of the pool,
/// except for the stores of programs through a plane.
pub(crate) struct EngineState {
    pub frames: FrameTable,
    /// Pages without a frame that a thread is reading from the disk.
    pub busy: HashSet<u64>,
    pub runs: RunSizer,
    pub ghosts: GhostPages,
    pub demotion: DemotionPolicy,
    /// The pool was copied since the tie moved (VR9).
    pub is_copied: bool,
    pub counts: GuestCounts,
}

impl EngineState {
    /// Makes `frame` free, whose word is durably zero.
    pub fn drop_copy(&mut self, frame: u32) {
        if let Some(page) = self.frames.content(frame).page() {
            self.ghosts.note(page, GHOST_PAGES.max(self.frames.usable() / 8));
        }
        self.frames.set(frame, FrameContent::Free);
    }
}

/// The engine of one guest.
pub struct GuestEngine {
    // Dropped in this order: a program's store reaches no frame once the right to the frames has ended.
    pub(crate) plane: Box<dyn Plane>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) space: FrameSpace,
    pub(crate) identity: GuestIdentity,
    random: Box<dyn Fn() -> u16 + Send + Sync>,
    gate: ChangeGate,
    state: Mutex<EngineState>,
    /// Signalled when pages are not busy any longer.
    changed: Condvar,
    /// Held by the one batch (VR7).
    pub(crate) batch: Mutex<()>,
    /// Held shared by a client's write, and exclusively while the bytes of the guest are of one time (VC2).
    pub(crate) writes: RwLock<()>,
}

impl GuestEngine {
    /// Opens the guest called `name` of `pool`, whose disk is `disk`. `random` gives nonces of generations.
    ///
    /// # Errors
    /// [`GuestError::Damaged`], [`GuestError::Refused`] if the disk is not the guest's, and the errors of the pool and the
    /// disk.
    pub fn open(
        pool: &Arc<Pool>,
        name: &str,
        disk: Arc<dyn Disk>,
        plane: Box<dyn Plane>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        Self::open_with(pool.hold(name)?, |_| Ok(disk), random, |_| Ok(plane))
    }

    /// Opens the guest in the tag of `lease`, with the disk and the plane that the functions return for its frames.
    ///
    /// # Errors
    /// As [`GuestEngine::open`], and those of the functions.
    pub(crate) fn open_with(
        lease: TagLease,
        disk_of: impl FnOnce(&FrameSpace) -> Result<Arc<dyn Disk>>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
        plane_of: impl FnOnce(&FrameSpace) -> Result<Box<dyn Plane>>,
    ) -> Result<Arc<Self>> {
        let _pass = lease.store_pass();
        let identity = GuestIdentity::of(&lease);
        let space = FrameSpace::of(lease)?;
        space.layout.pending.ensure_content(&identity.name)?;
        Self::open_space(space, identity, disk_of, random, plane_of)
    }

    /// Opens the guest called `name` of `pool` for an import: it may be a guest whose content an earlier import left
    /// incomplete.
    ///
    /// # Errors
    /// As [`GuestEngine::open`].
    pub(crate) fn open_to_replace(
        pool: &Arc<Pool>,
        name: &str,
        disk: Arc<dyn Disk>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let lease = pool.hold(name)?;
        let _pass = lease.store_pass();
        let identity = GuestIdentity::of(&lease);
        Self::open_space(FrameSpace::of(lease)?, identity, |_| Ok(disk), random, |_| Ok(Box::new(DirectPlane)))
    }

    fn open_space(
        space: FrameSpace,
        identity: GuestIdentity,
        disk_of: impl FnOnce(&FrameSpace) -> Result<Arc<dyn Disk>>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
        plane_of: impl FnOnce(&FrameSpace) -> Result<Box<dyn Plane>>,
    ) -> Result<Arc<Self>> {
        let (disk, plane) = (disk_of(&space)?, plane_of(&space)?);
        let mut engine = Self::new(space, disk, plane, identity, random)?;
        engine.complete_size()?;
        let engine = Arc::new(engine);
        let frozen: Arc<dyn Freeze> = Arc::clone(&engine) as _;
        engine.space.register_freezer(Arc::downgrade(&frozen));
        engine.advance_tie()?;
        Ok(engine)
    }

    /// Returns the engine of the guest in `space`. The disk gets no write before its tie has moved.
    ///
    /// # Errors
    /// [`GuestError::Damaged`], and [`GuestError::Refused`] if the disk is too small.
    pub(crate) fn new(
        space: FrameSpace,
        disk: Arc<dyn Disk>,
        plane: Box<dyn Plane>,
        identity: GuestIdentity,
        random: impl Fn() -> u16 + Send + Sync + 'static,
    ) -> Result<Self> {
        let (has, needs) = (disk.geometry(), space.layout.disk_bytes());
        if has.size < needs || has.read_only || u64::from(has.sector_bytes) > PAGE {
            return Err(GuestError::Refused(format!(
                "the disk of the guest {:?} has {} bytes: it needs {needs}, the last {DISK_STAMP_BYTES} for its stamp, \
                 sectors of at most {PAGE}, and has to be writable",
                identity.name, has.size
            )));
        }
        let frames = FrameTable::recover(&space)?;
        let state = EngineState {
            frames,
            busy: HashSet::new(),
            runs: RunSizer::default(),
            ghosts: GhostPages::default(),
            demotion: DemotionPolicy::default(),
            is_copied: true,
            counts: GuestCounts::default(),
        };
        Ok(Self {
            plane,
            disk,
            space,
            identity,
            random: Box::new(random),
            gate: ChangeGate::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            batch: Mutex::new(()),
            writes: RwLock::new(()),
        })
    }

    /// Locks the state while the pool does not stand still (VR9).
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.gate.pass(|| self.state.lock())
    }

    /// Locks the state while none of `pages` is busy.
    pub(crate) fn lock_idle(&self, pages: Range<u64>) -> MutexGuard<'_, EngineState> {
        loop {
            let mut state = self.lock();
            if !pages.clone().any(|page| state.busy.contains(&page)) {
                return state;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Locks the state while `page` is not busy, or returns `None` if the pool stands still.
    pub(crate) fn try_lock_idle(&self, page: u64) -> Option<MutexGuard<'_, EngineState>> {
        self.gate.try_pass(|| self.lock_idle_reader(page))
    }

    /// Locks the state of this process for a thread that stores nothing into the pool.
    pub(crate) fn lock_reader(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock()
    }

    /// Locks the state as [`GuestEngine::lock_reader`], while `page` is not busy.
    pub(crate) fn lock_idle_reader(&self, page: u64) -> MutexGuard<'_, EngineState> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.busy.contains(&page));
        state
    }

    /// Returns true if the pool stands still. The caller holds the lock of the state.
    pub(crate) fn is_frozen(&self) -> bool {
        self.gate.try_pass(|| ()).is_none()
    }

    /// Locks the state behind a tie that no copy of the pool has (VR9).
    ///
    /// # Errors
    /// [`GuestError::Refused`] if the disk is not the guest's, and the errors of the pool and the disk.
    pub(crate) fn lock_tied(&self) -> Result<MutexGuard<'_, EngineState>> {
        loop {
            let mut state = self.lock();
            self.space.check()?;
            if planted!("guest: the tie does not move behind a copy of the pool") {
                state.is_copied = false;
            }
            if !std::mem::take(&mut state.is_copied) {
                return Ok(state);
            }
            drop(state);
            let advanced = advance(self, (self.random)());
            if advanced.is_err() {
                self.lock().is_copied = true;
            }
            advanced?;
        }
    }

    /// Moves the tie if the pool was copied since it moved.
    ///
    /// # Errors
    /// As [`GuestEngine::lock_tied`].
    pub(crate) fn advance_tie(&self) -> Result<()> {
        self.lock_tied().map(drop)
    }

    /// Ends the busy time of `pages`.
    pub(crate) fn end_busy(&self, state: &mut EngineState, pages: impl IntoIterator<Item = u64>) {
        pages.into_iter().for_each(|page| {
            state.busy.remove(&page);
        });
        self.changed.notify_all();
    }

    /// Reads from the disk, which is not locked.
    pub(crate) fn read_disk(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.disk.read(at, into)?)
    }

    /// Copies bytes of the guest out: of each page its truth.
    ///
    /// # Errors
    /// The errors of the disk.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let here = at + done as u64;
            let (page, offset) = (here / PAGE, here % PAGE);
            let part = ((PAGE - offset) as usize).min(into.len() - done);
            // A reader stores nothing, so it reads while the pool stands still.
            let state = self.state.lock();
            if let Some(frame) = state.frames.frame_of(page) {
                self.space.load(frame, offset, &mut into[done..done + part]);
                done += part;
                continue;
            }
            // As far as no page has a frame. A write that begins from here on may or may not be seen.
            let last = (at + into.len() as u64).div_ceil(PAGE);
            let missing = (page..last).take_while(|page| state.frames.frame_of(*page).is_none()).count() as u64;
            drop(state);
            let part = (((page + missing) * PAGE - here) as usize).min(into.len() - done);
            self.read_disk(here, &mut into[done..done + part])?;
            self.state.lock().counts.disk_read_bytes += part as u64;
            done += part;
        }
        Ok(())
    }

    /// Returns the counts.
    pub fn counts(&self) -> GuestCounts {
        let state = self.state.lock();
        GuestCounts {
            truth_frames: state.frames.truths() as u64,
            copy_frames: state.frames.copies() as u64,
            free_frames: state.frames.free() as u64,
            ..state.counts
        }
    }

    /// Publishes the counts to the owner of the pool, if that is another process. Waits for no process.
    pub(crate) fn publish_counts(&self) {
        self.space.publish(self.counts().figures());
    }

    /// Returns true if another process owns the pool.
    pub(crate) fn is_lent(&self) -> bool {
        !self.space.sees_copies()
    }

    /// Returns the bytes of the guest.
    pub fn size(&self) -> u64 {
        self.space.layout.size
    }

    /// Makes the oldest copies free, so that `count` frames are free if there are as many copies (VR5). Returns true if
    /// they are.
    ///
    /// # Errors
    /// The errors of the pool.
    pub(crate) fn reclaim(&self, state: &mut EngineState, count: usize) -> Result<bool> {
        if state.frames.free() < count {
            let wanted = (count - state.frames.free()).max(state.frames.len() / 32);
            let copies = state.frames.oldest_copies(wanted);
            if !planted!("guest: a frame is used again under its old word") {
                let words: Vec<_> = copies.iter().map(|frame| (*frame, FrameContent::Free)).collect();
                self.space.persist_words(&words)?;
            }
            copies.iter().for_each(|frame| state.drop_copy(*frame));
            state.counts.reclaimed_pages += copies.len() as u64;
        }
        Ok(state.frames.free() >= count)
    }
}

impl Freeze for GuestEngine {
    fn freeze(&self) {
        self.gate.close();
        self.state.lock().is_copied = true;
        if !planted!("guest: pages stay mapped while the pool stands still") {
            self.plane.stage_all();
        }
    }

    fn thaw(&self) {
        self.gate.open();
    }
}
