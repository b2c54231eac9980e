//! The log of a server that has no terminal.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::host;

/// The length of the longest log name, in bytes.
const NAME_MAX_BYTES: usize = 200;

/// Returns the log's path for the server of the pool at `pool`. The log lies in the user's state folder, where no other
/// user can put a file.
pub fn path(pool: &Path) -> Result<PathBuf, String> {
    let folder = host::state_folder()?.join("ferrite");
    let name = pool.to_string_lossy();
    let plain = name.trim_start_matches('/').chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let name: String = plain.collect();
    let cut = name.len().saturating_sub(NAME_MAX_BYTES);
    Ok(folder.join(format!("{}.log", &name[cut..])))
}

/// Opens the log at `path` to append to it, for its user alone, and makes its folder.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    File::options().append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Returns the file that receives the standard error of process `pid`, if it is a file.
pub fn of(pid: u32) -> Option<PathBuf> {
    let link = format!("/proc/{pid}/fd/2");
    let is_file = fs::metadata(&link).is_ok_and(|found| found.is_file());
    fs::read_link(link).ok().filter(|_| is_file)
}

#[cfg(test)]
mod tests;
