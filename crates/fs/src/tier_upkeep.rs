//! The SSDs of an open file system: what their keepers call.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_pool::{Pool, ProgressWatch};

use crate::share::shared_files::SharedFiles;
use crate::store::tier_adoption::{AdoptedSsds, LaterSsds};
use crate::store::tier_joining;
use crate::store::tier_members::{self, TierDisk, TierOpening};
use crate::tier::{self, evacuate, lost_files, scrub};
use crate::tree::find_paths;
use crate::{CleaningGoal, Error, FileSystem, FsOptions, Ino, PagePlace, Result, TierPolicy, TierScrub};

/// Adds, grows and removes SSDs of an open file system, and reads and cleans what they have.
pub struct TierUpkeep<'a> {
    pub(crate) shared: &'a SharedFiles,
}

impl TierUpkeep<'_> {
    /// Gives the open file system more SSDs. Durable on return, or not done. `lose` and `nonce` are as in
    /// [`crate::FileSystem::add_tier`].
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if it has no tier; otherwise as [`crate::FileSystem::add_tier`] and [`crate::FileSystem`].
    pub fn add_ssds(&self, ssds: &[TierDisk], lose: Option<u64>, nonce: u16) -> Result<()> {
        tier_joining::add_ssds(self.shared, ssds, lose, nonce)
    }

    /// Sets the rules by which the tier moves pages, from now on and for later openings. Durable on return.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] without a tier; [`crate::Error::Refused`] while SSDs are being added or removed;
    /// otherwise as [`crate::FileSystem`].
    pub fn set_policy(&self, policy: TierPolicy) -> Result<()> {
        self.shared.refuse_if_read_only()?;
        let slots = self.shared.slots.as_ref().ok_or(Error::Unsupported("the file system has no SSDs"))?;
        let _pass = self.shared.gate.pass();
        tier_members::set_policy(self.shared.pool(), &self.shared.tag(), slots, policy)
    }

    /// Uses all of the SSD at `address`, which became larger and was opened again as `disk`. Returns how many bytes it
    /// gained for pages. Durable on return, or not done.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] if the file system has no such SSD, if `disk` is another one, or if it was not the last one
    /// that was added; [`crate::Error::NoSpace`] if the pool has no room for its table; otherwise as [`crate::FileSystem`].
    pub fn grow_ssd(&self, address: &str, disk: &Arc<dyn Disk>, nonce: u16) -> Result<u64> {
        tier_joining::grow_ssd(self.shared, address, disk, nonce)
    }

    /// Removes the SSD at `address` while the file system is used: its pages move to the other SSDs or to the pool. Durable on
    /// return. After a failure or a crash nothing is lost, and the same call goes on. `progress` gets how far it is in
    /// bytes, and ends it by returning false.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] if the file system has no such SSD, or no room for its pages; [`crate::Error::Ssd`] if an SSD
    /// fails; [`ferrite_pool::Error::Cancelled`]; otherwise as [`crate::FileSystem`].
    pub fn remove_ssd(&self, address: &str, progress: ProgressWatch<'_>) -> Result<()> {
        evacuate::remove_ssd(self.shared, &self.shared.tier, address, progress)
    }

    /// Moves the pages of sparse segments together until `goal` is reached, or no more segments become free. `progress`
    /// gets how many were cleaned, and ends it by returning false.
    ///
    /// # Errors
    /// [`crate::Error::Ssd`] if an SSD fails; [`ferrite_pool::Error::Cancelled`]; otherwise as [`crate::FileSystem`].
    pub fn clean(&self, goal: CleaningGoal, progress: ProgressWatch<'_>) -> Result<()> {
        tier::clean_tier(self.shared, &self.shared.tier, goal, progress)
    }

    /// Reads all content that is on SSDs only, and compares it with what was written there. `progress` gets how far it is,
    /// and ends it by returning false.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Cancelled`]; otherwise as [`crate::FileSystem`].
    pub fn scrub(&self, progress: ProgressWatch<'_>) -> Result<TierScrub> {
        let mut found = scrub::scrub(self.shared, progress)?;
        let wanted = found.damaged.iter().map(|damaged| damaged.ino).collect();
        let paths = find_paths::find_paths(self.shared, &wanted);
        found.damaged.iter_mut().for_each(|damaged| damaged.path = paths.get(&damaged.ino).cloned());
        Ok(found)
    }

    /// Returns where page `page` of a file lies, if it is on an SSD only.
    ///
    /// # Errors
    /// As [`FileSystem`].
    pub fn away_place(&self, ino: Ino, page: u64) -> Result<Option<PagePlace>> {
        scrub::away_place(self.shared, ino, page)
    }
}

/// Gives the file system called `name`, which is not open, the SSDs that a later life of its pool has used: the
/// pool was restored from an older image. What that life overwrote is lost: `lose` names its bytes. Without that
/// number nothing is changed. Durable on return, or to be made again.
///
/// # Errors
/// [`crate::Error::Unsupported`] without a tier; [`crate::Error::Ssd`] for an SSD that is missing, or none of this
/// pool; [`ferrite_pool::Error::Cancelled`] if `watch` returns false. Otherwise as [`crate::FileSystem::open`].
pub fn adopt_ssds(
    pool: &Arc<Pool>,
    name: &str,
    options: FsOptions,
    opening: &TierOpening<'_>,
    lose: Option<u64>,
    watch: ProgressWatch<'_>,
) -> Result<AdoptedSsds> {
    let tag = pool.tag(name)?;
    let later = LaterSsds::find(pool, &tag, opening, watch)?;
    let (mut files, lost_bytes) = (Vec::new(), later.lost_bytes);
    if lost_bytes > 0 {
        let seen = FileSystem::open_tiered(Arc::clone(pool), name, FsOptions { read_only: true, ..options }, opening)?;
        let lost = lost_files::lost_bytes(&seen.shared, &|segment| later.overwritten.contains(&segment))?;
        let paths = find_paths::find_paths(&seen.shared, &lost.keys().copied().collect());
        files = lost_files::with_paths(&lost, &paths);
    }
    let is_adopted = lose.unwrap_or(0) == lost_bytes;
    if is_adopted {
        later.adopt(opening.nonce)?;
    }
    Ok(AdoptedSsds { is_adopted, lost_bytes, files })
}
