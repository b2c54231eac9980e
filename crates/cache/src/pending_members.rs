//! Members on their way into a cache or out of it, so that a crash leaves none that only the pool or only the cache knows.
//!
//! ```text
//!             pending   pool's members   stamp      SSDs and disks of the configuration
//! joins   1   +
//!         2             +
//!         3                              written
//!         4   -                                     +
//! leaves  1   +                                     -
//!         2                              erased
//!         3             -
//!         4   -
//! ```
//!
//! - MP1. A member is pending, durably, before the pool lists it. One change of the configuration makes it a member of
//!   the cache and ends its being pending.
//! - MP2. One change of the configuration makes a member that leaves pending. Its stamp is erased and the pool forgets it
//!   only after that.
//! - MP3. An opening erases the stamps of pending members that it reaches, and removes them from the pool.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_pool::disk_stamp::DiskStamp;
use ferrite_pool::tie::{PoolSide, TieStamp, TieVerdict, compare};

use crate::Result;
use crate::cache_config::{CacheConfig, DiskConfig, NumberedConfig, PendingMember, SsdConfig};
use crate::cache_memory::CacheMemory;
use crate::member_stamp::read_stamp;
use crate::open_members::MemberAccess;

impl From<&SsdConfig> for PendingMember {
    fn from(ssd: &SsdConfig) -> Self {
        Self { uuid: ssd.uuid, address: ssd.address.clone(), stamp_at: Some(0) }
    }
}

impl From<&DiskConfig> for PendingMember {
    fn from(disk: &DiskConfig) -> Self {
        Self { uuid: disk.uuid, address: disk.address.clone(), stamp_at: disk.stamp_at() }
    }
}

impl CacheConfig {
    /// Lists `member` as pending.
    pub(crate) fn add_pending(&mut self, member: PendingMember) {
        self.remove_pending(&member.uuid);
        self.pending.push(member);
    }

    /// Ends that the member `uuid` is pending.
    pub(crate) fn remove_pending(&mut self, uuid: &[u8; 16]) {
        self.pending.retain(|member| member.uuid != *uuid);
    }
}

impl MemberAccess<'_> {
    /// Erases the stamp of `member` on `disk`, if it is there and the member's, and removes the member from the pool. Both
    /// are durable on return. A member that the pool does not list is left alone.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn release(&self, member: &PendingMember, disk: Option<&Arc<dyn Disk>>) -> Result<()> {
        if !self.pool.members()?.iter().any(|known| known.uuid == member.uuid) {
            return Ok(());
        }
        // A stamp that is not erased names a member that the pool does not have: then the device belongs to no pool.
        if let (Some(disk), Some(at)) = (disk, member.stamp_at)
            && self.has_own_stamp(member, &**disk, at)?
        {
            let _ = DiskStamp::erase(&**disk, at);
        }
        Ok(self.pool.remove_member(&member.uuid)?)
    }

    /// Returns true if `disk` has the stamp of `member`, and not one that a later copy of the pool wrote.
    fn has_own_stamp(&self, member: &PendingMember, disk: &dyn Disk, at: u64) -> Result<bool> {
        let Ok(Some(stamp)) = read_stamp(disk, at) else { return Ok(false) };
        let record = stamp.record;
        let tie = self.pool.member_tie(member.uuid).load()?;
        let verdict = compare(&tie, Some(&TieStamp { identity: record.object, generation: record.generation }));
        let is_known = matches!(verdict, TieVerdict::Same | TieVerdict::Unfinished | TieVerdict::PoolLater);
        let is_ours = record.pool == self.pool.superblock().uuid && stamp.cache == self.cache;
        Ok(is_ours && is_known)
    }

    /// Releases the pending members of `config`, as far as they are reached (MP3). Returns the configuration without them,
    /// which is durable.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn release_pending(&self, memory: &CacheMemory, config: NumberedConfig) -> Result<NumberedConfig> {
        if config.config.pending.is_empty() {
            return Ok(config);
        }
        for member in &config.config.pending {
            let disk = self.options.opener.open(&member.address).ok();
            self.release(member, disk.as_ref())?;
        }
        let mut released = config;
        released.config.pending.clear();
        released.sequence += 1;
        memory.store_config(&released)?;
        Ok(released)
    }
}
