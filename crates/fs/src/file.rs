//! Content of files: its index, reads, writes, appends, sizes and space.

pub(crate) mod ahead;
pub(crate) mod allocate;
pub(crate) mod append;
pub(crate) mod compaction;
pub(crate) mod content;
pub(crate) mod cut;
pub(crate) mod fsync;
pub(crate) mod gap;
pub(crate) mod give_pages;
pub(crate) mod index;
pub(crate) mod index_height;
pub(crate) mod new_pages;
pub(crate) mod read;
pub(crate) mod size;
pub(crate) mod stopped_append;
pub(crate) mod superpage;
pub(crate) mod write;

use std::ops::Deref;

use crate::file::ahead::Ahead;
use crate::file::superpage::Candidates;
use crate::store::Store;

/// Files of a store, by their inodes.
pub struct Files {
    store: Store,
    pub(crate) ahead: Ahead,
    /// Files that may be moved to superpages.
    pub(crate) candidates: Candidates,
}

impl Files {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, ahead: Ahead::default(), candidates: Candidates::default() }
    }
}

impl Deref for Files {
    type Target = Store;

    #[inline(always)]
    fn deref(&self) -> &Store {
        &self.store
    }
}
