//! External members: the SSDs and disks that hold part of the data of the pool's services.
//!
//! ```text
//! table       32 slots of 128 bytes at layout::MEMBERS
//! slot        0 crc u32   4 kind u32   8 generation u64   16 uuid [16]   32 size u64   40 label_len u64
//!             48 label [64]   112 previous u64   120 state u32 (1 settled, 2 moving)   124 version u32
//! ```
//!
//! A slot of zeros is free; the crc covers the rest of the slot. Version 2 is the pool's side of a tie
//! ([`crate::tie`]), whose identity is the UUID; the member has the other side. Slots of version 0 have zeros from byte
//! 112 on, and a generation that is a count alone. A pool with a slot of version 2 has format version 2, which a
//! program that does not read ties refuses.
//!
//! - E1. A change of a slot is a transaction: after a crash a member is as before the change or as after it.
//! - E2. No two slots have the same UUID.
//! - E3. The count of a member's generation only grows.
//! - E4. The pool has format version 2, durably, before a slot of version 2 is written.

use std::collections::BTreeSet;

use ferrite_memory::Memory;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::damage::TableDamage;
use crate::layout::{MEMBER_SLOTS, MEMBERS, SLOT};
use crate::tie::{Generation, PoolSide, Tie};
use crate::{Error, Pool, Result, show_uuid};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = SLOT as usize;
/// Longest label in bytes.
const LABEL_BYTES: usize = 64;

/// The kind of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// A flash drive.
    Ssd = 1,
    /// A disk that is cached or backed.
    Disk = 2,
    /// The backup images of the pool: one slot for all, with the UUID of the pool.
    Image = 3,
}

/// A member as the pool's table lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolMember {
    /// The UUID, which the member's stamp has too.
    pub uuid: [u8; 16],
    /// The kind of the member.
    pub kind: MemberKind,
    /// The generation that the member has or is about to have.
    pub generation: Generation,
    /// The generation that the member may still have; `None` if it may have no stamp. In a settled tie it equals
    /// `generation`.
    pub previous: Option<Generation>,
    /// Its size in bytes.
    pub size: u64,
    /// The name that users give it: 1 to 64 bytes of UTF-8 without control characters.
    pub label: String,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct MemberMedia {
    crc: U32,
    kind: U32,
    generation: U64,
    uuid: [u8; 16],
    size: U64,
    label_len: U64,
    label: [u8; LABEL_BYTES],
    previous: U64,
    state: U32,
    version: U32,
}

/// The version of a slot with a tie.
const TIED: u32 = 2;

const _: () = assert!(size_of::<MemberMedia>() == SLOT_BYTES);

/// Decodes the slot at byte `at`; returns `None` if it is free. `bytes` may be anything.
///
/// # Errors
/// [`Error::Corrupt`] for bytes that this program cannot have written.
pub fn decode_slot(bytes: &[u8; SLOT_BYTES], at: u64) -> Result<Option<PoolMember>> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let corrupt = |what: &str| Error::corrupt(format!("the member slot ({what})"), at);
    let media = MemberMedia::read_from_bytes(bytes).expect("the size is the type's");
    if crc32fast::hash(&bytes[4..]) != media.crc.get() {
        return Err(corrupt("checksum"));
    }
    let kind = match media.kind.get() {
        1 => MemberKind::Ssd,
        2 => MemberKind::Disk,
        3 => MemberKind::Image,
        _ => return Err(corrupt("kind")),
    };
    let len = usize::try_from(media.label_len.get()).ok();
    let label = len.and_then(|len| media.label.get(..len)).and_then(|label| std::str::from_utf8(label).ok());
    let label = label.filter(|label| is_label(label)).ok_or_else(|| corrupt("label"))?.to_string();
    let (generation, previous) = media.generations().ok_or_else(|| corrupt("generation"))?;
    let (uuid, size) = (media.uuid, media.size.get());
    Ok(Some(PoolMember { uuid, kind, generation, previous, size, label }))
}

