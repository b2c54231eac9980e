//! The translation layer of an aged SSD, as far as it takes time.

/// Work of a translation layer before a program (SS6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimWork {
    /// Pages that the layer moves.
    pub copied_pages: u64,
    /// Blocks that the layer erases.
    pub erases: u64,
}

/// Maps the pages of an SSD to flash pages, and reclaims space. Pages have the size of the profile's.
pub trait SsdTranslation: Send {
    /// Stores new content of `page`. Returns the work that this causes.
    fn program(&mut self, page: u64) -> ReclaimWork;

    /// Drops the content of `page`.
    fn trim(&mut self, page: u64);

    /// Looks `page` up.
    fn read(&mut self, page: u64) {
        let _ = page;
    }
}

#[cfg(test)]
pub(crate) mod tests;
