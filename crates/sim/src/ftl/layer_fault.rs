//! The faults of a translation layer.

use super::{FlashPage, HostPage};

/// A fault that breaks a promise of a translation layer (TL1, TL2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerFault {
    /// The layer has no place for a page that was written.
    #[error("page {} was written, and the layer has no place for it", .0.0)]
    Missing(HostPage),
    /// The layer has a place for a page that was never written, or was trimmed.
    #[error("page {} has no content, and the layer has it at flash page {}", .0.0, .1.0)]
    Spurious(HostPage, FlashPage),
    /// The layer's place for the page holds another page, an older version, or nothing.
    #[error("the layer has page {} at flash page {}, which does not hold its newest version", .0.0, .1.0)]
    Stale(HostPage, FlashPage),
    /// The layer programmed a page that was not erased.
    #[error("flash page {} was programmed again before its block was erased", .0.0)]
    Overwritten(FlashPage),
}
