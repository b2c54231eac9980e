//! Directories as the kernel lists them with what is known of each entry.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ferrite_fs::{DirEntry, Ino, Listed, Result};
use fuser::{FileAttr, Generation, INodeNo, ReplyDirectoryPlus};

use super::front::Front;
use super::words::{NOTHING, attributes, file_type};

/// Entries that are looked up together.
const TOGETHER: usize = 128;

/// What is in the number that the kernel is told of a damaged inode, and in no inode's (FM13).
const NO_INODE: u64 = 1 << 63;

impl Front {
    /// Adds to `reply` what `dir` has behind `cookie`, as much as there is room for. Where nothing is added the directory
    /// ends there.
    pub(super) fn list(&self, dir: Ino, cookie: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        let mut add = |entry: &Listed| {
            let (attr, generation, known) = self.told_of(entry);
            reply.add(attr.ino, entry.cookie, OsStr::from_bytes(&entry.name), &known, &attr, generation)
        };
        let dots = self.dots(dir, cookie)?;
        // The kernel counts neither of the two as told.
        if dots.iter().any(&mut add) {
            return Ok(());
        }
        let mut behind = cookie;
        loop {
            let listed = self.fs.list(dir, behind, TOGETHER)?;
            #[cfg(test)]
            super::tests::note_listed(&self.fs, dir, &listed);
            let Some(last) = listed.last() else { return Ok(()) };
            behind = last.cookie;
            if self.tell_held(&listed, &mut add) {
                return Ok(());
            }
        }
    }

    /// Tells of `listed` those that are there still until `add` refuses one; whether there were any. One that is gone is
    /// left out, as if it had gone before.
    fn tell_held(&self, listed: &[Listed], add: &mut dyn FnMut(&Listed) -> bool) -> bool {
        let mut is_any = false;
        for entry in listed.iter().filter(|entry| entry.attr.is_none() || self.fs.hold(entry.ino).is_ok()) {
            is_any = true;
            if add(entry) {
                #[cfg(test)]
                if super::tests::is_planted(super::tests::Bug::RefusedHeld) {
                    break;
                }
                if entry.attr.is_some() {
                    self.fs.release(entry.ino, 1);
                }
                break;
            }
        }
        is_any
    }

    /// What the kernel is told of `entry`, and how long it may believe that.
    fn told_of(&self, entry: &Listed) -> (FileAttr, Generation, Duration) {
        match &entry.attr {
            Some(attr) => (attributes(attr), Generation(attr.generation.into()), self.known(attr)),
            None => {
                let (ino, kind) = (INodeNo(entry.ino.0 | NO_INODE), file_type(entry.kind));
                (FileAttr { ino, kind, ..NOTHING }, Generation(0), Duration::ZERO)
            }
        }
    }

    /// What a listing of `dir` from `cookie` on begins with: itself and its parent, or what is left of the two.
    fn dots(&self, dir: Ino, cookie: u64) -> Result<Vec<Listed>> {
        let mut dots = Vec::new();
        self.fs.readdir(dir, cookie, &mut |entry| {
            let is_dot = matches!(entry.name, b"." | b"..");
            let DirEntry { name, ino, kind, cookie } = *entry;
            dots.extend(is_dot.then(|| Listed { name: name.to_vec(), cookie, ino, kind, attr: None }));
            is_dot
        })?;
        dots.iter_mut().for_each(|entry| entry.attr = self.fs.getattr(entry.ino).ok());
        Ok(dots)
    }
}
