//! Removing a cache, and forgetting the content of one whose pool or members are of another time.
//!
//! Both work on a cache that is not open, and write to members only what ends their use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::Disk;
use ferrite_memory::planted;
use ferrite_pool::disk_stamp::DiskStamp;
use ferrite_pool::{Pool, StorePass};

use crate::cache::OpenOptions;
use crate::cache_config::{CacheConfig, NumberedConfig, PendingMember};
use crate::cache_core::{CacheCore, CoreParts};
use crate::cache_layout::BLOCK;
use crate::cache_memory::CacheMemory;
use crate::cache_spec::{add_disk_member, add_ssd_member};
use crate::member_stamp::read_stamp;
use crate::open_members::{MemberAccess, OpenedMembers};
use crate::recover_cache::recover;
use crate::{CacheError, Result};

/// The content that [`forget_cache`] may drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetScope {
    /// Clean content: refused if anything is dirty.
    Clean,
    /// As many dirty bytes as this, too.
    Lose(u64),
}

/// A cache that is closed, and whose members are not open.
struct ClosedCache {
    memory: CacheMemory,
    config: NumberedConfig,
    /// Dirty bytes; if the cache is damaged, all that its SSDs may hold.
    dirty: u64,
}

impl ClosedCache {
    fn open(pool: &Arc<Pool>, name: &str, options: &OpenOptions) -> Result<Self> {
        let memory = CacheMemory::new(pool.hold(name)?, options.scheme)?;
        // A cache whose creation ended early has no configuration, and no members.
        let config = memory.load_config().unwrap_or(NumberedConfig { sequence: 0, config: CacheConfig::default() });
        if !config.config.is_complete {
            return Ok(Self { memory, config, dirty: 0 });
        }
        memory.adopt_config(&config.config)?;
        let OpenedMembers { ssds, disks } = OpenedMembers::closed(&config.config);
        let clock = Arc::clone(&options.clock);
        let core = CacheCore::new(CoreParts { memory, ssds, disks, config, clock, ghost_pages: 1 })?;
        let lebs = |config: &CacheConfig| config.ssds.iter().map(|ssd| u64::from(ssd.lebs)).sum::<u64>();
        let dirty = match recover(&core) {
            Ok(_) => core.dirty.load(Ordering::Relaxed).max(0) as u64 * BLOCK,
            Err(CacheError::Damaged(_)) => lebs(&core.config.lock().config) * u64::from(core.memory.layout().leb_bytes),
            Err(error) => return Err(error),
        };
        let CacheCore { memory, config, .. } = core;
        Ok(Self { memory, config: config.into_inner(), dirty })
    }

    fn change_config(&mut self, change: impl FnOnce(&mut CacheConfig)) -> Result<()> {
        let mut changed = self.config.clone();
        change(&mut changed.config);
        changed.sequence += 1;
        self.memory.store_config(&changed)?;
        self.config = changed;
        Ok(())
    }

    /// Opens `member` if the device at its address has a stamp of this cache, or nothing where the stamp goes.
    fn reach(&self, pool: &Pool, options: &OpenOptions, member: &PendingMember) -> Option<Arc<dyn Disk>> {
        let disk = options.opener.open(&member.address).ok()?;
        let Some(at) = member.stamp_at else { return Some(disk) };
        let is_ours = match read_stamp(&*disk, at).ok()? {
            Some(stamp) => {
                let cache = self.memory.lease().tag().generation;
                stamp.cache == cache && stamp.record.pool == pool.superblock().uuid
            }
            None => {
                let mut bytes = vec![0; 2 * BLOCK as usize];
                disk.read(at, &mut bytes).is_ok() && bytes.iter().all(|byte| *byte == 0)
            }
        };
        is_ours.then_some(disk)
    }

    /// Frees all tables and buffers. Durable on return, and the same if it is done again.
    fn empty(&self) -> Result<()> {
        (0..self.memory.tables()).for_each(|table| self.memory.free_table(table));
        (0..self.memory.layout().buffers).for_each(|buffer| self.memory.set_buffer_epoch(buffer, 0));
        Ok(self.memory.lease().drain()?)
    }
}

/// Removes the cache called `name`, also an incomplete one, and releases its members, as far as they are reached. `lose`
/// names the dirty bytes that would be lost. Durable on return; after a crash the cache is removed or can be removed.
///
/// # Errors
/// [`CacheError::Refused`] with the number of dirty bytes if `lose` does not name it; the errors of the pool.
pub fn remove_cache(pool: &Arc<Pool>, name: &str, options: &OpenOptions, lose: Option<u64>) -> Result<()> {
    let _pass = StorePass::of(pool);
    let mut cache = ClosedCache::open(pool, name, options)?;
    if cache.dirty > 0 && lose != Some(cache.dirty) && !planted!("cache: a removal does not ask for dirty data") {
        return Err(CacheError::Refused(format!(
            "the cache {name:?} has {0} dirty bytes, which the disks do not have: `ferrite cache clean` writes them there, \
             --lose {0} loses them",
            cache.dirty
        )));
    }
    if cache.config.config.is_complete {
        cache.change_config(|config| config.is_complete = false)?;
    }
    let access = MemberAccess::new(pool, &cache.memory, options);
    let config = &cache.config.config;
    let ssds = config.ssds.iter().map(PendingMember::from);
    for member in ssds.chain(config.disks.iter().map(PendingMember::from)).chain(config.pending.iter().cloned()) {
        let disk = options.opener.open(&member.address).ok();
        access.release(&member, disk.as_ref())?;
    }
    Ok(pool.remove_tag(&cache.memory.lease().tag())?)
}

