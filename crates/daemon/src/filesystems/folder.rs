//! The folder that is mounted on. While nothing is mounted there its user cannot write to it: a file would land beneath the
//! mount, where it is hidden later. (Root can, as everywhere.)

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use crate::mounts;

/// Rights of a folder that Ferrite makes to mount on.
const SHUT: u32 = 0o500;
/// Rights of such a folder while it is mounted on: fusermount3 asks for the right to write.
const OPEN: u32 = 0o700;

/// Makes the folder to mount on if it is missing. Unmounts a dead mount of a killed server first.
pub(super) fn make(point: &Path) -> Result<(), String> {
    let cleared = mounts::clear(point);
    cleared.map_err(|error| format!("mounting on {}: {error}", point.display()))?;
    let made =
        point.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| DirBuilder::new().mode(SHUT).create(point));
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && point.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(mounts::hindrance_at(point)
            .unwrap_or_else(|| format!("{} is not a folder: name one to mount on", point.display()))),
        made => made.map_err(|error| format!("making {}: {error}", point.display())),
    }
}

/// A folder that its user can write to until this is dropped, if it was shut.
pub(super) struct OpenedFolder(Option<File>);

/// Makes the folder at `point` writable for `user` to mount on, if [`make`] made it; root needs no such right. Touches
/// no file system that is mounted there now or later: its server may not answer.
pub(super) fn open_to_mount(point: &Path, user: u32) -> io::Result<OpenedFolder> {
    if user == 0 || mounts::file_system_on(point).is_some() {
        return Ok(OpenedFolder(None));
    }
    let folder = File::open(point)?;
    let is_shut = folder.metadata()?.permissions().mode() & 0o777 == SHUT;
    if is_shut {
        folder.set_permissions(Permissions::from_mode(OPEN))?;
    }
    Ok(OpenedFolder(is_shut.then_some(folder)))
}

impl Drop for OpenedFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // A folder that cannot be shut is like one that the user has made.
            let _ = folder.set_permissions(Permissions::from_mode(SHUT));
        }
    }
}

#[cfg(test)]
mod tests;
