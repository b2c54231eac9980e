//! Directories as the kernel lists them with what is known of each entry.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferrite_fs::{Ino, Listed, Result};
use fuser::{Generation, INodeNo, ReplyDirectoryPlus};

use super::front::Front;
use super::words::attributes;

/// Entries that are looked up together.
const TOGETHER: usize = 128;

impl Front {
    /// Adds to `reply` what `dir` has behind `cookie`, as much as there is room for. Where nothing is added the directory
    /// ends there.
    pub(super) fn list(&self, dir: Ino, cookie: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        let mut add = |entry: &Listed| {
            let (attr, generation) = (&entry.attr, Generation(entry.attr.generation.into()));
            let name = OsStr::from_bytes(&entry.name);
            reply.add(INodeNo(attr.ino.0), entry.cookie, name, &self.known(attr), &attributes(attr), generation)
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
        for entry in listed.iter().filter(|entry| self.fs.hold(entry.attr.ino).is_ok()) {
            is_any = true;
            if add(entry) {
                #[cfg(test)]
                if super::tests::is_planted(super::tests::Bug::RefusedHeld) {
                    break;
                }
                self.fs.release(entry.attr.ino, 1);
                break;
            }
        }
        is_any
    }

    /// What a listing of `dir` from `cookie` on begins with: itself and its parent, or what is left of the two.
    fn dots(&self, dir: Ino, cookie: u64) -> Result<Vec<Listed>> {
        let mut dots = Vec::new();
        self.fs.readdir(dir, cookie, &mut |entry| {
            let is_dot = matches!(entry.name, b"." | b"..");
            dots.extend(is_dot.then(|| (entry.name.to_vec(), entry.cookie, entry.ino)));
            is_dot
        })?;
        let listed = |(name, cookie, ino)| Ok(Listed { name, cookie, attr: self.fs.getattr(ino)? });
        dots.into_iter().map(listed).collect()
    }
}
