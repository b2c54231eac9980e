//! Content of files: its index, reads, writes, appends, sizes and space.

pub(crate) mod ahead;
pub(crate) mod allocate;
pub(crate) mod append;
pub(crate) mod bring_in;
pub(crate) mod compaction;
pub(crate) mod content;
pub(crate) mod cut;
pub(crate) mod fsync;
pub(crate) mod gap;
pub(crate) mod give_pages;
pub(crate) mod index;
pub(crate) mod index_height;
pub(crate) mod new_pages;
pub(crate) mod noted_files;
pub(crate) mod read;
pub(crate) mod size;
pub(crate) mod stopped_append;
pub(crate) mod superpage;
pub(crate) mod write;

use std::ops::Deref;

use crate::file::noted_files::{PagesAhead, SuperpageCandidates};
use crate::store::ChunkStore;

/// Files of a store, by their inodes.
pub struct FileLayer {
    store: ChunkStore,
    pub(crate) ahead: PagesAhead,
    /// Files that may be moved to superpages.
    pub(crate) candidates: SuperpageCandidates,
}

impl FileLayer {
    pub(crate) fn new(store: ChunkStore) -> Self {
        Self { store, ahead: PagesAhead::default(), candidates: SuperpageCandidates::default() }
    }
}

impl Deref for FileLayer {
    type Target = ChunkStore;

    #[inline(always)]
    fn deref(&self) -> &ChunkStore {
        &self.store
    }
}
