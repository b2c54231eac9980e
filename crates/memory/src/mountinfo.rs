//! The kernel's lists of mounts: `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of the list: a mounted file system.
#[derive(Debug)]
pub struct MountLine {
    /// The mount's number, which `/proc/self/fdinfo` names too.
    pub id: u64,
    /// The number of the mount on which it is mounted.
    pub parent: u64,
    /// Major number of the device; 0 if the file system has no device of its own.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// The folder of the file system that is visible at the mount point.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// The options of the mount.
    pub options: Vec<String>,
    /// The peer groups of mount propagation: `shared:N` for members, `master:N` for mounts that only receive.
    pub groups: Vec<String>,
    /// The type of the file system, such as `ext4` or `fuse.ferrite`.
    pub kind: String,
    /// The device or other source, as the mounting program named it.
    pub source: PathBuf,
    /// The options of the file system.
    pub fs_options: Vec<String>,
}

impl MountLine {
    /// Parses `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [groups] - TYPE SOURCE OPTIONS`. Returns `None` for another line.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let id = text(words.next()?).parse().ok()?;
        let parent = text(words.next()?).parse().ok()?;
        let device = text(words.next()?);
        let (major, minor) = device.split_once(':')?;
        let (root, point, options) = (path(words.next()?), path(words.next()?), list(words.next()?));
        let mut is_over = false;
        let groups = words.by_ref().take_while(|word| {
            is_over = *word == b"-";
            !is_over
        });
        let groups = groups.map(text).collect();
        let (kind, source) = (text(words.next()?), path(words.next()?));
        let fs_options = list(&unescaped(words.next().unwrap_or_default()));
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        is_over.then_some(Self { id, parent, major, minor, root, point, options, groups, kind, source, fs_options })
    }

    /// Returns the device number in the form of stat(2).
    pub fn device(&self) -> u64 {
        libc::makedev(self.major, self.minor)
    }

    /// Returns the options of the mount, then the options of the file system.
    pub fn all_options(&self) -> impl Iterator<Item = &str> {
        self.options.iter().chain(&self.fs_options).map(String::as_str)
    }
}

/// Reads the mounts of the machine below `root`, in the kernel's order.
pub(crate) fn read(root: &Path) -> Vec<MountLine> {
    let table = std::fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter_map(MountLine::parse).collect()
}

/// Returns the mount that holds `path`. If several have the same mount point, the last one hides the others.
pub(crate) fn holder<'m>(mounts: &'m [MountLine], path: &Path) -> Option<&'m MountLine> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.components().count())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn list(word: &[u8]) -> Vec<String> {
    text(word).split(',').map(str::to_owned).collect()
}

fn path(word: &[u8]) -> PathBuf {
    OsString::from_vec(unescaped(word)).into()
}

/// Undoes the escapes of a word in the kernel's lists of mounts: a space, a tab, an end of line and a backslash stand
/// there as `\` and three octal digits.
pub fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::with_capacity(word.len()), 0);
    while at < word.len() {
        let digits = word.get(at + 1..at + 4).filter(|_| word[at] == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(word[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    bytes
}

#[cfg(test)]
mod tests;
