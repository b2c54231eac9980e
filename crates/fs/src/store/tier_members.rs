//! The SSDs of a tier: how they are found when a file system is opened.
//!
//! ```text
//! SSD     0 stamp (see `ferrite_pool::disk_stamp`)   1 MiB segments
//! stamp   magic "FERRTIER"   version 1   shape: 0 first segment u64   8 segments u64
//! ```
//!
//! The invariants TI11, TI13 and TI16 (`tier.rs`) are kept here.

use std::sync::Arc;

use ferrite_disk::{Disk, StatsDisk};
use ferrite_memory::planted;
use ferrite_pool::disk_stamp::{DiskStamp, StampEnds};
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::{self, Generation, TieEnds, TieRecord, TieRole, TieVerdict};
use ferrite_pool::{Pool, Tag, TagChange};

use crate::format::segment::{SegmentNo, SegmentSalt};
use crate::format::shape::FsShape;
use crate::format::slot_table::{SlotTable, SsdState, TIER_ROLE, TierSsd, decode_header, decode_policy, encode_header};
use crate::format::tier_policy::TierPolicy;
use crate::share::layout::shared_state::SharedState;
use crate::store::slots::SlotStore;
use crate::store::tier_set::{TierMember, TierSet};
use crate::{Error, Result};

pub(crate) const MAGIC: [u8; 8] = *b"FERRTIER";
const VERSION: u32 = 1;

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
pub(crate) struct TierTag<'a> {
    pool: &'a Pool,
    tag: &'a Tag,
    pub table: SlotTable,
    pub ssds: Vec<TierSsd>,
    policy: TierPolicy,
}

impl<'a> TierTag<'a> {
    /// Reads the table of the file system of `tag`, which has a tier.
    pub fn read(pool: &'a Pool, tag: &'a Tag) -> Result<Self> {
        let corrupt = |at| Error::Corrupt { name: tag.name.clone(), what: "the table of the tier", at };
        let table = SlotTable::of(tag).ok_or_else(|| corrupt(0))?;
        let mut page = [0; PAGE as usize];
        pool.memory().load(table.header(), &mut page);
        let ssds = decode_header(&page).ok_or_else(|| corrupt(table.header()))?;
        let fits = |ssd: &TierSsd| ssd.first.0.saturating_add(ssd.segments) <= table.segments();
        let policy = decode_policy(&page);
        if ssds.iter().all(fits) { Ok(Self { pool, tag, table, ssds, policy }) } else { Err(corrupt(table.header())) }
    }

    /// Returns the SSDs that the file system has: not those whose joining did not end, nor those whose removal only has
    /// to be noted.
    pub fn staying(&self) -> Result<Vec<TierSsd>> {
        let known = self.pool.members()?;
        let is_known = |ssd: &TierSsd| known.iter().any(|member| member.uuid == ssd.uuid);
        let stays = |ssd: &TierSsd| match ssd.state {
            SsdState::Joining => false,
            SsdState::InUse => true,
            SsdState::Leaving => is_known(ssd) || self.is_named(ssd),
        };
        Ok(self.ssds.iter().filter(|ssd| stays(ssd)).cloned().collect())
    }

    /// Returns true if a word names a slot of `ssd`.
    fn is_named(&self, ssd: &TierSsd) -> bool {
        let mut words = (0..ssd.segments).flat_map(|step| self.table.named_words(SegmentNo(ssd.first.0 + step)));
        words.any(|at| self.pool.memory().load_word(at) != 0)
    }
}

/// Returns the two ends of the tie to `ssd`, which is open as `disk`.
pub(crate) fn stamp_ends<'a>(
    pool: &'a Pool,
    tag: &Tag,
    ssd: &TierSsd,
    disk: &'a dyn Disk,
    nonce: u16,
) -> StampEnds<'a> {
    let mut shape = [0; 40];
    shape[..8].copy_from_slice(&ssd.first.0.to_le_bytes());
    shape[8..16].copy_from_slice(&ssd.segments.to_le_bytes());
    let (uuid, generation) = (pool.superblock().uuid, Generation::first(nonce));
    let record = TieRecord { role: TieRole::Ssd, pool: uuid, object: ssd.uuid, generation, previous: None };
    let stamp = DiskStamp { record, magic: MAGIC, version: VERSION, tag: tag.generation, shape };
    StampEnds { pool, disk, at: 0, stamp }
}

