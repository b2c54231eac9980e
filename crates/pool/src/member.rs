//! External members: the SSDs and disks that hold part of what the pool's services answer for.
//!
//! ```text
//! table       32 slots of 128 bytes at layout::MEMBERS
//! slot        0 crc u32   4 kind u32   8 generation u64   16 uuid [16]   32 size u64   40 label_len u64
//!             48 label [64]   112 reserved [16]
//! ```
//!
//! A slot of zeros is free; the crc covers the rest of the slot. The member carries the same UUID and generation, by
//! its service's hand. Who attaches it compares: an older stamp on the member is a member that was away while the pool
//! moved on, a newer one a pool that was, and neither may be used as if nothing had happened.
//!
//! - E1. A change of a slot is a transaction: after a crash a member is as before it or as after it.
//! - E2. No two slots have one UUID.
//! - E3. A member's generation only grows.

use std::collections::BTreeSet;

use ferrite_medium::Memory;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::layout::{MEMBER_SLOTS, MEMBERS, SLOT};
use crate::tags::Damage;
use crate::{Error, Pool, Result, show_uuid};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = SLOT as usize;
/// Bytes of a label at most.
const LABEL_BYTES: usize = 64;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// A flash drive.
    Ssd = 1,
    /// A disk that is cached or backed.
    Disk = 2,
}

/// A member as the pool knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is; stamped on the member too.
    pub uuid: [u8; 16],
    /// What it is.
    pub kind: MemberKind,
    /// Counts attachments and takeovers; stamped on the member too.
    pub generation: u64,
    /// Its size in bytes.
    pub size: u64,
    /// What people call it: 1 to 64 bytes of UTF-8 without control characters.
    pub label: String,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Media {
    crc: U32,
    kind: U32,
    generation: U64,
    uuid: [u8; 16],
    size: U64,
    label_len: U64,
    label: [u8; LABEL_BYTES],
    reserved: [u8; 16],
}

const _: () = assert!(size_of::<Media>() == SLOT_BYTES);

/// Decodes the slot at byte `at`; `None` where it is free. `bytes` may be anything.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn decode_slot(bytes: &[u8; SLOT_BYTES], at: u64) -> Result<Option<Member>> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let corrupt = |what: &str| Error::corrupt(format!("the member slot ({what})"), at);
    let media = Media::read_from_bytes(bytes).expect("the size is the type's");
    if crc32fast::hash(&bytes[4..]) != media.crc.get() {
        return Err(corrupt("checksum"));
    }
    let kind = match media.kind.get() {
        1 => MemberKind::Ssd,
        2 => MemberKind::Disk,
        _ => return Err(corrupt("kind")),
    };
    let len = usize::try_from(media.label_len.get()).ok();
    let label = len.and_then(|len| media.label.get(..len)).and_then(|label| std::str::from_utf8(label).ok());
    let label = label.filter(|label| is_label(label)).ok_or_else(|| corrupt("label"))?.to_string();
    let (uuid, generation, size) = (media.uuid, media.generation.get(), media.size.get());
    Ok(Some(Member { uuid, kind, generation, size, label }))
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES).contains(&label.len()) && !label.chars().any(char::is_control)
}

impl Member {
    /// The bytes of its slot.
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut media = Media::new_zeroed();
        media.kind = (self.kind as u32).into();
        media.generation = self.generation.into();
        media.uuid = self.uuid;
        media.size = self.size.into();
        media.label_len = (self.label.len() as u64).into();
        media.label[..self.label.len()].copy_from_slice(self.label.as_bytes());
        media.crc = crc32fast::hash(&media.as_bytes()[4..]).into();
        zerocopy::transmute!(media)
    }
}

/// A slot and what is in it.
struct Slot {
    at: u64,
    member: Option<Member>,
}

/// The slots of the table in `memory`, with where they lie.
fn decoded(memory: &dyn Memory) -> impl Iterator<Item = (u64, Result<Option<Member>>)> {
    (0..MEMBER_SLOTS).map(move |index| {
        let (at, mut bytes) = (MEMBERS + index * SLOT, [0; SLOT_BYTES]);
        memory.load(at, &mut bytes);
        (at, decode_slot(&bytes, at))
    })
}

