//! The SSDs of a tier: how a file system gains them, and how they are found when it is opened.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::{Scheme, Span};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Pool, SpaceNeed, Tag, TagChange, Zone};

use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT, SegmentNo, SegmentSalt};
use crate::format::shape::FsShape;
use crate::format::slot_table::{SlotTable, TIER_ROLE, TIER_SSDS_MAX, TierSsd, decode_header, encode_header};
use crate::share::layout::shared_state::SharedState;
use crate::store::slots::{SlotStore, TierMember};
use crate::{Error, Result};

/// An SSD of a tier, by the UUID that its stamp has.
#[derive(Clone)]
pub struct TierDisk {
    /// The UUID.
    pub uuid: [u8; 16],
    /// Where it is opened, for messages and for the next opening.
    pub address: String,
    /// The SSD.
    pub disk: Arc<dyn Disk>,
}

impl std::fmt::Debug for TierDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierDisk").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Returns the slots of the file system of `tag`, if it has a tier.
pub(crate) fn load_slots(
    pool: &Arc<Pool>,
    tag: &Tag,
    shape: &FsShape,
    mut ssds: Vec<TierDisk>,
    shared_state: &Arc<SharedState>,
) -> Result<Option<SlotStore>> {
    if !shape.has_tier {
        return Ok(None);
    }
    let corrupt = |at| Error::Corrupt { name: tag.name.clone(), what: "the table of the tier", at };
    let table = SlotTable::of(tag).ok_or_else(|| corrupt(0))?;
    let listed = read_header(pool, &table).ok_or_else(|| corrupt(table.header()))?;
    let mut members = Vec::new();
    for ssd in listed {
        let found = ssds.iter().position(|given| given.uuid == ssd.uuid).map(|index| ssds.swap_remove(index));
        let Some(TierDisk { disk, .. }) = found else {
            return Err(Error::Ssd(format!("the file system {:?} needs its SSD {}", tag.name, ssd.address)));
        };
        if ssd.first.0 + ssd.segments > table.segments() {
            return Err(corrupt(table.header()));
        }
        members.push(TierMember { ssd, disk });
    }
    let salt = SegmentSalt { pool: pool.superblock().uuid, tag: tag.generation };
    Ok(Some(SlotStore::load(pool.memory(), table, salt, members, shared_state)))
}

fn read_header(pool: &Pool, table: &SlotTable) -> Option<Vec<TierSsd>> {
    let mut page = [0; PAGE as usize];
    pool.memory().load(table.header(), &mut page);
    decode_header(&page)
}

/// Returns the segments that an SSD of `size` bytes has room for.
fn segments_of(size: u64) -> u64 {
    size.saturating_sub(SEGMENTS_AT) / SEGMENT_BYTES
}

/// See [`crate::FileSystem::add_tier`].
pub(crate) fn add_tier(pool: &Pool, name: &str, ssds: &[TierDisk]) -> Result<()> {
    let tag = pool.tag(name)?;
    let shape = FsShape::read(&tag)?;
    if shape.has_tier {
        return Err(Error::Unsupported("the file system has SSDs already"));
    }
    if ssds.is_empty() || ssds.len() > TIER_SSDS_MAX {
        return Err(Error::Invalid("a file system has one to eight SSDs"));
    }
    let mut listed = Vec::new();
    let mut first = 0;
    for ssd in ssds {
        let segments = segments_of(ssd.disk.geometry().size);
        if segments < 4 {
            return Err(Error::Invalid("an SSD has at least 3 MiB"));
        }
        let (uuid, address) = (ssd.uuid, ssd.address.clone());
        listed.push(TierSsd { uuid, first: SegmentNo(first), segments, leaves: false, address });
        first += segments;
    }
    let need = SpaceNeed { role: TIER_ROLE, zone: Zone::Normal, bytes: SlotTable::bytes(first) };
    let attributes = shape.with_tier(true).attributes();
    let change = TagChange { size: tag.size, attributes, add: &[need], keep: &tag.extents };
    pool.change_tag(&tag, &change, |extents| {
        let added = Tag { extents: extents.to_vec(), ..(*tag).clone() };
        let table = SlotTable::of(&added).expect("it was added");
        for extent in extents.iter().filter(|extent| extent.role == TIER_ROLE) {
            pool.memory().zero(Span::new(extent.span().at, extent.span().len), Scheme::Nt);
        }
        pool.memory().store(table.header(), &encode_header(&listed), Scheme::Nt);
        Ok(pool.memory().drain()?)
    })?;
    Ok(())
}