/// Moves the tie to `ssd` to a new generation. An SSD that does not match is an error.
pub(crate) fn advance_tie(pool: &Pool, tag: &Tag, ssd: &TierSsd, disk: &dyn Disk, nonce: u16) -> Result<()> {
    match tie::advance(&stamp_ends(pool, tag, ssd, disk, nonce), nonce)?.is_good() {
        true => Ok(()),
        false => Err(Error::Ssd(format!("{} got another stamp meanwhile", ssd.address))),
    }
}

/// Writes the header of `table` with `ssds`. Durable on return.
pub(crate) fn write_header(pool: &Pool, table: &SlotTable, ssds: &[TierSsd]) -> Result<()> {
    let mut transaction = pool.transaction();
    let mut page = [0; PAGE as usize];
    pool.memory().load(table.header(), &mut page);
    transaction.write(table.header(), &encode_header(ssds, decode_policy(&page)));
    Ok(transaction.commit()?)
}

/// Returns `tag` without a table. Its file system has no tier then.
pub(crate) fn drop_table(pool: &Pool, tag: &Arc<Tag>) -> Result<Arc<Tag>> {
    let keep: Vec<_> = tag.extents.iter().filter(|extent| extent.role != TIER_ROLE).copied().collect();
    let attributes = FsShape::read(tag)?.with_tier(false).attributes();
    Ok(pool.change_tag(tag, &TagChange { size: tag.size, attributes, add: &[], keep: &keep }, |_| Ok(()))?)
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
    let staying = tier.staying()?;
    if staying.is_empty() {
        return Ok(None);
    }
    let mut members = Vec::new();
    for ssd in &staying {
        let found = find(&tier, ssd, is_read_only, opening);
        let disk = if is_read_only { found.ok() } else { Some(found?) };
        members.push(TierMember { ssd: ssd.clone(), disk: disk.map(|disk| Arc::new(StatsDisk::new(disk))) });
    }
    let salt = SegmentSalt { pool: pool.superblock().uuid, tag: tag.generation };
    let set = TierSet::new(tier.table, members);
    Ok(Some(SlotStore::load(pool.memory(), set, salt, tier.policy, shared_state)))
}

/// Opens `ssd` and compares its stamp with the pool's, and moves both on, unless it is only read (TI11).
fn find(tier: &TierTag<'_>, ssd: &TierSsd, is_read_only: bool, opening: &TierOpening<'_>) -> Result<Arc<dyn Disk>> {
    let disk = open_ssd(tier, ssd, opening)?;
    let ends = stamp_ends(tier.pool, tier.tag, ssd, &*disk, opening.nonce);
    let verdict = if is_read_only {
        tie::compare(&tie::PoolSide::load(&ends)?, ends.read()?.as_ref())
    } else {
        tie::advance(&ends, opening.nonce)?
    };
    if verdict.is_good() { Ok(disk) } else { Err(verdict_error(tier, ssd, verdict)) }
}

/// Opens `ssd`, which is as large as it was.
///
/// # Errors
/// [`Error::Ssd`].
pub(crate) fn open_ssd(tier: &TierTag<'_>, ssd: &TierSsd, opening: &TierOpening<'_>) -> Result<Arc<dyn Disk>> {
    let opened = (opening.open)(&ssd.address);
    let disk = opened.map_err(|why| ssd_refused(tier, ssd, &format!("cannot be opened: {why}")))?;
    if disk.geometry().size < ssd.disk_bytes() {
        let why = format!("has {} bytes, and had {} at least", disk.geometry().size, ssd.disk_bytes());
        return Err(ssd_refused(tier, ssd, &why));
    }
    Ok(disk)
}

/// Returns the refusal of `ssd`, whose stamp compares as `verdict`, which is not good.
pub(crate) fn verdict_error(tier: &TierTag<'_>, ssd: &TierSsd, verdict: TieVerdict) -> Error {
    let why = match verdict {
        TieVerdict::ObjectLater => {
            "was used by a later life of this pool, which was restored from an older image or is a copy: `ferrite fs tier \
             adopt` lists the files that lost pages, and takes it"
        }
        TieVerdict::PoolLater => "is an older copy: the pool was used with a later one",
        TieVerdict::Diverged => "was used by another copy of this pool, which went its own way",
        TieVerdict::OtherIdentity => "is another SSD: it was swapped, or made anew",
        TieVerdict::Absent | TieVerdict::Same | TieVerdict::Unfinished => {
            "has no stamp: it is another one, or was overwritten"
        }
    };
    ssd_refused(tier, ssd, why)
}

