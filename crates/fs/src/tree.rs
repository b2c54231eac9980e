//! Names and what they lead to: directories, links, attributes.

pub(crate) mod acl;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod find_paths;
pub(crate) mod inode_lifetime;
pub(crate) mod lookup;
pub(crate) mod lost_found;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod setattr;
pub(crate) mod statfs;
pub(crate) mod xattr;

use std::ops::Deref;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::file::FileLayer;

/// Files under their names.
pub struct TreeLayer {
    files: FileLayer,
    /// Held while a directory moves to another one, so that no directory becomes its own descendant.
    pub(crate) moving: Mutex<()>,
    /// A listing met damaged names (FN4).
    pub(crate) has_damaged_names: AtomicBool,
}

impl TreeLayer {
    pub(crate) fn new(files: FileLayer) -> Self {
        Self { files, moving: Mutex::new(()), has_damaged_names: AtomicBool::new(false) }
    }
}

impl Deref for TreeLayer {
    type Target = FileLayer;

    #[inline(always)]
    fn deref(&self) -> &FileLayer {
        &self.files
    }
}
