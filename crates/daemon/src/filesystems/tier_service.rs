//! Requests about the tiers of file systems.

use std::path::Path;
use std::sync::Arc;

use ferrite_cache::{MemberAddress, MemberOpener};
use ferrite_fs::{CleaningGoal, FileSystem, Ino, TierDisk, TierPolicy};
use ferrite_owner::services::reply;
use ferrite_owner::{ProgressCall, ServiceReply, machine};
use ferrite_pool::Failure;
use serde::{Deserialize, Serialize};

use super::{Filesystems, not_mounted};
use crate::member_opener::AddressOpener;

/// A request about the tier of a file system. Each is answered with [`ferrite_fs::TierStats`], unless it says otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum TierRequest {
    /// Describes the tier.
    Stat,
    /// Takes the SSDs that a later life of the pool has used. The file system is not mounted. Answered with
    /// [`ferrite_fs::AdoptedSsds`].
    Adopt {
        /// Bytes that are lost by it.
        lose: Option<u64>,
    },
    /// Trims all free segments.
    Trim,
    /// Moves the pages of sparse segments together.
    Clean {
        /// As far as segments become free by it.
        all: bool,
    },
    /// Reads all pages that are on SSDs only; a [`ferrite_fs::TierScrub`].
    Scrub,
    /// Finds a page that is on an SSD only; a [`ferrite_fs::PagePlace`].
    Where {
        /// The inode of the file.
        ino: u64,
        /// The page of the file.
        page: u64,
    },
    /// Uses all of an SSD that became larger.
    Grow {
        /// The address of the SSD.
        ssd: String,
    },
    /// Sets the rules by which pages move; a [`super::FsReport`].
    Set {
        /// The rules.
        policy: TierPolicy,
    },
    /// Removes an SSD; a [`super::FsReport`].
    Remove {
        /// The address of the SSD.
        ssd: String,
    },
}

impl Filesystems {
    /// Returns the mounted file system `name`, which has a tier.
    fn tiered(&self, name: &str) -> Result<Arc<FileSystem>, Failure> {
        let fs = Arc::clone(&self.mounted().get(name).ok_or_else(|| not_mounted(name))?.fs);
        ensure_tier(name, &fs)?;
        Ok(fs)
    }

    /// Gives a file system SSDs. The first ones are given to one that is not mounted. `lose` names the bytes of SSDs that may
    /// hold data.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Refused`] for an SSD that cannot be used, and for the first one of a mounted
    /// file system; else the failure of the pool.
    pub fn add_ssds(&self, name: &str, ssds: &[MemberAddress], lose: Option<u64>) -> Result<(), Failure> {
        let opened = |ssd: &MemberAddress| {
            if ssd.path != Path::new("") {
                ferrite_pool::ensure_no_member(&ssd.path)?;
            }
            let disk = AddressOpener.open(&ssd.address).map_err(Failure::refused)?;
            let uuid = machine::random_uuid().map_err(Failure::failed)?;
            Ok(TierDisk { uuid, address: ssd.address.clone(), disk })
        };
        let ssds: Vec<TierDisk> = ssds.iter().map(opened).collect::<Result<_, Failure>>()?;
        let (nonce, mounted) = (machine::random() as u16, self.mounted());
        if let Some(tree) = mounted.get(name) {
            let fs = Arc::clone(&tree.fs);
            if fs.tier().is_none() {
                let place = tree.place(": its first SSDs are given to it while it is not mounted");
                return Err(Failure::busy(format!("{name:?} {place}")));
            }
            drop(mounted);
            return Ok(fs.tier_upkeep().add_ssds(&ssds, lose, nonce)?);
        }
        // While the lock is held, it is not mounted.
        let has_tier = self.open(name, None, true)?.tier().is_some();
        match has_tier {
            true => Ok(self.open(name, None, false)?.tier_upkeep().add_ssds(&ssds, lose, nonce)?),
            false => Ok(FileSystem::add_tier(&self.pool, name, &ssds, lose, nonce)?),
        }
    }

    /// Returns the addresses of the SSDs of the file system `name`.
    ///
    /// # Errors
    /// The failure of opening the file system, if it is not mounted.
    pub fn ssd_addresses(&self, name: &str) -> Result<Vec<String>, Failure> {
        let tier = self.opened(name)?.tier();
        Ok(tier.into_iter().flat_map(|tier| tier.ssds).map(|ssd| ssd.address).collect())
    }

    /// Destages all content of the mounted file system `name` that may leave the pool.
    ///
    /// # Errors
    /// The failure of a file system that is not mounted, or of its SSDs.
    pub fn drain(&self, name: &str) -> Result<(), Failure> {
        Ok(self.tiered(name)?.drain_tier()?)
    }

    pub(super) fn perform_tier(
        &self,
        name: &str,
        request: TierRequest,
        progress: ProgressCall<'_>,
    ) -> Result<ServiceReply, Failure> {
        let fs = match request {
            TierRequest::Adopt { lose } => return reply(&self.adopt_ssds(name, lose, progress)?),
            TierRequest::Stat => self.opened(name)?,
            TierRequest::Trim => {
                let fs = self.tiered(name)?;
                fs.trim_tier(progress)?;
                fs
            }
            TierRequest::Clean { all } => {
                let fs = self.tiered(name)?;
                fs.tier_upkeep().clean(if all { CleaningGoal::All } else { CleaningGoal::Usual }, progress)?;
                fs
            }
            TierRequest::Scrub => return reply(&self.tiered(name)?.tier_upkeep().scrub(progress)?),
            TierRequest::Where { ino, page } => {
                let found = self.tiered(name)?.tier_upkeep().away_place(Ino(ino), page)?;
                let why = || Failure::not_found(format!("page {page} is not on an SSD alone"));
                return reply(&found.ok_or_else(why)?);
            }
            TierRequest::Grow { ssd } => {
                let fs = self.tiered(name)?;
                let disk = AddressOpener.open(&ssd).map_err(Failure::refused)?;
                fs.tier_upkeep().grow_ssd(&ssd, &disk, machine::random() as u16)?;
                fs
            }
            TierRequest::Set { policy } => {
                self.tiered(name)?.tier_upkeep().set_policy(policy)?;
                return reply(&self.report(name)?);
            }
            TierRequest::Remove { ssd } => {
                self.tiered(name)?.tier_upkeep().remove_ssd(&ssd, progress)?;
                return reply(&self.report(name)?);
            }
        };
        ensure_tier(name, &fs)?;
        reply(&fs.tier_stats())
    }

    /// Returns the file system `name`, opened to be read if it is not mounted.
    fn opened(&self, name: &str) -> Result<Arc<FileSystem>, Failure> {
        match self.mounted().get(name) {
            Some(tree) => Ok(Arc::clone(&tree.fs)),
            None => self.open(name, None, true),
        }
    }
}

fn ensure_tier(name: &str, fs: &FileSystem) -> Result<(), Failure> {
    match fs.tier() {
        Some(_) => Ok(()),
        None => Err(Failure::refused(format!("{name:?} has no SSDs: `ferrite fs tier add` gives it some"))),
    }
}
