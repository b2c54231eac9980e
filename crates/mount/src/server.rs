//! The FUSE server of one file system: its state, which the modules of the requests share.

use std::sync::Arc;

use ferrite_fs::{DataMode, FileSystem};
use ferrite_memory::planted;

use super::MountOptions;
use super::lost::Lost;
use super::reserve::Reserve;

/// The FUSE server of one file system.
pub(super) struct FuseFs {
    pub(super) fs: Arc<FileSystem>,
    /// True if the kernel holds writes back.
    pub(super) cached: bool,
    /// True if a write is atomic.
    pub(super) is_atomic: bool,
    pub(super) reserve: Reserve,
    pub(super) lost: Lost,
}

impl FuseFs {
    pub fn new(fs: Arc<FileSystem>, options: &MountOptions) -> Self {
        let (cached, reserve) = (options.cached, Reserve::new(options.reserve_percent));
        let is_atomic = !cached && fs.data_mode() == DataMode::Atomic;
        let is_atomic = is_atomic && !planted!("mount: split");
        Self { fs, cached, is_atomic, reserve, lost: Lost::default() }
    }
}
