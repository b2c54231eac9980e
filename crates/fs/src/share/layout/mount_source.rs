//! The source of a mount in the kernel's list: the pool, and the file system in it.

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
mod tests;
