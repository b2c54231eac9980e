//! What is found when a translation layer is wrong.

use super::{FlashPage, HostPage};

/// How a translation layer broke its promise (TL1, TL2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerFault {
    /// It says that a page that was written is nowhere.
    #[error("page {} was written and is said to be nowhere", .0.0)]
    Missing(HostPage),
    /// It says that a page is somewhere that was never written, or was trimmed.
    #[error("page {} holds nothing and is said to be at flash page {}", .0.0, .1.0)]
    Spurious(HostPage, FlashPage),
    /// Where it says the page is, there is another, an older version, or nothing.
    #[error("page {} is said to be at flash page {}, which does not hold its newest version", .0.0, .1.0)]
    Stale(HostPage, FlashPage),
    /// It programmed a page that was not erased.
    #[error("flash page {} was programmed again before its block was erased", .0.0)]
    Overwritten(FlashPage),
}
