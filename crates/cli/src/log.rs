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
mod tests {
    use super::*;

    #[test]
    fn a_log_is_its_users_alone_and_is_appended_to() {
        use std::io::Write;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("new/a.log");
        for line in ["one\n", "two\n"] {
            open(&at).expect("opened").write_all(line.as_bytes()).expect("written");
        }
        assert_eq!(fs::read_to_string(&at).expect("text"), "one\ntwo\n");
        assert_eq!(fs::metadata(&at).expect("there").permissions().mode() & 0o077, 0);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&at, &link).expect("linked");
        open(&link).expect_err("a link is not followed");
    }
}
