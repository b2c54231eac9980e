//! What `check` asks of a file system: that every page and inode is named once and marked so, that every name leads to an
//! inode, and that every inode is reached by as many names as it says.
//!
//! This reads the medium by itself and shares no walk with the file system, so that it does not share its mistakes.

mod claims;
mod content;
mod directory;
mod inodes;
mod media;

use ferrite_pool::check::{Findings, TagOwner};
use ferrite_pool::{Pool, Tag, TagKind};

use inodes::Survey;
pub(crate) use media::Media;

/// The owner of file systems, for `check`.
pub struct FilesOwner;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub what: String,
    /// Where it lies in the pool.
    pub at: u64,
}

impl Wrong {
    fn new(what: impl Into<String>, at: u64) -> Self {
        Self { what: what.into(), at }
    }
}

/// All that is wrong with the file system of `tag`.
pub(crate) fn look(pool: &Pool, tag: &Tag) -> Vec<Wrong> {
    match Media::open(pool, tag) {
        Ok(media) => Survey::of(&media).into_wrong(),
        Err(wrong) => vec![wrong],
    }
}

impl TagOwner for FilesOwner {
    fn kind(&self) -> TagKind {
        TagKind::FILES
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut Findings<'_>) {
        look(pool, tag).into_iter().for_each(|wrong| findings.error(wrong.what, Some(wrong.at)));
    }
}
