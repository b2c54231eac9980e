//! The SSDs of a tier: how a file system gains them, and how they are found when it is opened.
//!
//! ```text
//! SSD     0 stamp (see `ferrite_pool::disk_stamp`)   1 MiB segments
//! stamp   magic "FERRTIER"   version 1   shape: 0 first segment u64   8 segments u64
//! ```
//!
//! The invariants TI11 and TI13 (`tier.rs`) are kept here.

use std::sync::Arc;

use ferrite_disk::{Disk, StatsDisk};
use ferrite_memory::{Scheme, planted};
use ferrite_pool::disk_stamp::{DiskStamp, StampEnds};
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::{self, Generation, TieEnds, TieRecord, TieRole, TieVerdict};
use ferrite_pool::{MemberKind, Pool, PoolMember, SpaceNeed, Tag, TagChange, Zone};

use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT, SegmentNo, SegmentSalt};
use crate::format::shape::FsShape;
use crate::format::slot_table::{SlotTable, SsdState, TIER_ROLE, TIER_SSDS_MAX, TierSsd, decode_header, encode_header};
use crate::share::layout::shared_state::SharedState;
use crate::store::slots::SlotStore;
use crate::store::tier_set::{TierMember, TierSet};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"FERRTIER";
const VERSION: u32 = 1;
/// Segments of an SSD at least.
const SEGMENTS_MIN: u64 = 4;

/// An SSD for a tier.
#[derive(Clone)]
pub struct TierDisk {
    /// A UUID that no other member of the pool has.
    pub uuid: [u8; 16],
    /// Where it is opened the next time; at most 280 bytes.
    pub address: String,
    /// The SSD.
    pub disk: Arc<dyn Disk>,
}

/// An opened SSD, or why it cannot be opened.
pub type OpenedSsd = std::result::Result<Arc<dyn Disk>, String>;

/// What opening a tier needs of its caller.
pub struct TierOpening<'a> {
    /// Opens an SSD by its address, or says why not.
    pub open: &'a dyn Fn(&str) -> OpenedSsd,
    /// A random number, for the next generation of each tie.
    pub nonce: u16,
}

impl std::fmt::Debug for TierDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierDisk").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A file system's tag, and its table.
struct TierTag<'a> {
    pool: &'a Pool,
    tag: &'a Tag,
    table: SlotTable,
    ssds: Vec<TierSsd>,
}

impl<'a> TierTag<'a> {
    fn read(pool: &'a Pool, tag: &'a Tag) -> Result<Self> {
        let corrupt = |at| Error::Corrupt { name: tag.name.clone(), what: "the table of the tier", at };
        let table = SlotTable::of(tag).ok_or_else(|| corrupt(0))?;
        let mut page = [0; PAGE as usize];
        pool.memory().load(table.header(), &mut page);
        let ssds = decode_header(&page).ok_or_else(|| corrupt(table.header()))?;
        let fits = |ssd: &TierSsd| ssd.first.0.saturating_add(ssd.segments) <= table.segments();
        if ssds.iter().all(fits) { Ok(Self { pool, tag, table, ssds }) } else { Err(corrupt(table.header())) }
    }

    fn is_complete(&self) -> bool {
        self.ssds.iter().all(|ssd| ssd.state != SsdState::Joining)
    }

    fn ends<'b>(&'b self, ssd: &TierSsd, disk: &'b dyn Disk, nonce: u16) -> StampEnds<'b> {
        let mut shape = [0; 40];
        shape[..8].copy_from_slice(&ssd.first.0.to_le_bytes());
        shape[8..16].copy_from_slice(&ssd.segments.to_le_bytes());
        let (pool, generation) = (self.pool.superblock().uuid, Generation::first(nonce));
        let record = TieRecord { role: TieRole::Ssd, pool, object: ssd.uuid, generation, previous: None };
        let stamp = DiskStamp { record, magic: MAGIC, version: VERSION, tag: self.tag.generation, shape };
        StampEnds { pool: self.pool, disk, at: 0, stamp }
    }
}

/// Returns the slots of the file system of `tag`, if it has a tier. A file system that is only
/// read may lack some.
pub(crate) fn load_slots(
    pool: &Pool,
    tag: &Tag,
    is_read_only: bool,
    opening: &TierOpening<'_>,
    shared_state: &Arc<SharedState>,
) -> Result<Option<SlotStore>> {
    if !FsShape::read(tag)?.has_tier {
        return Ok(None);
    }
    let tier = TierTag::read(pool, tag)?;
    if !tier.is_complete() {
        return Ok(None);
    }
    let mut members = Vec::new();
    for ssd in &tier.ssds {
        let found = find(&tier, ssd, is_read_only, opening);
        let disk = if is_read_only { found.ok() } else { Some(found?) };
        members.push(TierMember { ssd: ssd.clone(), disk: disk.map(|disk| Arc::new(StatsDisk::new(disk))) });
    }
    let salt = SegmentSalt { pool: pool.superblock().uuid, tag: tag.generation };
    let set = TierSet::new(tier.table, members);
    Ok(Some(SlotStore::load(pool.memory(), set, salt, shared_state)))
}

