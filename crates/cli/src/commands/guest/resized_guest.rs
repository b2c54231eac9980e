//! `ferrite guest resize`.

use std::fs::{self, File};
use std::path::PathBuf;

use clap::Args;
use ferrite_guest::{GuestReport, GuestRequest};
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use rustix::fs::{FallocateFlags, fallocate};

use super::{GuestName, disk_path, show_guest};
use crate::command_pool::CommandPool;
use crate::commands::print;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::pool_argument::InPool;
use crate::{size, stop};

/// Change the size of a guest, or how much of the pool it always has; refused while a client uses the guest
///
/// Durable when it returns. A guest that gets smaller, or less of the pool, is flushed first. The file of its disk follows
/// the size; a device has to be long enough. What a guest gains is zeros, or what the device has there. `ferrite guest
/// set` changes the memory in use.
#[derive(Args)]
pub struct ResizedGuest {
    #[command(flatten)]
    guest: InPool<GuestName>,
    /// The bytes of the guest from then on
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// Cut off data: its bytes, as the refusal prints them
    #[arg(long, value_name = "BYTES", value_parser = size::parse, requires = "size")]
    lose: Option<u64>,
    /// The bytes of the pool that hold its pages from then on: a multiple of 2M
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pm: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ResizedGuest {
    /// Changes the guest.
    pub fn run(self) -> Outcome {
        let Self { guest: InPool { pool, words: GuestName { name } }, size, lose, pm, json } = self;
        if size.is_none() && pm.is_none() {
            return Err(Failure::Usage("the new size is missing: --size SIZE or --pm BYTES".into()));
        }
        stop::watch()?;
        let mut command_pool = CommandPool::new(&pool.path()?)?;
        let mut change = || -> Outcome<GuestReport> {
            let mut report = None;
            if let Some(size) = size {
                report = Some(set_size(&mut command_pool, &name, size, lose)?);
            }
            if let Some(pm_bytes) = pm {
                report = Some(command_pool.ask(GuestRequest::Resize { name: name.clone(), pm_bytes }, None)?);
            }
            Ok(report.expect("one of them is named"))
        };
        let changed = change();
        let guest: GuestReport = and_then_cleared(changed, command_pool.close())?;
        print(json, &guest, show_guest)
    }
}

/// Returns the report about the guest called `name`.
fn report(command_pool: &mut CommandPool, name: &str) -> Outcome<GuestReport> {
    let guests: Vec<GuestReport> = command_pool.ask(GuestRequest::List, None)?;
    let guest = guests.into_iter().find(|guest| guest.name == name);
    guest.ok_or_else(|| format!("there is no guest called {name:?}: see `ferrite guest list`").into())
}

/// Changes the bytes of the guest called `name`, and the file of its disk.
fn set_size(command_pool: &mut CommandPool, name: &str, size: u64, lose: Option<u64>) -> Outcome<GuestReport> {
    let before = report(command_pool, name)?;
    let file = SizedFile::of(&before);
    if size > before.size {
        file.iter().try_for_each(|file| file.lengthen(size))?;
    }
    let changed: Outcome<GuestReport> = command_pool.ask(GuestRequest::SetSize { name: name.into(), size, lose }, None);
    // If the change began and did not end, the next opening needs the file as it is.
    let now = changed.as_ref().map_or_else(|_| report(command_pool, name).ok(), |now| Some(now.clone()));
    let is_settled = |now: &GuestReport| changed.is_ok() || now.size == before.size;
    if let (Some(file), Some(now)) = (file, now.filter(is_settled)) {
        file.shorten(now.size)?;
    }
    changed
}

/// The file of a disk that ends behind the guest's stamp.
struct SizedFile(PathBuf);

impl SizedFile {
    /// Returns the file of the disk of `guest`; `None` if it is no file, or has more bytes than the guest needs.
    fn of(guest: &GuestReport) -> Option<Self> {
        let is_exact = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == guest.size + DISK_STAMP_BYTES)
        };
        disk_path(guest).filter(is_exact).map(Self)
    }

    /// Gives the file all the space of a guest of `size` bytes.
    fn lengthen(&self, size: u64) -> Outcome {
        let all = size.saturating_add(DISK_STAMP_BYTES);
        let given = File::options().write(true).open(&self.0).and_then(|file| {
            let before = file.metadata()?.len();
            let given = fallocate(&file, FallocateFlags::empty(), 0, all);
            if given.is_err() {
                file.set_len(before)?;
            }
            Ok(given?)
        });
        Ok(given.map_err(|error| format!("enlarging the disk {}: {error}", self.0.display()))?)
    }

    /// Cuts off what a guest of `size` bytes does not need.
    fn shorten(&self, size: u64) -> Outcome {
        let needs = size + DISK_STAMP_BYTES;
        let cut = File::options().write(true).open(&self.0).and_then(|file| match file.metadata()?.len() > needs {
            true => file.set_len(needs),
            false => Ok(()),
        });
        Ok(cut.map_err(|error| format!("shortening the disk {}: {error}", self.0.display()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::usual;
    use super::*;

    /// A file that ends behind the stamp follows the guest, and another one stays as it is.
    #[test]
    fn the_file_of_a_disk_follows_the_size_of_its_guest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let len = || fs::metadata(&path).expect("there").len();
        let guest = GuestReport { size: 8192, disk: Some(path.display().to_string()), ..usual() };
        fs::write(&path, [1; 16384]).expect("written");
        let file = SizedFile::of(&guest).expect("it ends behind the stamp");
        file.lengthen(65536).expect("there is space");
        assert_eq!(len(), 73728);
        file.shorten(65536).expect("nothing to do");
        assert_eq!(len(), 73728);
        file.shorten(4096).expect("cut");
        assert_eq!(len(), 12288);
        assert!(file.lengthen(u64::MAX).is_err() && len() == 12288);
        assert!(SizedFile::of(&guest).is_none(), "it has another length");
        assert!(SizedFile::of(&GuestReport { disk: None, ..guest }).is_none());
    }
}
