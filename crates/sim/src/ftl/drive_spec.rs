//! Schemes by name.

use super::{Fast, FlashDrive, FlashShape, FlashTiming, PageLevel, Translation, VictimChoice};
use crate::{Result, host_memory};

/// About the bytes of all tables for a page: where the host's pages are, what each of the flash holds, which of them is
/// valid, and what the ledger of newest versions says.
const PAGE_TABLES: u64 = 22;

/// A translation scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FtlScheme {
    /// [`PageLevel`].
    Page(VictimChoice),
    /// [`Fast`], with so many random log blocks, or as many as there can be.
    Fast {
        /// How many.
        log_blocks: Option<u32>,
    },
}

impl FtlScheme {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page(_) => "page",
            Self::Fast { .. } => "fast",
        }
    }
}

/// A drive to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveSpec {
    /// Its translation layer.
    pub scheme: FtlScheme,
    /// Its size.
    pub shape: FlashShape,
    /// Its speed.
    pub timing: FlashTiming,
}

/// A layer of any scheme.
pub type AnyLayer = Box<dyn Translation + Send>;

impl DriveSpec {
    /// Makes it, never written.
    ///
    /// # Errors
    /// Where there can be no such drive.
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
