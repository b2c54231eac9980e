//! A guest as DRAM of this process, with calls that make ranges of it durable.
//!
//! ```text
//!   program's thread --- first access of a page ---> fault thread: the page's bytes, once, writable (TR8)
//!         stores: DRAM                         persist, barrier: DRAM -> GuestEngine
//! ```
//!
//! The invariants are in [`crate::persist_ranges`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::Disk;
use ferrite_memory::{Memory, Span, TrapRegion};
use ferrite_owner::{PoolAccess, PoolOwner, ServiceRegistry, machine};
use ferrite_pool::Pool;
use ferrite_pool::holding::TagLease;

use crate::frame_space::FrameSpace;
use crate::guest_region::RegionFaults;
use crate::lent_guest::{BorrowedGuest, borrow_tag, open_disk};
use crate::persist_ranges::{PersistRanges, ProgramBytes};
use crate::plane::Plane;
use crate::{GuestEngine, GuestError, GuestRegion, GuestService, Result};

/// The pages of a region in DRAM. Frames are never mapped.
struct ParaPlane(Arc<TrapRegion>);

impl Plane for ParaPlane {
    fn maps_frames(&self) -> bool {
        false
    }

    fn map(&self, _pages: &[(u64, u64)]) -> bool {
        true
    }

    fn stage(&self, _first: u64, _count: u64) {}

    fn stage_all(&self) {}

    fn fill(&self, page: u64, bytes: &[u8]) -> ferrite_memory::Result<()> {
        self.0.supply(page * ferrite_pool::layout::PAGE, bytes)
    }

    fn add_frames(&self, _memory: &dyn Memory, _runs: &[Span]) -> ferrite_memory::Result<()> {
        Ok(())
    }
}

impl Drop for ParaPlane {
    fn drop(&mut self) {
        self.0.cover();
        self.0.stop();
    }
}

impl ProgramBytes for TrapRegion {
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        let head = (at.next_multiple_of(8) - at).min(into.len() as u64) as usize;
        let (head, rest) = into.split_at_mut(head);
        let (words, tail) = rest.as_chunks_mut::<8>();
        let words_at = at + head.len() as u64;
        let tail_at = words_at + words.len() as u64 * 8;
        copy_bytes(self, at, head);
        for (from, word) in self.words(words_at, words.len()).iter().zip(words) {
            *word = from.load(Ordering::Acquire).to_ne_bytes();
        }
        copy_bytes(self, tail_at, tail);
    }

    fn is_touched(&self, at: u64) -> bool {
        self.is_supplied(at)
    }
}

fn copy_bytes(region: &TrapRegion, at: u64, into: &mut [u8]) {
    (at..).zip(into).for_each(|(at, byte)| *byte = region.byte(at).load(Ordering::Acquire));
}

/// A guest as DRAM of this process: stores go anywhere, and [`ParaRegion::persist`] and [`ParaRegion::barrier`] make
/// ranges durable. A crash keeps what a barrier made durable, and no byte that was not persisted.
///
/// While this lives the guest has no other user. The region may have as many bytes as fit into DRAM.
pub struct ParaRegion {
    // Ended in this order: the grant is released to the owner before the owner ends.
    region: GuestRegion,
    ranges: PersistRanges,
    owner: Option<Arc<PoolOwner>>,
}

impl ParaRegion {
    /// Opens the guest called `name` of `pool`, whose disk is `disk`. `random` gives nonces of generations.
    ///
    /// # Errors
    /// The errors of [`GuestEngine::open`]; and if the system allows no region.
    pub fn open(
        pool: &Arc<Pool>,
        name: &str,
        disk: Arc<dyn Disk>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::serve(pool.hold(name)?, |_| Ok(disk), random, || ())
    }

    /// Opens the guest called `name` of the pool at `path`, through the owner of the pool. If no process owns the pool, this
    /// process becomes the owner.
    ///
    /// # Errors
    /// The errors of [`ParaRegion::borrow`] and [`PoolAccess::open`].
    pub fn open_in_pool(path: &Path, name: &str) -> Result<Self> {
        let registry = Arc::new(ServiceRegistry::default().with(GuestService::of_files()));
        let access = PoolAccess::open(path, &registry, None);
        let access = access.map_err(of_owner)?;
        let owner = access.owner().map(Arc::clone);
        drop(access);
        let opened = Self::borrow(BorrowedGuest { pool: path, name, place: None, begin: || () });
        match opened {
            Ok(region) => Ok(Self { owner, ..region }),
            Err(error) => {
                end(owner)?;
                Err(error)
            }
        }
    }

