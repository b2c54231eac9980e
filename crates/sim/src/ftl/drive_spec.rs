//! Schemes by name.

use super::{Choice, Drive, Fast, PageLevel, Shape, Timing, Translation};
use crate::{Result, host_memory};

/// About the bytes of all tables for a page: where the host's pages are, what each of the flash holds, which of them is
/// valid, and what the ledger of newest versions says.
const PAGE_TABLES: u64 = 22;

/// A translation scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// [`PageLevel`].
    Page(Choice),
    /// [`Fast`], with so many random log blocks, or as many as there can be.
    Fast {
        /// How many.
        log_blocks: Option<u32>,
    },
}

impl Scheme {
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
pub struct Spec {
    /// Its translation layer.
    pub scheme: Scheme,
    /// Its size.
    pub shape: Shape,
    /// Its speed.
    pub timing: Timing,
}

/// A layer of any scheme.
pub type AnyLayer = Box<dyn Translation + Send>;

impl Spec {
    /// Makes it, never written.
    ///
    /// # Errors
    /// Where there can be no such drive.
    pub fn build(self) -> Result<Drive<AnyLayer>> {
        let shape = self.shape.check()?;
        let bytes = u64::from(shape.flash_pages()) * PAGE_TABLES;
        host_memory::ensure(bytes, &format!("a drive of {} pages under {}", shape.flash_pages(), self.scheme.name()))?;
        let layer: AnyLayer = match self.scheme {
            Scheme::Page(choice) => Box::new(PageLevel::new(shape, choice)?),
            Scheme::Fast { log_blocks } => Box::new(Fast::new(shape, log_blocks)?),
        };
        Drive::new(shape, layer, self.timing)
    }
}
