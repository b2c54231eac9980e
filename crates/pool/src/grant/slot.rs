//! The slot of a grant on the medium. Its format is in [`super`].

use std::fmt;

use ferrite_memory::{Memory, Scheme};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::bounds::SERIAL_BOUND;
use crate::extent::{Extent, ExtentMedia};
use crate::layout::{GRANT_SLOTS, GRANTS, SLOT};
use crate::tag::{OVERFLOW, Tag};
use crate::{Error, Result, overflow};

use super::coverage::Coverage;
use super::process_identity::{Process, ProcessIdentity};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = SLOT as usize;
/// Extents that fit the slot.
const INLINE: usize = 3;
/// The largest number of extents of a grant: as many as 32 overflow pages hold.
const EXTENTS_MAX: usize = INLINE + 32 * OVERFLOW;

/// The identity of a grant, never used twice in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct GrantId(pub u64);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// The rights of a client to granted pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRights {
    /// The client may load.
    Read = 1,
    /// The client may load and store.
    ReadWrite = 2,
}

/// A grant to be given.
#[derive(Clone, Copy, Debug)]
pub struct GrantRequest<'a> {
    /// The current state of the tag.
    pub tag: &'a Tag,
    /// The pages of the tag to grant, usually all its extents.
    pub extents: &'a [Extent],
    /// The client's rights.
    pub rights: GrantRights,
    /// The client.
    pub process: &'a Process,
}

/// A grant in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// The identity of the grant.
    pub id: GrantId,
    /// The client's rights.
    pub rights: GrantRights,
    /// The generation of the tag.
    pub tag_generation: u64,
    /// The client.
    pub process: ProcessIdentity,
    /// The granted pages.
    pub extents: Vec<Extent>,
}

/// A slot that verified, without its overflow pages.
#[derive(Debug)]
pub struct DecodedGrant {
    /// The grant, with the extents in the slot only.
    pub record: GrantRecord,
    /// Byte offset of the first overflow page, or 0.
    pub overflow: u64,
    /// The number of extents, those in overflow pages included.
    pub extents: usize,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct GrantSlot {
    crc: U32,
    rights: U32,
    serial: U64,
    tag_generation: U64,
    pid: U32,
    namespace: U32,
    start_ticks: U64,
    boot_id: [u8; 16],
    extents: U32,
    reserved: U32,
    overflow: U64,
    unused: U64,
    inline: [ExtentMedia; INLINE],
}

const _: () = assert!(size_of::<GrantSlot>() == SLOT_BYTES);

/// Returns the byte offsets of the slots.
pub(super) fn places() -> impl Iterator<Item = u64> {
    (0..GRANT_SLOTS).map(|slot| GRANTS + slot * SLOT)
}

impl GrantRecord {
    pub(super) fn new(id: GrantId, ask: &GrantRequest<'_>) -> Result<Self> {
        let extents = Coverage::of(ask.extents).extents();
        if extents.len() > EXTENTS_MAX {
            let count = extents.len();
            return Err(Error::Limit(format!("{count} extents are too many for a grant of at most {EXTENTS_MAX}")));
        }
        let (rights, tag_generation, process) = (ask.rights, ask.tag.generation, ask.process.identity());
        Ok(Self { id, rights, tag_generation, process, extents })
    }

    /// Returns the extents that do not fit the slot.
    pub(super) fn rest(&self) -> &[Extent] {
        self.extents.get(INLINE..).unwrap_or_default()
    }

    pub(super) fn encode(&self, overflow: u64) -> [u8; SLOT_BYTES] {
        let mut slot = GrantSlot::new_zeroed();
        slot.rights = (self.rights as u32).into();
        slot.serial = self.id.0.into();
        slot.tag_generation = self.tag_generation.into();
        slot.pid = self.process.pid.into();
        slot.namespace = self.process.namespace.into();
        slot.start_ticks = self.process.start_ticks.into();
        slot.boot_id = self.process.boot_id;
        slot.extents = (self.extents.len() as u32).into();
        slot.overflow = overflow.into();
        for (media, extent) in slot.inline.iter_mut().zip(&self.extents) {
            *media = (*extent).into();
        }
        slot.seal()
    }
}

impl GrantSlot {
    fn seal(mut self) -> [u8; SLOT_BYTES] {
        self.crc = crc32fast::hash(&self.as_bytes()[4..]).into();
        zerocopy::transmute!(self)
    }
}

/// Decodes the slot at byte `at` of a pool of `pages` pages; returns `None` if it is free. `bytes` may be anything.
///
/// # Errors
/// [`Error::Corrupt`] for bytes that this program cannot have written.
pub fn decode_slot(bytes: &[u8; SLOT_BYTES], at: u64, pages: u64) -> Result<Option<DecodedGrant>> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let corrupt = |what: &str| Error::corrupt(format!("the grant slot ({what})"), at);
    let slot = GrantSlot::read_from_bytes(bytes).expect("the size is the type's");
    if crc32fast::hash(&bytes[4..]) != slot.crc.get() {
        return Err(corrupt("checksum"));
    }
    let rights =
        [GrantRights::Read, GrantRights::ReadWrite].into_iter().find(|rights| *rights as u32 == slot.rights.get());
    if slot.serial.get() >= SERIAL_BOUND {
        return Err(corrupt("serial"));
    }
    let extents = slot.extents.get() as usize;
    if extents > EXTENTS_MAX || slot.reserved != 0 {
        return Err(corrupt("count"));
    }
    let inline = slot.inline.iter().take(extents.min(INLINE)).map(|media| media.extent(pages));
    let process = ProcessIdentity {
        pid: slot.pid.get(),
        namespace: slot.namespace.get(),
        start_ticks: slot.start_ticks.get(),
        boot_id: slot.boot_id,
    };
    let record = GrantRecord {
        id: GrantId(slot.serial.get()),
        rights: rights.ok_or_else(|| corrupt("rights"))?,
        tag_generation: slot.tag_generation.get(),
        process,
        extents: inline.collect::<Option<_>>().ok_or_else(|| corrupt("extent"))?,
    };
    Ok(Some(DecodedGrant { record, overflow: slot.overflow.get(), extents }))
}

/// Reads the grant in the slot at `at`; returns it and its overflow pages.
pub(super) fn load(memory: &dyn Memory, at: u64, pages: u64) -> Result<Option<(GrantRecord, Vec<Extent>)>> {
    let mut bytes = [0; SLOT_BYTES];
    memory.load(at, &mut bytes);
    let Some(DecodedGrant { mut record, overflow: first, extents }) = decode_slot(&bytes, at, pages)? else {
        return Ok(None);
    };
    let (overflow, rest) = overflow::load(memory, first, extents - record.extents.len(), pages)?;
    record.extents.extend(rest);
    if record.extents.len() != extents {
        return Err(Error::corrupt("the extents of a grant", at));
    }
    Ok(Some((record, overflow)))
}

/// Makes every grant of the pool in `memory`, of `pages` pages, look like a grant of another boot, so that the next
/// owner reaps it. Used for a copy, which those processes cannot access. The caller settles the stores.
pub(crate) fn disown(memory: &dyn Memory, pages: u64) {
    for at in places() {
        let mut bytes = [0; SLOT_BYTES];
        memory.load(at, &mut bytes);
        // A check of the copy reports damaged slots, as in the original.
        let Ok(Some(_)) = decode_slot(&bytes, at, pages) else { continue };
        let mut slot: GrantSlot = zerocopy::transmute!(bytes);
        slot.boot_id = [0; 16];
        memory.store(at, &slot.seal(), Scheme::Nt);
    }
}

#[cfg(test)]
mod tests;