impl MemberMedia {
    /// Returns the generation and the previous one, or `None` if this program does not write them.
    fn generations(&self) -> Option<(Generation, Option<Generation>)> {
        let (generation, previous) = (self.generation.get(), self.previous.get());
        match self.version.get() {
            0 => {
                let counted = Generation::of(generation.checked_mul(1 << 16)?)?;
                Some((counted, Some(counted)))
            }
            TIED if self.state.get() == state(generation, previous) => {
                let previous = if previous == 0 { None } else { Some(Generation::of(previous)?) };
                Some((Generation::of(generation)?, previous))
            }
            _ => None,
        }
    }
}

fn state(generation: u64, previous: u64) -> u32 {
    if generation == previous { 1 } else { 2 }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES).contains(&label.len()) && !label.chars().any(char::is_control)
}

impl PoolMember {
    /// Returns the bytes of the member's slot.
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut media = MemberMedia::new_zeroed();
        media.kind = (self.kind as u32).into();
        let (generation, previous) = (self.generation.number(), self.previous.map_or(0, Generation::number));
        (media.generation, media.previous) = (generation.into(), previous.into());
        (media.state, media.version) = (state(generation, previous).into(), TIED.into());
        media.uuid = self.uuid;
        media.size = self.size.into();
        media.label_len = (self.label.len() as u64).into();
        media.label[..self.label.len()].copy_from_slice(self.label.as_bytes());
        media.crc = crc32fast::hash(&media.as_bytes()[4..]).into();
        zerocopy::transmute!(media)
    }
}

/// A slot of the table, and the member in it.
struct MemberSlot {
    at: u64,
    member: Option<PoolMember>,
}

/// Returns the slots of the table in `memory`, each with its byte offset.
fn decoded(memory: &dyn Memory) -> impl Iterator<Item = (u64, Result<Option<PoolMember>>)> {
    (0..MEMBER_SLOTS).map(move |index| {
        let (at, mut bytes) = (MEMBERS + index * SLOT, [0; SLOT_BYTES]);
        memory.load(at, &mut bytes);
        (at, decode_slot(&bytes, at))
    })
}

/// Returns every slot of the table in `memory`.
fn slots(memory: &dyn Memory) -> impl Iterator<Item = Result<MemberSlot>> {
    decoded(memory).map(|(at, found)| Ok(MemberSlot { at, member: found? }))
}

/// Returns true if a slot has a tie. Then the pool has format version 2.
pub(crate) fn has_ties(memory: &dyn Memory) -> bool {
    (0..MEMBER_SLOTS).any(|index| {
        let mut version = [0; 4];
        memory.load(MEMBERS + (index + 1) * SLOT - 4, &mut version);
        version == TIED.to_le_bytes()
    })
}

/// Returns the damage of slots that cannot be read, or that repeat another slot's UUID (E2).
pub(crate) fn damage(memory: &dyn Memory) -> Vec<TableDamage> {
    let mut seen = BTreeSet::new();
    let damaged = decoded(memory).filter_map(|(at, found)| {
        let error = match found {
            Ok(Some(member)) if !seen.insert(member.uuid) => {
                Error::corrupt("the member slot (a second one for its UUID)", at)
            }
            Ok(_) => return None,
            Err(error) => error,
        };
        Some(TableDamage { error, at, is_slot: true })
    });
    damaged.collect()
}

impl Pool {
    /// Returns the external members.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a slot is damaged.
    pub fn members(&self) -> Result<Vec<PoolMember>> {
        let _table = self.table();
        slots(self.memory()).filter_map(|slot| slot.map(|slot| slot.member).transpose()).collect()
    }

