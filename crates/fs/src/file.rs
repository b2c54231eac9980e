//! Content of files: its index, reads, writes, appends, sizes and space.

pub(crate) mod ahead;
pub(crate) mod allocate;
pub(crate) mod append;
pub(crate) mod compaction;
pub(crate) mod fsync;
pub(crate) mod index;
pub(crate) mod index_height;
pub(crate) mod new_pages;
pub(crate) mod read;
pub(crate) mod size;
pub(crate) mod superpage;
pub(crate) mod write;
