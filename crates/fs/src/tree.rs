//! Names and what they lead to: directories, links, attributes.

pub(crate) mod acl;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod hold;
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

use crate::file::Files;

/// Files under their names.
pub struct Tree {
    files: Files,
    /// Held while a directory moves to another one, so that no directory comes to lie within itself.
    pub(crate) moving: Mutex<()>,
    /// A listing met damaged names (FN4).
    pub(crate) has_damaged_names: AtomicBool,
}

impl Tree {
    pub(crate) fn new(files: Files) -> Self {
        Self { files, moving: Mutex::new(()), has_damaged_names: AtomicBool::new(false) }
    }
}

impl Deref for Tree {
    type Target = Files;

    #[inline(always)]
    fn deref(&self) -> &Files {
        &self.files
    }
}
