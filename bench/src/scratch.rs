//! A folder that is gone when the experiment is.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

const PREFIX: &str = "ferrite-bench-";

/// A folder of this process, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder in `place`. What killed experiments left there is removed first.
    pub fn new(place: &Path) -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        clear(place);
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = place.join(name);
        fs::create_dir(&path).map_err(Error::io(format!("making {}", path.display())))?;
        Ok(Self(path))
    }

    /// The path of `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new file of `len` bytes in it, sparse.
    pub fn file(&self, name: &str, len: u64) -> Result<fs::File> {
        let path = self.path(name);
        let made = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let made = made.and_then(|file| file.set_len(len).map(|()| file));
        made.map_err(Error::io(format!("making {} of {len} bytes", path.display())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nobody to tell; the next experiment tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn clear(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that nobody uses is missing to everybody until the next boot.
    #[test]
    fn nothing_is_left_behind_by_the_dropped_or_the_killed() {
        let place = tempfile::tempdir().expect("a folder");
        let killed = place.path().join(format!("{PREFIX}999999999-0"));
        fs::create_dir(&killed).expect("made");
        let scratch = Scratch::new(place.path()).expect("made");
        scratch.file("x", 100).expect("made");
        assert!(!killed.exists() && scratch.path("x").exists());
        drop(scratch);
        assert_eq!(fs::read_dir(place.path()).expect("there").count(), 0);
    }
}