/// Opens `ssd` and compares its stamp with the pool's, and moves both on, unless it is only read (TI11).
fn find(tier: &TierTag<'_>, ssd: &TierSsd, is_read_only: bool, opening: &TierOpening<'_>) -> Result<Arc<dyn Disk>> {
    let refused = |why: &str| {
        Error::Ssd(format!(
            "the SSD {} of the file system {:?} {why}; `--read-only` mounts what is in the pool",
            ssd.address, tier.tag.name
        ))
    };
    let disk = (opening.open)(&ssd.address).map_err(|why| refused(&format!("cannot be opened: {why}")))?;
    let needed = SEGMENTS_AT + ssd.segments * SEGMENT_BYTES;
    if disk.geometry().size < needed {
        return Err(refused(&format!("has {} bytes, and had {needed} at least", disk.geometry().size)));
    }
    let ends = tier.ends(ssd, &*disk, opening.nonce);
    let verdict = if is_read_only {
        tie::compare(&tie::PoolSide::load(&ends)?, ends.read()?.as_ref())
    } else {
        tie::advance(&ends, opening.nonce)?
    };
    match verdict {
        TieVerdict::Same | TieVerdict::Unfinished => Ok(disk),
        TieVerdict::ObjectLater => Err(refused("was used by a later copy of this pool: this pool is an older one")),
        TieVerdict::PoolLater => Err(refused("is an older copy: the pool was used with a later one")),
        TieVerdict::Diverged => Err(refused("was used by another copy of this pool, which went its own way")),
        TieVerdict::OtherIdentity => Err(refused("is another SSD: it was swapped, or made anew")),
        TieVerdict::Absent => Err(refused("has no stamp: it is another one, or was overwritten")),
    }
}

/// Gives the SSDs of `slots` a new generation if the pool may have been copied since they got theirs, before the next
/// segment is written (TI11). The copy does not match them then.
pub(crate) fn renew_ties(pool: &Pool, tag: &Tag, slots: &SlotStore, nonce: u16) -> Result<()> {
    if planted!("fs: SSD of a copied pool") || !slots.take_copy_note() {
        return Ok(());
    }
    let set = slots.set();
    let there = set.members().iter().filter(|member| member.disk.is_some());
    let renewed = there.map(|member| (&member.ssd, member.disk())).try_for_each(|(ssd, disk)| {
        match tie::advance(&TierTag::read(pool, tag)?.ends(ssd, disk?, nonce), nonce)?.is_good() {
            true => Ok(()),
            false => Err(Error::Ssd(format!("{} got another stamp meanwhile", ssd.address))),
        }
    });
    if renewed.is_err() {
        slots.note_copy();
    }
    renewed
}

/// Returns `tag` without a tier whose making did not end (TI13).
pub(crate) fn undo_unfinished(pool: &Pool, tag: Arc<Tag>) -> Result<Arc<Tag>> {
    let shape = FsShape::read(&tag)?;
    if !shape.has_tier {
        return Ok(tag);
    }
    let tier = TierTag::read(pool, &tag)?;
    if tier.is_complete() {
        return Ok(tag);
    }
    remove_members(&tier)?;
    let keep: Vec<_> = tag.extents.iter().filter(|extent| extent.role != TIER_ROLE).copied().collect();
    let attributes = shape.with_tier(false).attributes();
    let change = TagChange { size: tag.size, attributes, add: &[], keep: &keep };
    Ok(pool.change_tag(&tag, &change, |_| Ok(()))?)
}

fn remove_members(tier: &TierTag<'_>) -> Result<()> {
    let known = tier.pool.members()?;
    for ssd in tier.ssds.iter().filter(|ssd| known.iter().any(|member| member.uuid == ssd.uuid)) {
        tier.pool.remove_member(&ssd.uuid)?;
    }
    Ok(())
}

/// Removes the SSDs of the file system of `tag`, which is about to be removed, from the pool.
pub(crate) fn remove_ssds(pool: &Pool, tag: &Tag) -> Result<()> {
    if !FsShape::read(tag)?.has_tier {
        return Ok(());
    }
    remove_members(&TierTag::read(pool, tag)?)
}

/// Refuses an SSD that cannot be one of a tier.
fn listed(ssd: &TierDisk, first: u64) -> Result<TierSsd> {
    let (geometry, address) = (ssd.disk.geometry(), &ssd.address);
    let segments = geometry.size.saturating_sub(SEGMENTS_AT) / SEGMENT_BYTES;
    let why = if segments < SEGMENTS_MIN {
        format!("has {} bytes: an SSD of a file system has 3 MiB at least", geometry.size)
    } else if u64::from(geometry.sector_bytes) > PAGE || geometry.read_only {
        "is read-only, or has sectors beyond 4 KiB".into()
    } else if address.len() > 280 {
        "has an address beyond 280 bytes".into()
    } else {
        let (uuid, address) = (ssd.uuid, address.clone());
        return Ok(TierSsd { uuid, first: SegmentNo(first), segments, state: SsdState::Joining, address });
    };
    Err(Error::Refused(format!("{address} {why}")))
}

