//! The part of a check that compares the stamps of the members with what the pool has of them (CA11, CA13).

use ferrite_memory::{Span, planted};
use ferrite_pool::PoolMember;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::PAGE;

use super::CacheCheck;
use crate::cache::Cache;
use crate::cache_core::CacheCore;
use crate::member_queues::Member;
use crate::member_stamp::MemberStamp;
use crate::{CacheConfig, Result};

/// The stamp that a member should have.
struct ExpectedStamp {
    member: Member,
    name: String,
    uuid: [u8; 16],
    at: u64,
    id: u32,
    lebs: u32,
}

impl Cache {
    /// Compares the stamps of the members that are in use. A member may hang, so members join, leave and get new
    /// generations while the stamps are read. A difference is a finding if the member still has its generation.
    pub(super) fn check_stamps(&self, check: &mut CacheCheck<'_>) -> Result<()> {
        let (expected, members) = {
            let _membership = self.membership.lock();
            let config = self.core.config.lock().config.clone();
            (expected_stamps(&self.core, &config), self.pool.members()?)
        };
        let generation_in = |members: &[PoolMember], uuid: [u8; 16]| {
            members.iter().find(|member| member.uuid == uuid).map(|known| known.generation)
        };
        for expected in expected {
            let generation = generation_in(&members, expected.uuid);
            let pages = check.request(expected.member, Span::new(expected.at, DISK_STAMP_BYTES));
            let is_right = |stamp: MemberStamp| {
                stamp.record.object == expected.uuid
                    && Some(stamp.record.generation) == generation
                    && stamp.record.pool == self.core.memory.lease().uuid()
                    && stamp.cache == self.core.memory.lease().tag().generation
                    && (stamp.id, stamp.lebs) == (expected.id, expected.lebs)
            };
            check.report.stamps += 1;
            let what = match pages {
                Err(why) => format!("its stamp cannot be read: {why}"),
                Ok(pages) => {
                    let mut stamps = pages.chunks(PAGE as usize).filter_map(MemberStamp::decode);
                    if stamps.any(is_right) || planted!("cache: a check does not compare stamps") {
                        continue;
                    }
                    "its stamp is not the one that the pool has of it: the next opening will not use it".into()
                }
            };
            let _membership = self.membership.lock();
            if generation_in(&self.pool.members()?, expected.uuid) == generation {
                check.report.find(format!("{}: {what}", expected.name));
            }
        }
        Ok(())
    }
}

/// Returns the stamps of the members of `config` that are in use.
fn expected_stamps(core: &CacheCore, config: &CacheConfig) -> Vec<ExpectedStamp> {
    let ssds = config.ssds.iter().filter(|known| core.ssds.get(known.id).is_some_and(|ssd| ssd.is_readable()));
    let ssds = ssds.map(|known| ExpectedStamp {
        member: Member::Ssd(known.id),
        name: format!("SSD {}", known.id),
        uuid: known.uuid,
        at: 0,
        id: known.id.into(),
        lebs: known.lebs,
    });
    let disks = config.disks.iter().filter(|known| core.disks.get(known.number).is_some_and(|disk| disk.is_open()));
    let disks = disks.filter_map(|known| {
        Some(ExpectedStamp {
            member: Member::Disk(known.number),
            name: format!("disk {:?}", known.export),
            uuid: known.uuid,
            at: known.stamp_at()?,
            id: known.number.into(),
            lebs: 0,
        })
    });
    ssds.chain(disks).collect()
}