    /// Opens the guest that `borrowed` describes, which the owner of the pool lends (VG1).
    ///
    /// # Errors
    /// The errors of [`ParaRegion::open`]; [`GuestError::Refused`] if the owner refuses, or if the disk is neither a file nor a
    /// device.
    pub fn borrow(borrowed: BorrowedGuest<'_>) -> Result<Self> {
        let lease = borrow_tag(borrowed.pool, borrowed.name)?;
        Self::serve(lease, open_disk, || machine::random() as u16, borrowed.begin)
    }

    fn serve(
        lease: TagLease,
        disk_of: impl FnOnce(&FrameSpace) -> Result<Arc<dyn Disk>>,
        random: impl Fn() -> u16 + Send + Sync + 'static,
        begin: fn(),
    ) -> Result<Self> {
        let faults = RegionFaults::open_with(lease, disk_of, random, |space| {
            let region = Arc::new(TrapRegion::new(space.layout.size)?);
            Ok((Arc::clone(&region), Box::new(ParaPlane(region)) as Box<dyn Plane>))
        })?;
        let ranges = PersistRanges::new(faults.engine.size());
        Ok(Self { region: GuestRegion::serve(faults, begin)?, ranges, owner: None })
    }

    /// Returns the region.
    pub fn region(&self) -> &TrapRegion {
        self.region.region()
    }

    /// Returns the engine.
    pub fn engine(&self) -> &GuestEngine {
        self.region.engine()
    }

    /// Returns why accesses or batches wait, if they failed.
    pub fn failure(&self) -> Option<String> {
        self.region.failure()
    }

    /// Names bytes that the next barrier makes durable, with their values at this call or later ones. Copies nothing.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if `span` is not within the guest.
    pub fn persist(&self, span: Span) -> Result<()> {
        self.ranges.persist(span)
    }

    /// Makes all that was persisted durable, as far as the pool's memory is (PV1). If it fails, the next barrier tries
    /// again what was not made durable (PV3).
    ///
    /// # Errors
    /// [`GuestError::Refused`] if this thread holds a lock; the errors of the pool and the disk.
    pub fn barrier(&self) -> Result<()> {
        self.ranges.barrier(self.engine(), self.region())
    }

    /// Locks `span` for this thread until [`ParaRegion::unlock`]: no barrier copies a range with a part of it, and no other
    /// thread locks a part of it.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if `span` is not within the guest, or if this thread has locked a part of it.
    pub fn lock(&self, span: Span) -> Result<()> {
        self.ranges.lock(span).map(|lock| lock.keep())
    }

    /// Ends this thread's lock of `span`.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if this thread has no lock of just these bytes.
    pub fn unlock(&self, span: Span) -> Result<()> {
        self.ranges.unlock(span)
    }

    /// Copies bytes of the region out, as a program's loads.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if they are not within the guest.
    pub fn load(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.ranges.check(Span::new(at, into.len() as u64))?;
        self.region().copy_out(at, into);
        Ok(())
    }

    /// Copies `from` into the region, as a program's stores: aligned words are stored whole.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if the bytes are not within the guest.
    pub fn store(&self, at: u64, from: &[u8]) -> Result<()> {
        self.ranges.check(Span::new(at, from.len() as u64))?;
        let region = self.region();
        let head = (at.next_multiple_of(8) - at).min(from.len() as u64) as usize;
        let (head, rest) = from.split_at(head);
        let (words, tail) = rest.as_chunks::<8>();
        let words_at = at + head.len() as u64;
        let tail_at = words_at + words.len() as u64 * 8;
        let store_bytes = |at: u64, from: &[u8]| {
            (at..).zip(from).for_each(|(at, byte)| region.byte(at).store(*byte, Ordering::Release));
        };
        store_bytes(at, head);
        for (to, word) in region.words(words_at, words.len()).iter().zip(words) {
            to.store(u64::from_ne_bytes(*word), Ordering::Release);
        }
        store_bytes(tail_at, tail);
        Ok(())
    }

    /// Closes the region, and the pool if this process owns it. Stores that no barrier made durable are lost.
    ///
    /// # Errors
    /// The errors of closing the pool.
    pub fn close(self) -> Result<()> {
        let Self { region, owner, .. } = self;
        drop(region);
        end(owner)
    }
}

/// Closes the pool of `owner`, if this process has one.
fn end(owner: Option<Arc<PoolOwner>>) -> Result<()> {
    let closed = owner.and_then(Arc::into_inner).map_or(Ok(true), PoolOwner::close);
    closed.map(drop).map_err(of_owner)
}

/// Returns the error of a guest for `error`.
fn of_owner(error: ferrite_owner::Error) -> GuestError {
    match error {
        ferrite_owner::Error::Pool(error) => GuestError::Pool(error),
        ferrite_owner::Error::Failed(failure) => GuestError::Pool(ferrite_pool::Error::Owner(failure)),
        other => GuestError::Refused(other.to_string()),
    }
}
