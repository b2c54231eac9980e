//! Images in files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufReader, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferrite_medium::{Error as MediumError, Memory};

use super::{Restore, Summary, backup, restore, verify};
use crate::owner::Progress;
use crate::{Error, Pool, Result};

/// Writes an image of `pool` to the file `path`, durable on return. It is written as `path.partial`, read back, synced
/// and renamed, so an older image there stays whole until the new one has its name (BK2). What is there and no file is left alone.
pub fn backup_to(
    pool: &Pool,
    path: &Path,
    image: [u8; 16],
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Summary> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(Error::Limit(format!("{} is no file: a backup would take its place; name a file", path.display())));
    }
    let partial = partial_path(path);
    let mut file = open_partial(&partial)?;
    let written = write(pool, &mut file, image, watch).and_then(|summary| {
        fs::rename(&partial, path).map_err(|error| told("renaming", &partial, error))?;
        settle_directory(path)?;
        Ok(summary)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Restores the image in the file `path` into `memory`, after all of it has verified.
pub fn restore_from(
    path: &Path,
    memory: &dyn Memory,
    options: Restore,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Summary> {
    let mut file = File::open(path).map_err(|error| told("opening", path, error))?;
    verify(&mut BufReader::new(&file), watch)?;
    file.rewind().map_err(|error| told("reading", path, error))?;
    restore(&mut BufReader::new(&file), memory, options, watch)
}

fn write(pool: &Pool, file: &mut File, image: [u8; 16], watch: &mut dyn FnMut(Progress) -> bool) -> Result<Summary> {
    let summary = backup(pool, file, image, watch)?;
    file.sync_all().map_err(|error| MediumError::io("syncing the backup image", error))?;
    file.rewind().map_err(|error| MediumError::io("reading back the backup image", error))?;
    let found = verify(&mut BufReader::new(file), watch)?;
    if found != summary {
        return Err(Error::BadImage { what: "what was read back, which is another image,".into(), at: 0 });
    }
    Ok(summary)
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Opens the file to write to, alone. Whoever had it before may have renamed it between the opening and the lock: then
/// it is the good image now, and is not touched.
fn open_partial(partial: &Path) -> Result<File> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(partial);
        let file = file.map_err(|error| told("making", partial, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy(format!("another backup is writing {}: wait for it", partial.display())));
            }
            Err(TryLockError::Error(error)) => return Err(told("locking", partial, error)),
        }
        if is_at(&file, partial) {
            file.set_len(0).map_err(|error| told("emptying", partial, error))?;
            return Ok(file);
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata(), fs::metadata(path)), (Ok(ours), Ok(there)) if place(&ours) == place(&there))
}

fn settle_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let settled = File::open(directory).and_then(|directory| directory.sync_all());
    settled.map_err(|error| told("syncing", directory, error))
}

fn told(what: &str, path: &Path, error: std::io::Error) -> Error {
    MediumError::io(format!("{what} {}", path.display()), error).into()
}
