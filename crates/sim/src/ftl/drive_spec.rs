//! Translation schemes by name.

use super::{Fast, FlashDrive, FlashShape, FlashTiming, PageLevel, Translation, VictimChoice};
use crate::{Result, host_memory};

/// Approximate bytes of all tables for a page: the host's map, the flash's stamps, the valid bits, and the ledger of
/// newest versions.
const PAGE_TABLES: u64 = 22;

/// A translation scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FtlScheme {
    /// [`PageLevel`], with this choice of victims.
    Page(VictimChoice),
    /// [`Fast`], with this many random log blocks, or as many as possible.
    Fast {
        /// The number of random log blocks.
        log_blocks: Option<u32>,
    },
}

impl FtlScheme {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page(_) => "page",
            Self::Fast { .. } => "fast",
        }
    }
}

/// The description of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveSpec {
    /// The translation scheme.
    pub scheme: FtlScheme,
    /// The size.
    pub shape: FlashShape,
    /// The speed.
    pub timing: FlashTiming,
}

/// A translation layer of any scheme.
pub type AnyLayer = Box<dyn Translation + Send>;

impl DriveSpec {
    /// Returns the drive, never written.
    ///
    /// # Errors
    /// The description is of no possible drive.
    pub fn build(self) -> Result<FlashDrive<AnyLayer>> {
        let shape = self.shape.check()?;
        let bytes = u64::from(shape.flash_pages()) * PAGE_TABLES;
        host_memory::ensure(bytes, &format!("a drive of {} pages under {}", shape.flash_pages(), self.scheme.name()))?;
        let layer: AnyLayer = match self.scheme {
            FtlScheme::Page(choice) => Box::new(PageLevel::new(shape, choice)?),
            FtlScheme::Fast { log_blocks } => Box::new(Fast::new(shape, log_blocks)?),
        };
        FlashDrive::new(shape, layer, self.timing)
    }
}
