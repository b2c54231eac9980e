//! `ferrite guest export` and `ferrite guest import`.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_guest::{GuestImageReport, GuestReport, GuestRequest};
use ferrite_pool::AtomicFile;

use super::disk_path;
use crate::command_pool::CommandPool;
use crate::commands::print;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::pool_argument::InPool;
use crate::{size, stop};

#[derive(Args)]
pub struct GuestFile {
    /// The guest
    name: String,
    /// The file
    file: PathBuf,
}

/// Write the content of a guest to a file, as it is at one moment; durable when it returns
///
/// The file appears whole or not at all, and has holes where the guest has zeros. The guest may be in use in the pool's
/// owner: its clients wait to write until the export ends. The file must not lie on a file system in the guest itself.
#[derive(Args)]
pub struct ExportedGuest {
    #[command(flatten)]
    at: InPool<GuestFile>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replace the content of a guest by a file; durable when it returns, refused while a client uses the guest
///
/// The file has at most the guest's bytes, and the rest of the guest becomes zeros. If the import does not end, the
/// guest is refused until another import has ended.
#[derive(Args)]
pub struct ImportedGuest {
    #[command(flatten)]
    at: InPool<GuestFile, true>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExportedGuest {
    /// Writes the file.
    pub fn run(self) -> Outcome {
        let Self { at: InPool { pool, words: GuestFile { name, file } }, force, json } = self;
        if file == Path::new("-") {
            let why = "an export is a file that appears whole or not at all: name one, `./-` if it is to be called so";
            return Err(Failure::Usage(why.into()));
        }
        stop::watch()?;
        let mut command_pool = CommandPool::new(&pool.path()?)?;
        let exported = export(&mut command_pool, name, &file, force);
        print_copied(json, and_then_cleared(exported, command_pool.close())?)
    }
}

impl ImportedGuest {
    /// Replaces the content.
    pub fn run(self) -> Outcome {
        let Self { at: InPool { pool, words: GuestFile { name, file } }, json } = self;
        let found = fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        if !found.is_file() {
            return Err(format!("{} is not a plain file: `ferrite disk copy` copies a device", file.display()).into());
        }
        stop::watch()?;
        let mut command_pool = CommandPool::new(&pool.path()?)?;
        let imported = import(&mut command_pool, name, &file);
        print_copied(json, and_then_cleared(imported, command_pool.close())?)
    }
}

fn export(command_pool: &mut CommandPool, name: String, file: &Path, force: bool) -> Outcome<GuestImageReport> {
    ensure_no_disk(&command_pool.ask::<Vec<GuestReport>>(GuestRequest::List, None)?, file)?;
    if !force && file.symlink_metadata().is_ok() {
        return Err(format!("{} exists: name another file, or --force replaces it", file.display()).into());
    }
    let mut to = AtomicFile::begin(file)?;
    let report = command_pool.ask(GuestRequest::Export { name }, [to.file().as_fd()])?;
    to.finish()?;
    Ok(report)
}

fn import(command_pool: &mut CommandPool, name: String, file: &Path) -> Outcome<GuestImageReport> {
    ensure_no_disk(&command_pool.ask::<Vec<GuestReport>>(GuestRequest::List, None)?, file)?;
    let from = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    command_pool.ask(GuestRequest::Import { name }, [from.as_fd()])
}

/// Refuses a file that is the disk of one of `guests`.
fn ensure_no_disk(guests: &[GuestReport], file: &Path) -> Outcome {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let named = identity(file);
    let is_disk =
        |guest: &&GuestReport| named.is_some() && disk_path(guest).is_some_and(|path| identity(&path) == named);
    match guests.iter().find(is_disk) {
        Some(guest) => {
            Err(format!("{} is the disk of the guest {:?}: name another file", file.display(), guest.name).into())
        }
        None => Ok(()),
    }
}

fn print_copied(json: bool, report: GuestImageReport) -> Outcome {
    print(json, &report, |GuestImageReport { name, size_bytes, copied_bytes, zeroed_bytes }| {
        let [all, copied, zeros] = [*size_bytes, *copied_bytes, *zeroed_bytes].map(size::show);
        format!("{name:<20} {all}: {copied} copied, {zeros} zeros, durable\n")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::usual;
    use super::*;

    #[test]
    fn the_disk_of_a_guest_is_no_file_for_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let [disk, other, link] = ["disk", "other", "link"].map(|name| folder.path().join(name));
        [&disk, &other].iter().for_each(|path| fs::write(path, [1; 512]).expect("written"));
        fs::hard_link(&disk, &link).expect("linked");
        let guests = [GuestReport { disk: Some(disk.display().to_string()), ..usual() }];
        for path in [&disk, &link] {
            let refused = ensure_no_disk(&guests, path).expect_err("refused");
            assert!(refused.text().contains("is the disk of the guest \"g\""), "{}", refused.text());
        }
        assert!(ensure_no_disk(&guests, &other).is_ok());
        assert!(ensure_no_disk(&guests, &folder.path().join("none")).is_ok());
    }
}
