//! New caches: what they are made of, and how they are made and removed.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::Scheme;
use ferrite_pool::disk_stamp::{DiskStamp, StampEnds};
use ferrite_pool::holding::{RoleSpace, TagSpec};
use ferrite_pool::tie::{self, Generation, TieRecord, TieRole, TieVerdict};
use ferrite_pool::{MemberKind, Pool, PoolMember, Role, StorePass};

use crate::cache_config::{CacheConfig, DiskConfig, NumberedConfig, SsdConfig, StampPlace};
use crate::cache_layout::{BLOCK, CacheLayout, DISKS_MAX, LEBS_MAX, LEBS_MIN, SSDS_MAX};
use crate::cache_memory::CacheMemory;
use crate::cache_settings::CacheSettings;
use crate::member_stamp::{MemberStamp, STAMP_BYTES};
use crate::{CACHE_KIND, CacheError, Result};

/// A new SSD.
pub struct NewSsd {
    /// The address by which it is found again.
    pub address: String,
    /// The SSD.
    pub disk: Arc<dyn Disk>,
    /// A random identity.
    pub uuid: [u8; 16],
}

/// A new disk.
pub struct NewDisk {
    /// The name by which users open it.
    pub export: String,
    /// The address by which it is found again.
    pub address: String,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// A random identity.
    pub uuid: [u8; 16],
    /// Where its stamp goes.
    pub stamp: StampPlace,
}

/// A new cache.
pub struct CacheSpec {
    /// The name of the tag.
    pub name: String,
    /// The settings.
    pub settings: CacheSettings,
    /// Bytes of a LEB.
    pub leb_bytes: u64,
    /// Bytes of all buffers.
    pub buffer_bytes: u64,
    /// The SSDs.
    pub ssds: Vec<NewSsd>,
    /// The disks.
    pub disks: Vec<NewDisk>,
    /// The bytes of SSDs with content that may be lost, which the user has to name.
    pub lose: Option<u64>,
    /// A random number.
    pub nonce: u16,
}

