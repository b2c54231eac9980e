//! `/proc/self/mountinfo`: which file system is mounted where.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Debug)]
pub(super) struct Mount {
    /// The mount's number, which `/proc/self/fdinfo` names too.
    pub id: u64,
    /// The device's number; major 0 if the file system has no device of its own.
    pub device: (u32, u32),
    /// The path that the file system is mounted at.
    pub point: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// The device or other source that was mounted.
    pub source: PathBuf,
    /// The options of the file system and of the mount.
    pub options: Vec<String>,
}

/// Reads the mounts of the machine below `root`, in the kernel's order.
pub(super) fn read(root: &Path) -> Vec<Mount> {
    let table = std::fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Returns the mount that holds `path`. If several have the same mount point, the last one hides the others.
pub(super) fn holder<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.components().count())
}

/// Parses `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [optional fields] - TYPE SOURCE OPTIONS`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let id = text(words.next()?).parse().ok()?;
    let device = text(words.nth(1)?);
    let (major, minor) = device.split_once(':')?;
    let point = path(words.nth(1)?);
    let of_mount = text(words.next()?);
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    let (kind, source) = (text(rest.next()?), path(rest.next()?));
    let options = [of_mount, text(&unescaped(rest.next().unwrap_or_default()))].join(",");
    Some(Mount {
        id,
        device: (major.parse().ok()?, minor.parse().ok()?),
        point,
        kind,
        source,
        options: options.split(',').map(str::to_owned).collect(),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(word: &[u8]) -> PathBuf {
    OsString::from_vec(unescaped(word)).into()
}

/// Returns a word of the kernel's lists of mounts as it was before the kernel wrote a space, a tab, an end of line or a
/// backslash as `\` and three octal digits.
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
