//! Opening the members of a cache, at its opening and when they come back.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_pool::Pool;
use ferrite_pool::tie::TieVerdict;

use crate::cache::OpenOptions;
use crate::cache_config::{CacheConfig, DiskConfig, SsdConfig};
use crate::cache_members::{CacheDisk, CacheSsd, DiskSet, SsdSet, SsdState};
use crate::cache_memory::CacheMemory;
use crate::cache_spec::{advance_disk, advance_ssd};
use crate::{CacheError, Result};

/// The parts that opening a member needs.
#[derive(Clone, Copy)]
pub(crate) struct MemberAccess<'a> {
    pub pool: &'a Pool,
    /// The generation of the cache's tag.
    pub cache: u64,
    pub leb_bytes: u32,
    pub options: &'a OpenOptions,
}

/// A member that was looked for.
pub(crate) enum FoundMember {
    /// Its stamp is the pool's, and has a new generation now.
    Good(Arc<dyn Disk>),
    /// It was not found, or did not answer.
    Missing(String),
    /// It is not as large as it was.
    Shrunk(String),
    /// It has another stamp or none; nothing was written to it.
    Other(Arc<dyn Disk>, TieVerdict),
}

impl<'a> MemberAccess<'a> {
    /// Returns the access to the members of the cache in `memory`.
    pub fn new(pool: &'a Pool, memory: &CacheMemory, options: &'a OpenOptions) -> Self {
        let (cache, leb_bytes) = (memory.lease().tag().generation, memory.layout().leb_bytes);
        Self { pool, cache, leb_bytes, options }
    }

    /// Looks for the SSD `known` and moves its tie to a new generation.
    pub fn find_ssd(&self, known: &SsdConfig) -> FoundMember {
        match self.options.opener.open(&known.address) {
            Ok(opened) => self.advance_found_ssd(known, opened),
            Err(why) => FoundMember::Missing(why),
        }
    }

    /// Compares `opened` with the SSD `known` and moves its tie to a new generation.
    pub fn advance_found_ssd(&self, known: &SsdConfig, opened: Arc<dyn Disk>) -> FoundMember {
        let (size, needed) = (opened.geometry().size, u64::from(known.lebs) * u64::from(self.leb_bytes));
        if size < needed {
            return FoundMember::Shrunk(format!("it has {size} bytes, and its LEBs need {needed}"));
        }
        match advance_ssd(self.pool, self.cache, known, self.leb_bytes, &opened, (self.options.random)()) {
            Ok(verdict) if verdict.is_good() => FoundMember::Good(opened),
            Ok(verdict) => FoundMember::Other(opened, verdict),
            Err(error) => FoundMember::Missing(error.to_string()),
        }
    }

    /// Looks for the disk `known` and moves its tie to a new generation, if it has one.
    pub fn find_disk(&self, known: &DiskConfig) -> FoundMember {
        let opened = match self.options.opener.open(&known.address) {
            Ok(opened) => opened,
            Err(why) => return FoundMember::Missing(why),
        };
        let (size, needed) = (opened.geometry().size, known.bytes());
        if size < needed {
            return FoundMember::Shrunk(format!("it has {size} bytes, and had {needed}"));
        }
        match advance_disk(self.pool, self.cache, known, &opened, (self.options.random)()) {
            Ok(Some(verdict)) if !verdict.is_good() => FoundMember::Other(opened, verdict),
            // A process that was killed may have left writes that a crash loses: what is read from now on is durable (CA21).
            Ok(_) => match opened.flush() {
                Ok(()) => FoundMember::Good(opened),
                Err(error) => FoundMember::Missing(error.to_string()),
            },
            Err(error) => FoundMember::Missing(error.to_string()),
        }
    }
}

/// The members of a cache that is being opened.
#[derive(Default)]
pub(crate) struct OpenedMembers {
    pub ssds: SsdSet,
    pub disks: DiskSet,
}

impl OpenedMembers {
    /// Returns the members of `config` without opening any.
    pub fn closed(config: &CacheConfig) -> Self {
        let members = Self::default();
        config.ssds.iter().for_each(|known| members.ssds.add(Arc::new(CacheSsd::new(known))));
        config.disks.iter().for_each(|known| members.disks.add(CacheDisk::new(known.clone())));
        members
    }

    /// Opens the members of `config`. One that cannot be used does not stop the opening.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if an SSD is of a later or another copy of the pool.
    pub fn open(access: &MemberAccess<'_>, config: &CacheConfig) -> Result<Self> {
        let members = Self::closed(config);
        for known in &config.ssds {
            let ssd = members.ssds.get(known.id).expect("every SSD of the configuration has just been added");
            Self::open_ssd(access, known, &ssd)?;
        }
        for disk in members.disks.iter() {
            match access.find_disk(&disk.config) {
                FoundMember::Good(opened) => disk.attach(opened),
                FoundMember::Missing(why) => disk.miss(why),
                FoundMember::Shrunk(why) => disk.refuse(why),
                FoundMember::Other(_, verdict) => {
                    disk.refuse(format!("{}: {}", disk.config.address, mismatch(verdict)));
                }
            }
        }
        Ok(members)
    }

    fn open_ssd(access: &MemberAccess<'_>, known: &SsdConfig, ssd: &CacheSsd) -> Result<()> {
        let now_ns = access.options.clock.now_ns();
        if let Some(why) = &known.failed {
            ssd.set_state(SsdState::Failed, why.clone(), now_ns);
            return Ok(());
        }
        match access.find_ssd(known) {
            FoundMember::Good(opened) => ssd.attach(opened),
            FoundMember::Missing(why) => _ = ssd.set_state(SsdState::Missing, why, now_ns),
            FoundMember::Shrunk(why) => _ = ssd.set_state(SsdState::Failed, why, now_ns),
            FoundMember::Other(_, TieVerdict::ObjectLater | TieVerdict::Diverged) => {
                return Err(CacheError::Refused(format!(
                    "SSD {} ({}) has the stamp of a later or another copy of this pool: open that copy, or discard the \
                     content of this one by `ferrite cache forget`",
                    known.id, known.address
                )));
            }
            FoundMember::Other(_, verdict) => _ = ssd.set_state(SsdState::Failed, mismatch(verdict), now_ns),
        }
        Ok(())
    }
}

/// Returns the reason why a member with such a stamp is not used (CA13).
pub(crate) fn mismatch(verdict: TieVerdict) -> String {
    match verdict {
        TieVerdict::Same | TieVerdict::Unfinished => "its stamp is right",
        TieVerdict::ObjectLater => "its stamp is of a later generation: the pool is an older copy",
        TieVerdict::PoolLater => "its stamp is of an earlier generation: it is an older copy",
        TieVerdict::Diverged => "its stamp is of another copy of the pool",
        TieVerdict::OtherIdentity => "it has the stamp of another member",
        TieVerdict::Absent => "it has no stamp: it was overwritten, or is another device",
    }
    .into()
}
