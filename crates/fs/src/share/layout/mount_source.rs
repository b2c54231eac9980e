//! What the kernel's list of mounts says of a mounted file system: which pool, and which file system in it.

use std::path::{Path, PathBuf};

/// The source of a mount of the file system called `name` in the pool at `pool`, an absolute path.
pub fn mount_source(pool: &Path, name: &str) -> String {
    let name = name.replace('%', "%25").replace(':', "%3A");
    format!("{}:{name}", pool.display())
}

/// Returns the pool and the file system of a [source](mount_source).
pub fn read_mount_source(source: &str) -> Option<(PathBuf, String)> {
    let (pool, name) = source.rsplit_once(':')?;
    pool.starts_with('/').then(|| (pool.into(), name.replace("%3A", ":").replace("%25", "%")))
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
