//! How a pool that was restored from an older image takes the SSDs that a later life of it has used.
//!
//! The invariant TI18 (`tier.rs`) is kept here.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::{self, PoolSide, TieEnds, TieVerdict};
use ferrite_pool::{Pool, Progress, Tag};
use serde::{Deserialize, Serialize};

use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT, SegmentNo, SegmentSalt, SegmentSummary};
use crate::format::shape::FsShape;
use crate::format::slot_table::{OVERWRITTEN, TierSsd};
use crate::store::tier_members::{TierOpening, TierTag, open_ssd, stamp_ends, verdict_error};
use crate::{Error, LostPages, Result};

/// Segments whose descriptors one transaction changes.
const NOTED_MAX: usize = 64;

/// What [`crate::FileSystem::adopt_ssds`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedSsds {
    /// False if `lose` has to name the lost bytes first.
    pub is_adopted: bool,
    /// Bytes of pages that were overwritten.
    pub lost_bytes: u64,
    /// The files that they belong to.
    pub files: Vec<LostPages>,
}

/// An SSD that a later life of the pool has used.
struct LaterSsd {
    ssd: TierSsd,
    disk: Arc<dyn Disk>,
}

/// What SSDs that a later life has used have, compared with what this pool knows.
pub(crate) struct LaterSsds<'a> {
    pool: &'a Pool,
    tag: &'a Tag,
    ssds: Vec<LaterSsd>,
    /// Descriptors that change: the segments, and their sequences from now on.
    noted: Vec<(SegmentNo, u64)>,
    /// Segments that words name, and that were overwritten.
    pub overwritten: BTreeSet<SegmentNo>,
    /// Bytes of pages that were in them.
    pub lost_bytes: u64,
}

impl<'a> LaterSsds<'a> {
    /// Compares all SSDs of the file system of `tag`, which is not open. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Ssd`] if one is not there, or is none that a later life has used; [`Error::Pool`] if `watch` returns false.
    pub fn find(
        pool: &'a Pool,
        tag: &'a Tag,
        opening: &TierOpening<'_>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Self> {
        if !FsShape::read(tag)?.has_tier {
            return Err(Error::Unsupported("the file system has no SSDs"));
        }
        let tier = TierTag::read(pool, tag)?;
        let mut found =
            Self { pool, tag, ssds: Vec::new(), noted: Vec::new(), overwritten: BTreeSet::new(), lost_bytes: 0 };
        for ssd in tier.staying()? {
            let disk = open_ssd(&tier, &ssd, opening)?;
            let ends = stamp_ends(pool, tag, &ssd, &*disk, opening.nonce);
            match tie::compare(&ends.load()?, ends.read()?.as_ref()) {
                TieVerdict::Same | TieVerdict::Unfinished => {}
                TieVerdict::ObjectLater => {
                    found.compare(&tier, &ssd, &*disk, watch)?;
                    found.ssds.push(LaterSsd { ssd, disk });
                }
                verdict => return Err(verdict_error(&tier, &ssd, verdict)),
            }
        }
        Ok(found)
    }

    fn compare(
        &mut self,
        tier: &TierTag<'_>,
        ssd: &TierSsd,
        disk: &dyn Disk,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<()> {
        let salt = SegmentSalt { pool: self.pool.superblock().uuid, tag: self.tag.generation };
        let memory = self.pool.memory();
        let mut block = [0; PAGE as usize];
        for step in 0..ssd.segments {
            let segment = SegmentNo(ssd.first.0 + step);
            let at = SEGMENTS_AT + step * SEGMENT_BYTES;
            disk.read(at, &mut block).map_err(|error| Error::Ssd(format!("{} at byte {at}: {error}", ssd.address)))?;
            let summary = SegmentSummary::decode(&block, &salt).filter(|summary| summary.segment == segment);
            let there = summary.map_or(0, |summary| summary.sequence);
            let known = memory.load_word(tier.table.sequence(segment));
            let named = tier.table.named_words(segment).map(|at| u64::from(memory.load_word(at).count_ones()));
            let named = named[0] + named[1];
            if named > 0 && there != known {
                self.overwritten.insert(segment);
                self.lost_bytes += named * PAGE;
                self.noted.push((segment, there.max(known & !OVERWRITTEN) | OVERWRITTEN));
            } else if there > known {
                self.noted.push((segment, there));
            }
            let what = format!("reading {}", ssd.address);
            if !watch(Progress { done: (step + 1) * SEGMENT_BYTES, total: ssd.segments * SEGMENT_BYTES, what }) {
                return Err(ferrite_pool::Error::Cancelled("the adoption").into());
            }
        }
        Ok(())
    }

    /// Takes the SSDs as they are: pages that were overwritten cannot be read from now on. Durable on return; a crash
    /// before leaves an adoption that can be made again.
    ///
    /// # Errors
    /// Those of the pool and of the SSDs.
    pub fn adopt(&self, nonce: u16) -> Result<()> {
        let tier = TierTag::read(self.pool, self.tag)?;
        planted!("fs: SSDs of a later life without notes" => return self.tie_all(nonce));
        for noted in self.noted.chunks(NOTED_MAX) {
            let mut transaction = self.pool.transaction();
            for (segment, sequence) in noted {
                transaction.write(tier.table.sequence(*segment), &sequence.to_le_bytes());
            }
            transaction.commit()?;
        }
        self.tie_all(nonce)
    }

    fn tie_all(&self, nonce: u16) -> Result<()> {
        for LaterSsd { ssd, disk } in &self.ssds {
            let ends = stamp_ends(self.pool, self.tag, ssd, &**disk, nonce);
            let Some(stamp) = ends.read()? else { continue };
            ends.set_previous(Some(stamp.generation))?;
            ends.set_current(stamp.generation.next(nonce))?;
            tie::attach(&ends)?;
        }
        Ok(())
    }
}
