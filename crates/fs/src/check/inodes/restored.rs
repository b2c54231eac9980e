//! Inodes whose first word is damaged: of what kind they are and how high their index is.
//!
//! The content of an inode and its names show both: the right answer has no errors. So the content is given up for
//! that word only if no answer fits, or several do.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_pool::layout::PAGE;
use zerocopy::IntoBytes;

use super::InodeSurvey;
use crate::check::content;
use crate::format::inode::Inode;
use crate::format::word::IndexWord;
use crate::{FileKind, Ino};

/// Inodes that are tried in one look: of those that one damaged page has each, and no more than can be waited for
/// where all are made to be tried.
const TRIED_MAX: usize = 256;
/// How high the index of a file can be.
const HEIGHT_MAX: u8 = 4;

/// Inodes with which something is wrong.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Those that are not as what they name is.
    pub ill: BTreeSet<Ino>,
    /// What names call those that are not that.
    pub called: BTreeMap<Ino, Vec<FileKind>>,
}

impl InodeSurvey<'_> {
    /// Those with which nothing is wrong once their first word is another one, as they are then.
    pub(super) fn restored(&self) -> BTreeMap<Ino, Inode> {
        let Suspects { ill, called } = &self.suspects;
        let all: BTreeSet<Ino> = ill.iter().chain(called.keys()).copied().filter(|ino| *ino != Ino::ROOT).collect();
        all.into_iter().take(TRIED_MAX).filter_map(|ino| Some((ino, self.restored_one(ino)?))).collect()
    }

    fn restored_one(&self, ino: Ino) -> Option<Inode> {
        let inode = self.media.inode(ino)?;
        let is_right = if inode.is_free() { has_nothing(&inode) && inode.rest.parent == 0 } else { self.fits(&inode) };
        if is_right {
            return None;
        }
        let kind = self.called(&inode)?;
        let right = |height| Some(self.as_kind(ino, kind, height)?).filter(|right| self.fits(right));
        let is_other_kind = !inode.is_free() && inode.kind() != Some(kind);
        let as_high = is_other_kind.then(|| right(inode.head.height)).flatten();
        as_high.or_else(|| {
            let mut fitting = heights(&inode, kind).filter_map(right);
            fitting.next().filter(|_| fitting.next().is_none())
        })
    }

    /// What all its names call it; where each calls it what it says, that.
    fn called(&self, inode: &Inode) -> Option<FileKind> {
        let Some(kinds) = self.suspects.called.get(&inode.ino) else { return inode.kind() };
        let is_all = inode.is_free() || self.names.get(&inode.ino) == Some(&(kinds.len() as u64));
        kinds.first().filter(|first| is_all && kinds.iter().all(|kind| kind == *first)).copied()
    }

    /// Inode `ino` if it is of kind `kind` and has an index of height `height`. To whom it was open is not known of a
    /// free one.
    fn as_kind(&self, ino: Ino, kind: FileKind, height: u8) -> Option<Inode> {
        let mut right = self.media.inode_of_height(ino, height)?;
        if right.is_free() {
            right.head.mode = if kind == FileKind::Directory { 0o700 } else { 0o600 };
            (right.head.uid, right.head.gid) = (0, 0);
            right.head.links = self.suspects.called.get(&ino).map_or(1, |names| names.len() as u32);
        }
        right.head.mode = right.head.mode & 0o7777 | kind.mode_bits() as u16;
        Some(right)
    }

    fn fits(&self, inode: &Inode) -> bool {
        is_like_its_kind(inode) && content::fits(self.media, inode)
    }

    /// Takes an inode for what is right, and says what was wrong with it.
    pub(super) fn restore(&mut self, right: Inode) {
        let (kind, height) = (right.kind().expect("it has one now"), right.head.height);
        let (what, done) = match self.inodes.insert(right.ino, right) {
            None => (
                "is free, and has names and what they name".into(),
                format!("it is a {kind:?} again, and root's alone: see that its owner and mode are right"),
            ),
            Some(said) => (
                format!("says that it has mode {:o} and height {}, and is otherwise", said.head.mode, said.head.height),
                format!("it is a {kind:?} of height {height}, with which nothing is wrong"),
            ),
        };
        self.mend(right, what, &done);
    }
}

/// Returns the possible heights of the index of `inode` as kind `kind`, apart from its own. An inode that names
/// nothing may have any.
fn heights(inode: &Inode, kind: FileKind) -> impl Iterator<Item = u8> {
    let has_height = kind == FileKind::File && inode.roots != [IndexWord::NONE; 8];
    let (is_free, said) = (inode.is_free(), inode.head.height);
    let is_tried = move |height: &u8| is_free || *height != said;
    (0..=if has_height { HEIGHT_MAX } else { 0 }).filter(is_tried)
}

/// Returns true if it has neither content nor names, nor a target.
fn has_nothing(inode: &Inode) -> bool {
    inode.size() == 0 && inode.head.pages == 0 && inode.roots == [IndexWord::NONE; 8]
}

/// Returns true if what `inode` says beside its kind is as it is of that.
fn is_like_its_kind(inode: &Inode) -> bool {
    let is_like = match inode.kind() {
        None => false,
        Some(FileKind::Directory | FileKind::File) => true,
        Some(FileKind::Symlink) if inode.is_long_link() => inode.size() < PAGE && inode.roots[0] != IndexWord::NONE,
        Some(FileKind::Symlink) => {
            let (target, rest) = inode.roots.as_bytes().split_at(inode.size() as usize);
            !target.is_empty() && !target.contains(&0) && rest.iter().all(|byte| *byte == 0)
        }
        Some(_) => inode.size() == 0 && inode.roots == [IndexWord::NONE; 8],
    };
    is_like && inode.is_directory() == (inode.rest.parent != 0)
}
