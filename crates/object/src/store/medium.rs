//! What a store lies in.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use ferrite_medium::{Error as MediumError, Guard, MapOptions, Mapped};
use ferrite_pool::owner::Lock;

use crate::Result;

/// Maps the file that `lock` holds.
pub(super) fn map(lock: &Lock, guard: Option<Guard>) -> Result<Arc<Mapped>> {
    let (guard, name) = (guard.unwrap_or_else(Guard::best), lock.path().display().to_string());
    let file = lock.file().try_clone().map_err(|error| MediumError::io(format!("opening {name}"), error))?;
    Ok(Arc::new(Mapped::map(file, &MapOptions { guard, name, ..MapOptions::default() })?))
}

/// This boot of the machine.
pub(super) fn boot_id() -> Result<[u8; 16]> {
    let path = "/proc/sys/kernel/random/boot_id";
    let read = fs::read_to_string(path).and_then(|text| {
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).map_err(|_| io::Error::other("it holds no UUID"))
    });
    let number = read.map_err(|error| MediumError::io(format!("reading {path}"), error))?;
    Ok(number.to_be_bytes())
}

/// Makes the name of the file at `path` durable: without it a power failure may take the file with all that is in it.
pub(super) fn settle_name(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let settled = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(settled.map_err(|error| MediumError::io(format!("syncing {}", folder.display()), error))?)
}
