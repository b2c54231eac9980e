//! Folders that are removed with the experiment.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Span};

use crate::{Error, Result};

const PREFIX: &str = "ferrite-bench-";

/// A folder of this process, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder in `place`. Folders of killed experiments are removed first.
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

    /// The path of the folder `name` in it, which is made if it does not exist.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(Error::io(format!("making {}", path.display())))?;
        Ok(path)
    }

    /// A mapping under `guard` of a new file of `bytes` in it, with every page touched, because the first touch of a page
    /// costs more than a hundred stores to it.
    pub fn mapped(&self, name: &str, bytes: u64, guard: Guard) -> Result<Mapped> {
        let options = MapOptions { guard, name: self.path(name).display().to_string(), ..MapOptions::default() };
        touched(Mapped::map(self.file(name, bytes)?, &options)?)
    }

    /// A new file of `len` bytes in it, sparse.
    pub fn file(&self, name: &str, len: u64) -> Result<fs::File> {
        let path = self.path(name);
        let made = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let made = made.and_then(|file| file.set_len(len).map(|()| file));
        made.map_err(Error::io(format!("making {} of {len} bytes", path.display())))
    }

    /// The path of a new file of `len` bytes in it, all of them written.
    pub fn filled(&self, name: &str, len: u64) -> Result<PathBuf> {
        let mut file = self.file(name, len)?;
        let block = vec![0; 1 << 20];
        let written = (0..len).step_by(block.len()).try_for_each(|at| {
            let part = (len - at).min(block.len() as u64) as usize;
            file.write_all(&block[..part])
        });
        written.and_then(|()| file.sync_all()).map_err(Error::io(format!("filling {name}")))?;
        Ok(self.path(name))
    }
}

/// `memory` with every page reserved and touched.
pub fn touched(memory: Mapped) -> Result<Mapped> {
    let all = Span::new(0, memory.size());
    memory.reserve(all)?;
    memory.populate(all)?;
    Ok(memory)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the next experiment tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn clear(place: &Path) {
    of_killed(place, PREFIX).for_each(|folder| drop(fs::remove_dir_all(folder)));
}

/// The folders of killed experiments in `place`. Their names are `prefix`, the number of a process, and another number.
pub fn of_killed<'a>(place: &Path, prefix: &'a str) -> impl Iterator<Item = PathBuf> + use<'a> {
    let is_of_killed = move |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        let pid = name.and_then(|name| name.strip_prefix(prefix)?.split('-').next());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_of_killed)
}

#[cfg(test)]
mod tests;
