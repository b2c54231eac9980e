//! The table of a tier as it stands in the pool. The SSDs are not looked at.

use ferrite_memory::Memory;
use ferrite_pool::Tag;
use ferrite_pool::layout::PAGE;

use super::FsFinding;
use crate::format::segment::{SegmentNo, Slot};
use crate::format::shape::FsShape;
use crate::format::slot_table::{SlotTable, TierSsd, decode_header};

/// The slots of a tier.
pub(crate) struct CheckedSlots {
    pub table: SlotTable,
    ssds: Vec<TierSsd>,
}

impl CheckedSlots {
    /// Reads the table of the file system of `tag`, if it has a tier.
    pub fn open(memory: &dyn Memory, tag: &Tag, shape: &FsShape) -> Result<Option<Self>, FsFinding> {
        if !shape.has_tier {
            return Ok(None);
        }
        let wrong = |at| FsFinding::new("the table of the tier is damaged", at);
        let table = SlotTable::of(tag).ok_or_else(|| wrong(0))?;
        let mut page = [0; PAGE as usize];
        memory.load(table.header(), &mut page);
        let ssds = decode_header(&page).ok_or_else(|| wrong(table.header()))?;
        let fits = ssds.iter().all(|ssd| ssd.first.0.saturating_add(ssd.segments) <= table.segments());
        if fits { Ok(Some(Self { table, ssds })) } else { Err(wrong(table.header())) }
    }

    /// Returns true if an SSD has `slot`.
    pub fn has(&self, slot: Slot) -> bool {
        let number = slot.segment().0;
        slot.block() > 0 && self.ssds.iter().any(|ssd| (ssd.first.0..ssd.first.0 + ssd.segments).contains(&number))
    }

    /// Returns the offsets of all words of bits.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.table.segments()).flat_map(|number| self.table.named_words(SegmentNo(number)))
    }
}