fn ssd_refused(tier: &TierTag<'_>, ssd: &TierSsd, why: &str) -> Error {
    Error::Ssd(format!(
        "the SSD {} of the file system {:?} {why}; `--read-only` mounts what is in the pool",
        ssd.address, tier.tag.name
    ))
}

/// Gives the SSDs of `slots` a new generation if the pool may have been copied since they got theirs, before the next
/// segment is written (TI11). The copy does not match them then.
pub(crate) fn renew_ties(pool: &Pool, tag: &Tag, slots: &SlotStore, nonce: u16) -> Result<()> {
    if planted!("fs: SSD of a copied pool") || !slots.take_copy_note() {
        return Ok(());
    }
    let set = slots.set();
    let there = set.members().iter().filter(|member| member.disk.is_some());
    let renewed = there
        .map(|member| (&member.ssd, member.disk()))
        .try_for_each(|(ssd, disk)| advance_tie(pool, tag, ssd, disk?, nonce));
    if renewed.is_err() {
        slots.note_copy();
    }
    renewed
}

/// Returns `tag` without SSDs whose joining did not end (TI13), or whose removal only has to be noted (TI16).
pub(crate) fn undo_unfinished(pool: &Pool, tag: Arc<Tag>) -> Result<Arc<Tag>> {
    if !FsShape::read(&tag)?.has_tier {
        return Ok(tag);
    }
    let tier = TierTag::read(pool, &tag)?;
    let staying = tier.staying()?;
    let (kept, gone): (Vec<TierSsd>, Vec<TierSsd>) = tier.ssds.iter().cloned().partition(|ssd| staying.contains(ssd));
    if gone.is_empty() && !kept.is_empty() {
        return Ok(tag);
    }
    remove_members(pool, &gone)?;
    if kept.is_empty() {
        return drop_table(pool, &tag);
    }
    write_header(pool, &tier.table, &kept)?;
    Ok(tag)
}

/// Removes `ssds` from the pool, as far as they are members.
pub(crate) fn remove_members(pool: &Pool, ssds: &[TierSsd]) -> Result<()> {
    let known = pool.members()?;
    let is_known = |ssd: &&TierSsd| known.iter().any(|member| member.uuid == ssd.uuid);
    Ok(ssds.iter().filter(is_known).try_for_each(|ssd| pool.remove_member(&ssd.uuid))?)
}

/// Returns how many bytes of the file system called `name` are on SSDs only. It may be open or not.
///
/// # Errors
/// [`Error::Corrupt`] for a damaged table; else as [`Pool`] says.
pub fn away_bytes(pool: &Pool, name: &str) -> Result<u64> {
    let tag = pool.tag(name)?;
    if !FsShape::read(&tag)?.has_tier {
        return Ok(0);
    }
    let tier = TierTag::read(pool, &tag)?;
    let segments = tier.ssds.iter().map(|ssd| ssd.first.0 + ssd.segments).max().unwrap_or(0);
    let words = (0..segments).flat_map(|number| tier.table.named_words(SegmentNo(number)));
    Ok(words.map(|at| u64::from(pool.memory().load_word(at).count_ones())).sum::<u64>() * PAGE)
}

/// Removes the SSDs of the file system of `tag`, which is about to be removed, from the pool.
pub(crate) fn remove_ssds(pool: &Pool, tag: &Tag) -> Result<()> {
    if !FsShape::read(tag)?.has_tier {
        return Ok(());
    }
    remove_members(pool, &TierTag::read(pool, tag)?.ssds)
}

/// See [`crate::TierUpkeep::set_policy`].
pub(crate) fn set_policy(pool: &Pool, tag: &Tag, slots: &SlotStore, policy: TierPolicy) -> Result<()> {
    // The guard keeps SSDs from joining and leaving, because the header is written as a whole.
    let _alone = slots.changing()?;
    let tier = TierTag::read(pool, tag)?;
    let mut transaction = pool.transaction();
    transaction.write(tier.table.header(), &encode_header(&tier.ssds, policy));
    transaction.commit()?;
    slots.set_policy(policy);
    Ok(())
}
