//! The two ends of the tie between a guest and its disk (see `pool::tie`).

use ferrite_disk::Disk;
use ferrite_memory::planted;
use ferrite_pool::disk_stamp::{DISK_STAMP_BYTES, DiskStamp};
use ferrite_pool::holding::TagLease;
use ferrite_pool::tie::{self, Generation, PoolSide, Tie, TieEnds, TieRecord, TieRole, TieStamp, TieVerdict};
use ferrite_pool::{Error, Result};

use crate::GuestError;
use crate::frame_space::FrameSpace;
use crate::guest_engine::GuestEngine;
use crate::guest_header::{CURRENT, PREVIOUS};
use crate::guest_layout::GuestLayout;

const MAGIC: [u8; 8] = *b"FGUESTDK";
const VERSION: u32 = 1;

/// The identity of a guest, as the stamp of its disk has it.
#[derive(Clone, Debug)]
pub(crate) struct GuestIdentity {
    /// The pool.
    pub pool: [u8; 16],
    /// The generation of the tag.
    pub tag: u64,
    /// The name, for messages.
    pub name: String,
}

impl GuestIdentity {
    /// Returns the identity of the guest in the tag of `lease`.
    pub fn of(lease: &TagLease) -> Self {
        let tag = lease.tag();
        Self { pool: lease.uuid(), tag: tag.generation, name: tag.name.clone() }
    }
}

struct GuestEnds<'a>(&'a GuestEngine);

impl GuestEnds<'_> {
    fn persist(&self, at: u64, generation: Option<Generation>) -> Result<()> {
        let _state = self.0.lock();
        self.0.space.header().store(at, generation);
        self.0.space.drain()
    }
}

impl PoolSide for GuestEnds<'_> {
    type Error = Error;

    fn load(&self) -> Result<Tie> {
        load_tie(&self.0.space)
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        self.persist(CURRENT, Some(current))
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        self.persist(PREVIOUS, previous)
    }
}

impl TieEnds for GuestEnds<'_> {
    fn read(&self) -> Result<Option<TieStamp>> {
        tie_stamp(&*self.0.disk, self.0.space.layout.size, &self.0.identity)
    }

    fn write(&self, stamp: &TieStamp) -> Result<()> {
        let size = self.0.space.layout.size;
        disk_stamp(&self.0.identity, size, stamp, &self.load()?).write(&*self.0.disk, size)
    }
}

/// Returns the pool's side of the tie of the guest in `space`.
fn load_tie(space: &FrameSpace) -> Result<Tie> {
    let header = space.header();
    let damaged = || Error::Corrupt { what: "the generation of a guest".into(), at: header.at };
    header.tie(space.layout.identity).ok_or_else(damaged)
}

/// Returns the stamp of the guest `identity` behind `size` bytes of `disk`.
fn tie_stamp(disk: &dyn Disk, size: u64, identity: &GuestIdentity) -> Result<Option<TieStamp>> {
    let stamp = DiskStamp::read(disk, size, &MAGIC)?.filter(|stamp| stamp.tag == identity.tag);
    Ok(stamp.map(|stamp| TieStamp { identity: stamp.record.object, generation: stamp.record.generation }))
}

/// Returns the bytes of `stamp` on the disk of the guest `identity`, which has `size` bytes.
fn disk_stamp(identity: &GuestIdentity, size: u64, stamp: &TieStamp, tie: &Tie) -> DiskStamp {
    let record = TieRecord {
        role: TieRole::Disk,
        pool: identity.pool,
        object: stamp.identity,
        generation: stamp.generation,
        previous: tie.previous,
    };
    let mut shape = [0; 40];
    shape[..8].copy_from_slice(&size.to_le_bytes());
    DiskStamp { record, magic: MAGIC, version: VERSION, tag: identity.tag, shape }
}

/// Returns the stamp of a guest on `disk`.
///
/// # Errors
/// The errors of the disk.
pub(crate) fn read_stamp(disk: &dyn Disk, layout: &GuestLayout) -> Result<Option<DiskStamp>> {
    DiskStamp::read(disk, layout.size, &MAGIC)
}

/// Moves the stamp of the guest in `space` from behind `before` bytes of `disk` to behind `size` bytes, and zeroes the
/// old place. Durable on return. A call after a crash completes the move (VS1).
///
/// # Errors
/// [`GuestError::Refused`] if neither stamp matches the pool, and the errors of both.
pub(crate) fn move_stamp(
    space: &FrameSpace,
    identity: &GuestIdentity,
    disk: &dyn Disk,
    before: u64,
    size: u64,
) -> crate::Result<()> {
    let tie = load_tie(space)?;
    // The file may be shorter than it was, after the stamp had moved.
    let has_old = before + DISK_STAMP_BYTES <= disk.geometry().size;
    let old = if has_old { tie_stamp(disk, before, identity)? } else { None };
    let is_match = |stamp: Option<TieStamp>| stamp.is_some() && tie::compare(&tie, stamp.as_ref()).is_good();
    if is_match(old) {
        if planted!("guest: the stamp is erased before it is written") {
            DiskStamp::erase(disk, before)?;
        }
        // The bytes of the guest that lay there are cut off, or zeros.
        DiskStamp::erase(disk, size)?;
        disk_stamp(identity, size, &tie.stamp(), &tie).write(disk, size)?;
    } else {
        let new = tie_stamp(disk, size, identity)?;
        if !is_match(new) {
            return Err(mismatch(identity, tie::compare(&tie, new.as_ref())));
        }
    }
    if has_old && !planted!("guest: the old stamp stays in the guest") {
        DiskStamp::erase(disk, before)?;
    }
    Ok(())
}

/// Moves the tie of the guest and its disk to a new generation (VR9).
///
/// # Errors
/// [`GuestError::Refused`] if pool and disk do not match, and the errors of both.
pub(crate) fn advance(engine: &GuestEngine, nonce: u16) -> crate::Result<()> {
    match tie::advance(&GuestEnds(engine), nonce)? {
        verdict if verdict.is_good() => Ok(()),
        verdict => Err(mismatch(&engine.identity, verdict)),
    }
}

fn mismatch(identity: &GuestIdentity, verdict: TieVerdict) -> GuestError {
    let name = &identity.name;
    let why = match verdict {
        TieVerdict::ObjectLater => "the disk is of a later time than the pool, as after a restore of the pool",
        TieVerdict::PoolLater => "the disk is of an earlier time than the pool: an old copy of it",
        TieVerdict::Diverged => "two copies of the pool or of the disk were used separately",
        TieVerdict::OtherIdentity => "the disk belongs to another guest",
        TieVerdict::Absent | TieVerdict::Same | TieVerdict::Unfinished => "the disk has no stamp of this guest",
    };
    GuestError::Refused(format!(
        "the guest {name:?} and its disk do not match: {why}. Bring the right disk back, or run `ferrite guest remove \
         {name}`, which says what would be lost"
    ))
}