/// Refuses SSDs with content whose size `lose` does not name.
fn ensure_may_lose(ssds: &[TierDisk], lose: Option<u64>) -> Result<()> {
    let (mut bytes, mut named) = (0, Vec::new());
    for ssd in ssds {
        let mut head = vec![0; SEGMENTS_AT.min(ssd.disk.geometry().size) as usize];
        ssd.disk.read(0, &mut head)?;
        if head.iter().any(|byte| *byte != 0) {
            bytes += ssd.disk.geometry().size;
            named.push(ssd.address.as_str());
        }
    }
    if bytes == 0 || lose == Some(bytes) {
        return Ok(());
    }
    let named = named.join(" and ");
    Err(Error::Refused(format!("{named} may hold data, which would be lost: --lose {bytes} loses it")))
}

/// See [`crate::FileSystem::add_tier`].
pub(crate) fn add_tier(pool: &Pool, name: &str, ssds: &[TierDisk], lose: Option<u64>, nonce: u16) -> Result<()> {
    let tag = undo_unfinished(pool, pool.tag(name)?)?;
    let shape = FsShape::read(&tag)?;
    if shape.has_tier {
        return Err(Error::Unsupported("the file system has SSDs already"));
    }
    if ssds.is_empty() || ssds.len() > TIER_SSDS_MAX {
        return Err(Error::Invalid("a file system has one to eight SSDs"));
    }
    let mut joining: Vec<TierSsd> = Vec::new();
    for ssd in ssds {
        let first = joining.last().map_or(0, |last| last.first.0 + last.segments);
        joining.push(listed(ssd, first)?);
    }
    ensure_may_lose(ssds, lose)?;
    let all = joining.iter().map(|ssd| ssd.segments).sum();
    let need = SpaceNeed { role: TIER_ROLE, zone: Zone::Normal, bytes: SlotTable::bytes(all) };
    let attributes = shape.with_tier(true).attributes();
    let change = TagChange { size: tag.size, attributes, add: &[need], keep: &tag.extents };
    let tag = pool.change_tag(&tag, &change, |extents| {
        let added = Tag { extents: extents.to_vec(), ..(*tag).clone() };
        let table = SlotTable::of(&added).expect("it was added");
        for extent in extents.iter().filter(|extent| extent.role == TIER_ROLE) {
            pool.memory().zero(extent.span(), Scheme::Nt);
        }
        pool.memory().store(table.header(), &encode_header(&joining), Scheme::Nt);
        Ok(pool.memory().drain()?)
    })?;
    let tier = TierTag::read(pool, &tag)?;
    match stamp_all(&tier, ssds, nonce) {
        Ok(()) => complete(&tier),
        Err(why) => {
            let _ = undo_unfinished(pool, Arc::clone(&tag));
            Err(why)
        }
    }
}

/// Makes all SSDs members of the pool, and stamps them.
fn stamp_all(tier: &TierTag<'_>, ssds: &[TierDisk], nonce: u16) -> Result<()> {
    for (ssd, given) in tier.ssds.iter().zip(ssds) {
        DiskStamp::erase(&*given.disk, 0)?;
        let member = PoolMember {
            uuid: ssd.uuid,
            kind: MemberKind::Ssd,
            generation: Generation::first(nonce),
            previous: None,
            size: given.disk.geometry().size,
            label: label_of(&ssd.address),
        };
        planted!("fs: SSD that is no member" => continue);
        tier.pool.add_member(&member)?;
        let verdict = tie::advance(&tier.ends(ssd, &*given.disk, nonce), nonce)?;
        if !verdict.is_good() {
            return Err(Error::Ssd(format!("{} got another stamp meanwhile", ssd.address)));
        }
    }
    Ok(())
}

/// Lets the file system use its SSDs from now on (TI13).
fn complete(tier: &TierTag<'_>) -> Result<()> {
    let ssds: Vec<TierSsd> = tier.ssds.iter().map(|ssd| TierSsd { state: SsdState::InUse, ..ssd.clone() }).collect();
    let mut transaction = tier.pool.transaction();
    transaction.write(tier.table.header(), &encode_header(&ssds));
    Ok(transaction.commit()?)
}

/// Returns the label of a member: the end of its address, as far as a label may be long.
fn label_of(address: &str) -> String {
    let clean: Vec<char> = address.chars().filter(|letter| !letter.is_control()).collect();
    let mut label = String::new();
    for start in 0..clean.len() {
        label = clean[start..].iter().collect();
        if label.len() <= 64 {
            break;
        }
    }
    if label.is_empty() { "ssd".into() } else { label }
}
