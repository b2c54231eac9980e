//! The host's newest writes, kept apart from every scheme: the judge of TL2.

use super::LayerFault;
use super::flash::{Flash, PageStamp};
use super::{HostPage, Translation};
use crate::prefetch::{huge_table, prefetch};

/// The version of a page that was never written, or was trimmed.
const NOTHING: u32 = 0;

/// The newest version of each page.
pub(super) struct VersionLedger {
    newest: Vec<u32>,
    last: u32,
}

impl VersionLedger {
    pub(super) fn new(pages: u32) -> Self {
        Self { newest: huge_table(NOTHING, pages as usize), last: NOTHING }
    }

    /// Returns the version of a write of `page` that begins. Versions repeat only after four thousand million writes.
    pub(super) fn write(&mut self, page: HostPage) -> u32 {
        self.last = self.last.wrapping_add(1).max(NOTHING + 1);
        self.newest[page.0 as usize] = self.last;
        self.last
    }

    pub(super) fn foresee(&self, page: HostPage) {
        prefetch(&self.newest, page.0 as usize);
    }

    pub(super) fn trim(&mut self, page: HostPage) {
        self.newest[page.0 as usize] = NOTHING;
    }

    pub(super) fn pages(&self) -> u32 {
        self.newest.len() as u32
    }

    /// Checks that `page` is where `layer` says.
    pub(super) fn check(&self, page: HostPage, layer: &impl Translation, flash: &Flash) -> Result<(), LayerFault> {
        match (self.newest[page.0 as usize], layer.locate(page)) {
            (NOTHING, None) => Ok(()),
            (NOTHING, Some(at)) => Err(LayerFault::Spurious(page, at)),
            (_, None) => Err(LayerFault::Missing(page)),
            (version, Some(at)) if flash.holds(PageStamp::new(page, version), at) => Ok(()),
            (_, Some(at)) => Err(LayerFault::Stale(page, at)),
        }
    }
}