/// Every slot of the table in `memory`.
fn slots(memory: &dyn Memory) -> impl Iterator<Item = Result<Slot>> {
    decoded(memory).map(|(at, found)| Ok(Slot { at, member: found? }))
}

/// Slots that cannot be read, or that name a member that another one names (E2).
pub(crate) fn damage(memory: &dyn Memory) -> Vec<Damage> {
    let mut seen = BTreeSet::new();
    let damaged = decoded(memory).filter_map(|(at, found)| {
        let error = match found {
            Ok(Some(member)) if !seen.insert(member.uuid) => {
                Error::corrupt("the member slot (a second one for its UUID)", at)
            }
            Ok(_) => return None,
            Err(error) => error,
        };
        Some(Damage { error, at, is_slot: true })
    });
    damaged.collect()
}

impl Pool {
    /// The external members.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn members(&self) -> Result<Vec<Member>> {
        let _table = self.table();
        slots(self.memory()).filter_map(|slot| slot.map(|slot| slot.member).transpose()).collect()
    }

    /// Makes `member` one of the pool's. Durable on return; stamp the member itself afterwards.
    ///
    /// # Errors
    /// [`Error::Member`] for what is no label, for a member that it has already and where it has all it can have; else
    /// as [`Pool`] says.
    pub fn add_member(&self, member: &Member) -> Result<()> {
        if !is_label(&member.label) {
            let label = &member.label;
            let what = format!("{label:?} is no label for a member: 1 to 64 bytes of UTF-8, no control characters");
            return Err(Error::Member(what));
        }
        self.change_member(&member.uuid, |known| match known {
            Some(known) => Err(Error::Member(format!(
                "{} is a member of this pool already, as {:?}",
                show_uuid(&known.uuid),
                known.label
            ))),
            None => Ok(Some(member.clone())),
        })
    }

    /// Notes that the member is of `generation` from now on, which is newer than before (E3). Durable on return.
    ///
    /// # Errors
    /// [`Error::Member`] where it has no such member, or one that is as new; else as [`Pool`] says.
    pub fn set_member_generation(&self, member: &[u8; 16], generation: u64) -> Result<()> {
        self.change_member(member, |known| match known {
            Some(known) if generation <= known.generation => Err(Error::Member(format!(
                "member {} is of generation {} already, which {generation} is not newer than",
                show_uuid(&known.uuid),
                known.generation
            ))),
            Some(known) => Ok(Some(Member { generation, ..known.clone() })),
            None => Err(unknown(member)),
        })
    }

    /// Forgets the member. Durable on return. Its service has taken home what only the member had.
    ///
    /// # Errors
    /// [`Error::Member`] where it has no such member; else as [`Pool`] says.
    pub fn remove_member(&self, member: &[u8; 16]) -> Result<()> {
        self.change_member(member, |known| known.map(|_| None).ok_or_else(|| unknown(member)))
    }

    /// Gives the member with `uuid` to `change` and makes what that returns the content of its slot (E1).
    fn change_member(
        &self,
        uuid: &[u8; 16],
        change: impl FnOnce(Option<&Member>) -> Result<Option<Member>>,
    ) -> Result<()> {
        let mut transaction = self.transaction();
        let _table = self.table();
        let slots: Vec<Slot> = slots(self.memory()).collect::<Result<_>>()?;
        let of_uuid = slots.iter().find(|slot| slot.member.as_ref().is_some_and(|member| member.uuid == *uuid));
        let new = change(of_uuid.and_then(|slot| slot.member.as_ref()))?;
        let slot = of_uuid.or_else(|| slots.iter().find(|slot| slot.member.is_none()));
        let slot =
            slot.ok_or_else(|| Error::Member(format!("the pool has {MEMBER_SLOTS} members: remove one first")))?;
        transaction.write(slot.at, &new.map_or([0; SLOT_BYTES], |member| member.encode()));
        transaction.commit()
    }
}

fn unknown(member: &[u8; 16]) -> Error {
    Error::Member(format!("{} is no member of this pool", show_uuid(member)))
}

#[cfg(test)]
mod tests;