    /// Adds `member` to the pool. Durable on return; the caller stamps the member itself afterwards.
    ///
    /// # Errors
    /// [`Error::Member`] for a bad label, for a member that the pool already has, and if the table is full; else as
    /// [`Pool`] says.
    pub fn add_member(&self, member: &PoolMember) -> Result<()> {
        if !is_label(&member.label) {
            let label = &member.label;
            let what =
                format!("{label:?} is not a valid label of a member: 1 to 64 bytes of UTF-8, no control characters");
            return Err(Error::Member(what));
        }
        // One slot is kept for the pool's images, so that a backup always has it.
        let is_full = self.members()?.len() as u64 >= MEMBER_SLOTS - 1;
        if member.kind != MemberKind::Image && is_full {
            return Err(Error::Member(format!("the pool has {} members: remove one first", MEMBER_SLOTS - 1)));
        }
        change_member(self, &member.uuid, |known| match known {
            Some(known) => Err(Error::Member(format!(
                "{} is already a member of this pool, as {:?}",
                show_uuid(&known.uuid),
                known.label
            ))),
            None => Ok(Some(member.clone())),
        })
    }

    /// Returns the pool's side of the tie to the member with this UUID.
    pub fn member_tie(&self, uuid: [u8; 16]) -> MemberTie<'_> {
        MemberTie { pool: self, uuid }
    }

    /// Removes the member from the pool. Durable on return. Its service has copied home the data that only the member
    /// had.
    ///
    /// # Errors
    /// [`Error::Member`] if the pool has no such member; else as [`Pool`] says.
    pub fn remove_member(&self, member: &[u8; 16]) -> Result<()> {
        change_member(self, member, |known| known.map(|_| None).ok_or_else(|| unknown(member)))
    }
}

/// Passes the member with `uuid` to `change` and stores the result in its slot (E1).
fn change_member(
    pool: &Pool,
    uuid: &[u8; 16],
    change: impl FnOnce(Option<&PoolMember>) -> Result<Option<PoolMember>>,
) -> Result<()> {
    let mut transaction = pool.transaction();
    let _table = pool.table();
    let slots: Vec<MemberSlot> = slots(pool.memory()).collect::<Result<_>>()?;
    let of_uuid = slots.iter().find(|slot| slot.member.as_ref().is_some_and(|member| member.uuid == *uuid));
    let new = change(of_uuid.and_then(|slot| slot.member.as_ref()))?;
    let slot = of_uuid.or_else(|| slots.iter().find(|slot| slot.member.is_none()));
    let slot = slot.ok_or_else(|| Error::Member(format!("the pool has {MEMBER_SLOTS} members: remove one first")))?;
    if new.is_some() {
        pool.raise_version()?;
    }
    transaction.write(slot.at, &new.map_or([0; SLOT_BYTES], |member| member.encode()));
    transaction.commit()
}

/// The pool's side of the tie to one member.
#[derive(Debug)]
pub struct MemberTie<'pool> {
    pool: &'pool Pool,
    uuid: [u8; 16],
}

impl MemberTie<'_> {
    fn change(&self, change: impl FnOnce(&mut PoolMember) -> Result<()>) -> Result<()> {
        change_member(self.pool, &self.uuid, |known| {
            let mut member = known.cloned().ok_or_else(|| unknown(&self.uuid))?;
            change(&mut member)?;
            Ok(Some(member))
        })
    }
}

impl PoolSide for MemberTie<'_> {
    type Error = Error;

    fn load(&self) -> Result<Tie> {
        let member = self.pool.members()?.into_iter().find(|member| member.uuid == self.uuid);
        let PoolMember { uuid, generation, previous, .. } = member.ok_or_else(|| unknown(&self.uuid))?;
        Ok(Tie { identity: uuid, current: generation, previous })
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        self.change(|member| {
            if current.count() <= member.generation.count() {
                return Err(Error::Member(format!(
                    "member {} already has generation {}, and {current} is not newer",
                    show_uuid(&member.uuid),
                    member.generation
                )));
            }
            member.generation = current;
            Ok(())
        })
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        self.change(|member| {
            member.previous = previous;
            Ok(())
        })
    }
}

fn unknown(member: &[u8; 16]) -> Error {
    Error::Member(format!("{} is not a member of this pool", show_uuid(member)))
}

#[cfg(test)]
mod tests;
