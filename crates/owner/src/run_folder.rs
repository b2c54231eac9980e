//! Folders that only their user may enter, such as `/run/ferrite`.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ferrite_memory::process::effective_user;

/// The folder of root's running programs: sockets, locks, mount points.
pub const RUN_FOLDER: &str = "/run/ferrite";

const PRIVATE: u32 = 0o700;
/// Mode bits of other users.
const OTHERS: u32 = 0o077;

/// Makes the folder at `path` with mode 0700 if it does not exist. An existing folder has to belong to this user, and gets
/// that mode.
///
/// # Errors
/// `PermissionDenied` for another user's folder or a symbolic link; else the error of the system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let folder = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY).open(path)?;
    let found = folder.metadata()?;
    if found.uid() != effective_user() {
        return Err(not_ours(path, found.uid()));
    }
    if found.mode() & OTHERS != 0 {
        folder.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

/// Opens the folder at `path`, which is this user's or root's.
///
/// # Errors
/// As [`make_folder`].
pub(super) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let owner = folder.metadata()?.uid();
    if [effective_user(), 0].contains(&owner) { Ok(folder) } else { Err(not_ours(path, owner)) }
}

fn not_ours(path: &Path, owner: u32) -> io::Error {
    let text =
        format!("{} belongs to user {owner}, and what is in there to whom that user likes: remove it", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests;
