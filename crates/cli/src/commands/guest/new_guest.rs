//! `ferrite guest create`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use clap::Args;
use ferrite_cache::MemberAddress;
use ferrite_guest::{GuestDiskPlace, GuestReport, GuestRequest, PmRange};
use ferrite_owner::paths::quoted;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

use super::{GuestName, parse_range, show_guest};
use crate::command_pool;
use crate::commands::{cache, print};
use crate::host::remove_unwritten;
use crate::outcome::Outcome;
use crate::pool_argument::InPool;
use crate::size;

#[derive(Args)]
pub struct NewGuest {
    #[command(flatten)]
    guest: InPool<GuestName, true>,
    /// The bytes of the guest
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    /// The disk, 8 KiB larger than the guest: a file, a block device or an NBD export. Its content becomes the guest's
    #[arg(long, value_name = "DISK", value_parser = cache::member)]
    disk: MemberAddress,
    /// Its memory in the pool, least in use and most: 64M..1G, or one size for both [default: 2M to the guest's size]
    ///
    /// Multiples of 2M. Between the two guests share the pool's memory: see `ferrite guest budget`.
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_range)]
    pm: Option<PmRange>,
    /// Its weight beside other guests that want memory: 1 to 10000 [default: 100]
    #[arg(long, value_name = "WEIGHT", value_parser = size::whole::<u32>)]
    weight: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl NewGuest {
    /// Makes the guest.
    pub fn run(self) -> Outcome {
        let Self { guest: InPool { pool, words: GuestName { name } }, size, disk, pm, weight, json } = self;
        let pool = pool.path()?;
        let file = DiskFile::prepare(&disk.path, size)?;
        let MemberAddress { address, path } = disk;
        let disk = GuestDiskPlace { address, path: path.clone() };
        let request = GuestRequest::Create { name, size, pm, weight, disk };
        let made: Outcome<GuestReport> = command_pool::ask(&pool, request, None);
        let made = made.inspect_err(|_| file.undo(&path, size))?;
        print(json, &made, |made| {
            let serve = format!("  `ferrite guest serve {} {}` serves it\n", quoted(&pool), quoted(made.name.as_ref()));
            show_guest(made) + &serve
        })
    }
}

/// The change of the file of a disk before the guest is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskFile {
    /// The file did not exist.
    Created,
    /// The file had the guest's bytes, and no space for the stamp.
    Lengthened,
    /// None.
    AsItWas,
}

impl DiskFile {
    /// Creates the file at `path` with all its space for a guest of `size` bytes, or gives one of that size space for
    /// the stamp.
    fn prepare(path: &Path, size: u64) -> Outcome<Self> {
        if path.as_os_str().is_empty() {
            return Ok(Self::AsItWas);
        }
        let failed = |error: &dyn std::fmt::Display| format!("making the disk {}: {error}", path.display());
        let all = size.saturating_add(DISK_STAMP_BYTES);
        match File::options().read(true).write(true).create_new(true).open(path) {
            Ok(file) => {
                let given = fallocate(&file, FallocateFlags::empty(), 0, all).map_err(|error| failed(&error));
                if let Err(why) = given {
                    Self::Created.undo(path, size);
                    return Err(why.into());
                }
                Ok(Self::Created)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let found = fs::metadata(path).map_err(|error| failed(&error))?;
                if !found.is_file() || found.len() != size {
                    return Ok(Self::AsItWas);
                }
                let file = File::options().write(true).open(path).map_err(|error| failed(&error))?;
                file.set_len(all).map_err(|error| failed(&error))?;
                Ok(Self::Lengthened)
            }
            Err(error) => Err(failed(&error).into()),
        }
    }

    /// Undoes the change, as far as it goes, after the guest was refused.
    fn undo(self, path: &Path, size: u64) {
        match self {
            Self::Created => remove_unwritten(path),
            Self::Lengthened => {
                let file = File::options().write(true).open(path);
                // A stamp is there if the guest was made and the reply did not arrive.
                let _ = file.map(|file| seek(&file, SeekFrom::Data(size)).is_err().then(|| file.set_len(size)));
            }
            Self::AsItWas => {}
        }
    }
}

#[cfg(test)]
mod tests;
