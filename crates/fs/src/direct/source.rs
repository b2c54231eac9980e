//! What the kernel's list of mounts says of a mounted file system: which pool, and which file system in it.

use std::path::{Path, PathBuf};

/// The source of a mount of the file system called `name` in the pool at `pool`, an absolute path.
pub fn mount_source(pool: &Path, name: &str) -> String {
    let name = name.replace('%', "%25").replace(':', "%3A");
    format!("{}:{name}", pool.display())
}

/// The pool and the file system that a [source](mount_source) tells of.
pub fn read_mount_source(source: &str) -> Option<(PathBuf, String)> {
    let (pool, name) = source.rsplit_once(':')?;
    pool.starts_with('/').then(|| (pool.into(), name.replace("%3A", ":").replace("%25", "%")))
}

/// A word of that list, in which blanks and the like are three octal digits.
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
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_was_written() {
        for (pool, name) in [("/a/pool", "files"), ("/a:b/p:1", "x:y%3A%"), ("/p", "%25"), ("/p", "ä b")] {
            let source = mount_source(Path::new(pool), name);
            assert_eq!(read_mount_source(&source), Some((pool.into(), name.into())), "{source}");
        }
        assert_eq!(read_mount_source("ferrite"), None);
    }
}
