//! The two ends of the tie between a guest and its disk (see `pool::tie`).

use ferrite_disk::Disk;
use ferrite_pool::disk_stamp::DiskStamp;
use ferrite_pool::tie::{self, Generation, PoolSide, Tie, TieEnds, TieRecord, TieRole, TieStamp, TieVerdict};
use ferrite_pool::{Error, Result};

use crate::GuestError;
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
        let header = self.0.space.header();
        let damaged = || Error::Corrupt { what: "the generation of a guest".into(), at: header.at };
        header.tie(self.0.space.layout.identity).ok_or_else(damaged)
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
        let stamp = read_stamp(&*self.0.disk, &self.0.space.layout)?;
        let stamp = stamp.filter(|stamp| stamp.tag == self.0.identity.tag);
        let of = |stamp: DiskStamp| TieStamp { identity: stamp.record.object, generation: stamp.record.generation };
        Ok(stamp.map(of))
    }

    fn write(&self, stamp: &TieStamp) -> Result<()> {
        let layout = &self.0.space.layout;
        let record = TieRecord {
            role: TieRole::Disk,
            pool: self.0.identity.pool,
            object: stamp.identity,
            generation: stamp.generation,
            previous: self.load()?.previous,
        };
        let mut shape = [0; 40];
        shape[..8].copy_from_slice(&layout.size.to_le_bytes());
        let stamp = DiskStamp { record, magic: MAGIC, version: VERSION, tag: self.0.identity.tag, shape };
        stamp.write(&*self.0.disk, layout.size)
    }
}

/// Returns the stamp of a guest on `disk`.
///
/// # Errors
/// The errors of the disk.
pub(crate) fn read_stamp(disk: &dyn Disk, layout: &GuestLayout) -> Result<Option<DiskStamp>> {
    DiskStamp::read(disk, layout.size, &MAGIC)
}

/// Moves the tie of the guest and its disk to a new generation (VR9).
///
/// # Errors
/// [`GuestError::Refused`] if pool and disk do not match, and the errors of both.
pub(crate) fn advance(engine: &GuestEngine, nonce: u16) -> crate::Result<()> {
    let verdict = tie::advance(&GuestEnds(engine), nonce)?;
    if verdict.is_good() {
        return Ok(());
    }
    let name = &engine.identity.name;
    let why = match verdict {
        TieVerdict::ObjectLater => "the disk is of a later time than the pool, as after a restore of the pool",
        TieVerdict::PoolLater => "the disk is of an earlier time than the pool: an old copy of it",
        TieVerdict::Diverged => "two copies of the pool or of the disk were used separately",
        TieVerdict::OtherIdentity => "the disk belongs to another guest",
        TieVerdict::Absent | TieVerdict::Same | TieVerdict::Unfinished => "the disk has no stamp of this guest",
    };
    Err(GuestError::Refused(format!(
        "the guest {name:?} and its disk do not match: {why}. Bring the right disk back, or run `ferrite guest remove \
         {name}`, which says what would be lost"
    )))
}
