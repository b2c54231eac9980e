//! Directory listings with the attributes of each entry (readdirplus).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ferrite_fs::DirEntry;
use ferrite_fs::Ino;
use ferrite_fs::ListedEntry;
use ferrite_fs::Result;
use ferrite_memory::planted;
use fuser::{FileAttr, Generation, INodeNo, ReplyDirectoryPlus};

use super::convert::{NOTHING, attributes, file_type};
use super::server::FuseFs;

/// The number of entries of one look-up.
const TOGETHER: usize = 128;

/// The bit that marks the inode number reported for a damaged inode; no real number has it (FM13).
const NO_INODE: u64 = 1 << 63;

impl FuseFs {
    /// Adds the entries of `dir` after `cookie` to `reply`, as many as fit. An empty reply ends the directory.
    pub(super) fn list(&self, dir: Ino, cookie: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        let mut add = |entry: &ListedEntry| {
            let (attr, generation, known) = self.entry_attributes(entry);
            reply.add(attr.ino, entry.cookie, OsStr::from_bytes(&entry.name), &known, &attr, generation)
        };
        let dots = self.dots(dir, cookie)?;
        // The kernel takes no reference to these two.
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

    /// Reports the entries of `listed` that still exist until `add` refuses one. Returns true if any still exists. An
    /// entry that was removed since is left out.
    fn tell_held(&self, listed: &[ListedEntry], add: &mut dyn FnMut(&ListedEntry) -> bool) -> bool {
        let mut is_any = false;
        for entry in listed.iter().filter(|entry| entry.attr.is_none() || self.fs.hold(entry.ino).is_ok()) {
            is_any = true;
            if add(entry) {
                if planted!("mount: refused held") {
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

    /// Returns the attributes of `entry` for the kernel, and how long the kernel may cache them.
    fn entry_attributes(&self, entry: &ListedEntry) -> (FileAttr, Generation, Duration) {
        match &entry.attr {
            Some(attr) => (attributes(attr), Generation(attr.generation.into()), self.known(attr)),
            None => {
                let (ino, kind) = (INodeNo(entry.ino.0 | NO_INODE), file_type(entry.kind));
                (FileAttr { ino, kind, ..NOTHING }, Generation(0), Duration::ZERO)
            }
        }
    }

    /// Returns the entries `.` and `..` of `dir` that follow `cookie`.
    fn dots(&self, dir: Ino, cookie: u64) -> Result<Vec<ListedEntry>> {
        let mut dots = Vec::new();
        self.fs.readdir(dir, cookie, &mut |entry| {
            let is_dot = matches!(entry.name, b"." | b"..");
            let DirEntry { name, ino, kind, cookie } = *entry;
            dots.extend(is_dot.then(|| ListedEntry { name: name.to_vec(), cookie, ino, kind, attr: None }));
            is_dot
        })?;
        dots.iter_mut().for_each(|entry| entry.attr = self.fs.getattr(entry.ino).ok());
        Ok(dots)
    }
}