/// Returns true if the first `len` bytes of `disk` are zeros.
pub(crate) fn is_empty(disk: &dyn Disk, len: u64) -> Result<bool> {
    let mut bytes = vec![0; len.min(disk.geometry().size) as usize];
    disk.read(0, &mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Returns the number of LEBs of an SSD.
///
/// # Errors
/// [`CacheError::Refused`] if it is too small.
pub(crate) fn lebs_of(ssd: &NewSsd, leb_bytes: u64) -> Result<u32> {
    let size = ssd.disk.geometry().size;
    let lebs = (size / leb_bytes).min(LEBS_MAX);
    if lebs < LEBS_MIN {
        return Err(CacheError::Refused(format!(
            "{} has {size} bytes: an SSD of a cache has at least {LEBS_MIN} LEBs of {leb_bytes} bytes",
            ssd.address
        )));
    }
    if u64::from(ssd.disk.geometry().sector_bytes) > BLOCK || ssd.disk.geometry().read_only {
        return Err(CacheError::Refused(format!("{} is read-only or has sectors beyond 4 KiB", ssd.address)));
    }
    Ok(lebs as u32)
}

/// Refuses SSDs with content whose size `lose` does not name.
///
/// # Errors
/// [`CacheError::Refused`], with the number of bytes.
pub(crate) fn ensure_may_lose(ssds: &[NewSsd], lose: Option<u64>) -> Result<()> {
    let mut bytes = 0;
    let mut named = Vec::new();
    for ssd in ssds {
        if !is_empty(&*ssd.disk, STAMP_BYTES)? {
            bytes += ssd.disk.geometry().size;
            named.push(ssd.address.as_str());
        }
    }
    if bytes == 0 || lose == Some(bytes) {
        return Ok(());
    }
    Err(CacheError::Refused(format!(
        "{} may hold data, which would be lost: --lose {bytes} loses it",
        named.join(" and ")
    )))
}

pub(crate) fn disk_config(number: u8, disk: &NewDisk) -> Result<DiskConfig> {
    let all = disk.disk.geometry().size;
    let stamp_bytes = if disk.stamp == StampPlace::None { 0 } else { STAMP_BYTES };
    let size = all.saturating_sub(stamp_bytes) / BLOCK * BLOCK;
    if size == 0 || size / BLOCK >= 1 << 36 {
        return Err(CacheError::Refused(format!("{} has {all} bytes, which a cache cannot serve", disk.address)));
    }
    if disk.stamp == StampPlace::None && !all.is_multiple_of(BLOCK) {
        return Err(CacheError::Refused(format!(
            "{} has {all} bytes, and its last {} would not be served: with --stamp none a disk is a multiple of {BLOCK} bytes",
            disk.address,
            all % BLOCK
        )));
    }
    if disk.stamp == StampPlace::Head && !is_empty(&*disk.disk, STAMP_BYTES)? {
        return Err(CacheError::Refused(format!(
            "{} holds data in its first MiB, where the stamp of the cache goes: choose --stamp tail (its last MiB) or \
             --stamp none, which keep the data in place",
            disk.address
        )));
    }
    Ok(DiskConfig {
        number,
        export: disk.export.clone(),
        uuid: disk.uuid,
        address: disk.address.clone(),
        size,
        stamp: disk.stamp,
    })
}

impl CacheSpec {
    /// Makes the cache in `pool`. Durable on return. A crash leaves an incomplete cache, which can only be removed.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if a member does not fit or holds data, and the errors of the pool and the members.
    pub fn create(&self, pool: &Arc<Pool>) -> Result<()> {
        if !(1..=SSDS_MAX).contains(&self.ssds.len()) || !(1..=DISKS_MAX).contains(&self.disks.len()) {
            return Err(CacheError::Refused(format!(
                "a cache has 1 to {SSDS_MAX} SSDs and 1 to {DISKS_MAX} disks, not {} and {}",
                self.ssds.len(),
                self.disks.len()
            )));
        }
        ensure_may_lose(&self.ssds, self.lose)?;
        let config = self.config()?;
        let tables = u64::from(config.tables);
        let sized = CacheLayout::new(self.leb_bytes, 4, tables)?;
        let layout = CacheLayout::new(self.leb_bytes, self.buffer_bytes / sized.buffer_bytes(), tables)?;
        let tag = TagSpec {
            name: self.name.clone(),
            kind: CACHE_KIND.0,
            size: layout.data_bytes(),
            attributes: layout.attributes().to_vec(),
            parts: vec![
                RoleSpace { role: Role::MAP, bytes: layout.map_bytes() },
                RoleSpace { role: Role::DATA, bytes: layout.data_bytes() },
            ],
            has_log: false,
        };
        tag.create(pool)?;
        let _pass = StorePass::of(pool);
        let memory = CacheMemory::new(pool.hold(&self.name)?, Scheme::Nt)?;
        (0..layout.buffers).for_each(|buffer| memory.set_buffer_epoch(buffer, 0));
        memory.lease().drain()?;
        memory.store_config(&NumberedConfig { sequence: 1, config: config.clone() })?;
        let cache = memory.lease().tag().generation;
        for (known, ssd) in config.ssds.iter().zip(&self.ssds) {
            add_ssd_member(pool, cache, known, self.leb_bytes as u32, &ssd.disk, self.nonce)?;
        }
        for (known, disk) in config.disks.iter().zip(&self.disks) {
            add_disk_member(pool, cache, known, &disk.disk, self.nonce)?;
        }
        let config = CacheConfig { is_complete: true, ..config };
        Ok(memory.store_config(&NumberedConfig { sequence: 2, config })?)
    }

    fn config(&self) -> Result<CacheConfig> {
        let ssds = (0..).zip(&self.ssds).map(|(id, ssd)| {
            let lebs = lebs_of(ssd, self.leb_bytes)?;
            Ok(SsdConfig {
                id,
                uuid: ssd.uuid,
                address: ssd.address.clone(),
                lebs,
                failed: None,
                leaves: false,
                written_bytes: 0,
            })
        });
        let disks = (0..).zip(&self.disks).map(|(number, disk)| disk_config(number, disk));
        let ssds: Vec<SsdConfig> = ssds.collect::<Result<_>>()?;
        Ok(CacheConfig {
            is_complete: false,
            settings: self.settings,
            tables: ssds.iter().map(|ssd| ssd.lebs - 1).sum(),
            ssds,
            disks: disks.collect::<Result<_>>()?,
            next_ssd: self.ssds.len() as u8,
            pending: Vec::new(),
        })
    }
}

/// Returns the label of a member: the end of its address, as far as a label may be long.
fn label_of(address: &str) -> String {
    let clean: String = address.chars().filter(|letter| !letter.is_control()).collect();
    let mut label = clean.as_str();
    while label.len() > 64 {
        label = &label[label.chars().next().map_or(0, char::len_utf8)..];
    }
    if label.is_empty() { "member".into() } else { label.into() }
}

/// Makes an SSD a member of `pool` and writes its first stamp. Durable on return.
pub(crate) fn add_ssd_member(
    pool: &Pool,
    cache: u64,
    ssd: &SsdConfig,
    leb_bytes: u32,
    disk: &Arc<dyn Disk>,
    nonce: u16,
) -> Result<()> {
    DiskStamp::erase(&**disk, 0)?;
    let (kind, size) = (MemberKind::Ssd, disk.geometry().size);
    add_member(pool, ssd.uuid, kind, size, label_of(&ssd.address), nonce)?;
    let verdict = advance_ssd(pool, cache, ssd, leb_bytes, disk, nonce)?;
    ensure_good(verdict, &ssd.address)
}

/// Makes a disk a member of `pool` and writes its first stamp, if it has one. Durable on return.
pub(crate) fn add_disk_member(
    pool: &Pool,
    cache: u64,
    disk: &DiskConfig,
    opened: &Arc<dyn Disk>,
    nonce: u16,
) -> Result<()> {
    let (kind, size) = (MemberKind::Disk, opened.geometry().size);
    add_member(pool, disk.uuid, kind, size, label_of(&disk.export), nonce)?;
    match advance_disk(pool, cache, disk, opened, nonce)? {
        Some(verdict) => ensure_good(verdict, &disk.address),
        None => Ok(()),
    }
}

fn ensure_good(verdict: TieVerdict, address: &str) -> Result<()> {
    match verdict.is_good() {
        true => Ok(()),
        false => Err(CacheError::Refused(format!("{address} got another stamp meanwhile ({verdict:?})"))),
    }
}

fn add_member(pool: &Pool, uuid: [u8; 16], kind: MemberKind, size: u64, label: String, nonce: u16) -> Result<()> {
    let generation = Generation::first(nonce);
    Ok(pool.add_member(&PoolMember { uuid, kind, generation, previous: None, size, label })?)
}

fn record(pool: &Pool, role: TieRole, uuid: [u8; 16], nonce: u16) -> TieRecord {
    let generation = Generation::first(nonce);
    TieRecord { role, pool: pool.superblock().uuid, object: uuid, generation, previous: None }
}

/// Moves the tie of pool and SSD to a new generation (CA12). Returns how the two sides compared.
pub(crate) fn advance_ssd(
    pool: &Pool,
    cache: u64,
    ssd: &SsdConfig,
    leb_bytes: u32,
    disk: &Arc<dyn Disk>,
    nonce: u16,
) -> Result<TieVerdict> {
    let record = record(pool, TieRole::Ssd, ssd.uuid, nonce);
    let stamp = MemberStamp { record, cache, id: ssd.id.into(), leb_bytes, lebs: ssd.lebs };
    Ok(tie::advance(&StampEnds { pool, disk: &**disk, at: 0, stamp: stamp.on_disk() }, nonce)?)
}

/// Moves the tie of pool and disk to a new generation (CA12). Returns how the two sides compared; `None` for a disk without
/// a stamp.
pub(crate) fn advance_disk(
    pool: &Pool,
    cache: u64,
    disk: &DiskConfig,
    opened: &Arc<dyn Disk>,
    nonce: u16,
) -> Result<Option<TieVerdict>> {
    let Some(at) = disk.stamp_at() else { return Ok(None) };
    let record = record(pool, TieRole::Disk, disk.uuid, nonce);
    let stamp = MemberStamp { record, cache, id: disk.number.into(), leb_bytes: 0, lebs: 0 };
    let ends = StampEnds { pool, disk: &**opened, at, stamp: stamp.on_disk() };
    Ok(Some(tie::advance(&ends, nonce)?))
}
