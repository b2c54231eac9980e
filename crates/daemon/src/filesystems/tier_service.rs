//! Requests about the tiers of file systems.

use std::sync::Arc;

use ferrite_fs::{CleaningGoal, FileSystem};
use ferrite_owner::services::reply;
use ferrite_owner::{ProgressCall, ServiceReply};
use ferrite_pool::Failure;
use serde::{Deserialize, Serialize};

use super::{Filesystems, not_mounted};

/// A request about the tier of a file system. Each is answered with [`ferrite_fs::TierStats`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum TierRequest {
    /// Describes the tier.
    Stat,
    /// Trims all free segments.
    Trim,
    /// Moves the pages of sparse segments together.
    Clean {
        /// As far as segments become free by it.
        all: bool,
    },
}

impl Filesystems {
    /// Returns the mounted file system `name`, which has a tier.
    fn tiered(&self, name: &str) -> Result<Arc<FileSystem>, Failure> {
        let fs = Arc::clone(&self.mounted().get(name).ok_or_else(|| not_mounted(name))?.fs);
        ensure_tier(name, &fs)?;
        Ok(fs)
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
            TierRequest::Stat => self.opened(name)?,
            TierRequest::Trim => {
                let fs = self.tiered(name)?;
                fs.trim_tier(progress)?;
                fs
            }
            TierRequest::Clean { all } => {
                let fs = self.tiered(name)?;
                fs.clean_tier(if all { CleaningGoal::All } else { CleaningGoal::Usual }, progress)?;
                fs
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
