//! Paths of files whose inodes are known.

use std::collections::{BTreeMap, BTreeSet};

use super::{TreeLayer, lookup};
use crate::{FileKind, Ino};

/// Directories that are looked at, at most: a damaged tree may have circles.
const DIRECTORIES_MAX: usize = 1 << 20;

/// Returns a path of each of `wanted` that has a name. Reads all directories; those that are damaged are passed over.
pub(crate) fn find_paths(tree: &TreeLayer, wanted: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let (mut found, mut waiting, mut seen) = (BTreeMap::new(), vec![(Ino::ROOT, String::new())], 0);
    while let Some((dir, path)) = waiting.pop()
        && seen < DIRECTORIES_MAX
        && found.len() < wanted.len()
    {
        seen += 1;
        let _ = lookup::readdir(tree, dir, 0, &mut |entry| {
            if matches!(entry.name, b"." | b"..") {
                return true;
            }
            let path = format!("{path}/{}", String::from_utf8_lossy(entry.name));
            match entry.kind {
                FileKind::Directory => waiting.push((entry.ino, path)),
                _ if wanted.contains(&entry.ino.0) => _ = found.insert(entry.ino.0, path),
                _ => {}
            }
            true
        });
    }
    found
}