/// Empties the cache called `name` and ties it to the members that are reached by new identities: for a pool that was
/// restored from an older copy, and for disks that were written without the cache. Returns the addresses that were not
/// reached. Durable on return; after a crash it can be repeated.
///
/// # Errors
/// [`CacheError::Refused`] if dirty data would be lost that `scope` does not name, or the cache is incomplete; the errors of
/// the pool and the members.
pub fn forget_cache(pool: &Arc<Pool>, name: &str, options: &OpenOptions, scope: ForgetScope) -> Result<Vec<String>> {
    let _pass = StorePass::of(pool);
    let mut cache = ClosedCache::open(pool, name, options)?;
    if !cache.config.config.is_complete {
        return Err(CacheError::Refused(format!(
            "the creation or the removal of the cache {name:?} did not end: `ferrite cache remove` removes it"
        )));
    }
    let may_lose = match scope {
        ForgetScope::Clean => 0,
        ForgetScope::Lose(bytes) => bytes,
    };
    if cache.dirty != may_lose {
        return Err(CacheError::Refused(format!(
            "the cache {name:?} has {0} dirty bytes, which the disks do not have, and not {may_lose}: {1}",
            cache.dirty,
            if cache.dirty == 0 {
                "--clean forgets the rest".into()
            } else {
                format!("--lose {} loses them", cache.dirty)
            }
        )));
    }
    let is_late = planted!("cache: members are tied anew before the content is forgotten");
    if !is_late {
        cache.empty()?;
    }
    let mut missed = Vec::new();
    for index in 0..cache.config.config.ssds.len() {
        retie_ssd(pool, &mut cache, options, index, &mut missed)?;
    }
    for index in 0..cache.config.config.disks.len() {
        retie_disk(pool, &mut cache, options, index, &mut missed)?;
    }
    release_pending(pool, &mut cache, options)?;
    if is_late {
        cache.empty()?;
    }
    Ok(missed)
}

/// Releases the former identities of members whose stamps are new.
fn release_pending(pool: &Arc<Pool>, cache: &mut ClosedCache, options: &OpenOptions) -> Result<()> {
    let access = MemberAccess::new(pool, &cache.memory, options);
    for member in &cache.config.config.pending {
        access.release(member, None)?;
    }
    cache.change_config(|config| config.pending.clear())
}

fn new_uuid(options: &OpenOptions) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.as_chunks_mut::<2>().0.iter_mut().for_each(|part| *part = (options.random)().to_le_bytes());
    uuid
}

fn retie_ssd(
    pool: &Arc<Pool>,
    cache: &mut ClosedCache,
    options: &OpenOptions,
    index: usize,
    missed: &mut Vec<String>,
) -> Result<()> {
    let old = cache.config.config.ssds[index].clone();
    let Some(disk) = cache.reach(pool, options, &PendingMember::from(&old)) else {
        missed.push(old.address);
        return Ok(());
    };
    let (leb_bytes, tag) = (cache.memory.layout().leb_bytes, cache.memory.lease().tag().generation);
    let new = crate::SsdConfig { uuid: new_uuid(options), failed: None, leaves: false, ..old.clone() };
    cache.change_config(|config| config.add_pending(PendingMember::from(&new)))?;
    add_ssd_member(pool, tag, &new, leb_bytes, &disk, (options.random)())?;
    cache.change_config(|config| {
        config.remove_pending(&new.uuid);
        config.add_pending(PendingMember::from(&old));
        config.ssds[index] = new;
    })?;
    release_pending(pool, cache, options)
}

fn retie_disk(
    pool: &Arc<Pool>,
    cache: &mut ClosedCache,
    options: &OpenOptions,
    index: usize,
    missed: &mut Vec<String>,
) -> Result<()> {
    let old = cache.config.config.disks[index].clone();
    let Some(disk) = cache.reach(pool, options, &PendingMember::from(&old)) else {
        missed.push(old.address);
        return Ok(());
    };
    let tag = cache.memory.lease().tag().generation;
    let new = crate::DiskConfig { uuid: new_uuid(options), ..old.clone() };
    cache.change_config(|config| config.add_pending(PendingMember::from(&new)))?;
    if let Some(at) = new.stamp_at() {
        DiskStamp::erase(&*disk, at)?;
    }
    add_disk_member(pool, tag, &new, &disk, (options.random)())?;
    cache.change_config(|config| {
        config.remove_pending(&new.uuid);
        config.add_pending(PendingMember::from(&old));
        config.disks[index] = new;
    })?;
    release_pending(pool, cache, options)
}

#[cfg(test)]
mod tests;
