//! `ferrite guest`.

mod guest_arguments;
mod guest_attach;
mod guest_budget;
mod guest_image;
mod guest_rates;
mod guest_run;
mod new_guest;
mod resized_guest;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ferrite_guest::{GuestReport, GuestRequest};
use serde_json::Value;

use super::disk::Serve;
use super::watch::WatchArguments;
use super::{WholePool, cache, print};
use crate::command_pool::{self, CommandPool};
use crate::outcome::Outcome;
use crate::pool_argument::InPool;
use crate::size;

use guest_arguments::GuestArguments;
use guest_attach::GuestAttach;
use guest_budget::{ChangedGuest, GuestBudget, parse_range};
use guest_image::{ExportedGuest, ImportedGuest};
use guest_rates::GuestRates;
use guest_run::GuestRun;
use new_guest::NewGuest;
use resized_guest::ResizedGuest;

/// Virtual persistent memory: guests that are larger than their part of the pool
///
/// A guest's hot pages are in the pool, and all others on its disk. It is used by its name wherever a disk is named:
/// `ferrite disk attach POOL NAME`, `copy`, and `ferrite up`. A completed write survives what the pool survives.
#[derive(Subcommand)]
pub enum Guest {
    /// Make a guest; durable when it returns. Its content is that of the disk
    ///
    /// A disk that does not exist is created as a file. The disk is used through the guest alone from then on.
    Create(NewGuest),
    /// List the guests, without opening any
    List(WholePool),
    /// Show where the pages of a guest are, and what it has done since it was opened
    Stat(GuestStat),
    /// Write all pages that are newer than the disk to it; the disk then is the guest's image. Ctrl-C loses nothing
    Flush(OneGuest),
    /// Serve a guest over NBD until Ctrl-C, as `ferrite disk serve` does. `ferrite disk attach` makes it a /dev node
    Serve(Box<Serve>),
    Set(ChangedGuest),
    Budget(GuestBudget),
    Attach(GuestAttach),
    /// Remove the file of a guest, flush the guest and close it: its memory is for other guests. Any use opens it again
    ///
    /// Refused while a program has the file open or mapped, or another client uses the guest.
    ///
    /// It keeps its memory until a guest in use wants it, and then one chunk of 2M. When a client comes back the guest
    /// gets its minimum again before others get more. Ctrl-C loses nothing.
    Detach(OneGuest),
    Resize(ResizedGuest),
    Export(ExportedGuest),
    Import(ImportedGuest),
    Run(GuestRun),
    Arguments(GuestArguments),
    /// Flush a guest and remove it; refused while a client uses it. The disk keeps the data
    Remove(RemovedGuest),
}

#[derive(Args)]
pub struct GuestName {
    /// The guest
    name: String,
}

#[derive(Args)]
pub struct OneGuest {
    #[command(flatten)]
    guest: InPool<GuestName>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct GuestStat {
    #[command(flatten)]
    guest: InPool<GuestName>,
    #[command(flatten)]
    how: WatchArguments,
}

#[derive(Args)]
pub struct RemovedGuest {
    #[command(flatten)]
    guest: InPool<GuestName, true>,
    /// Write nothing to the disk: the bytes that the pool alone has, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
}

impl Guest {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(new) => new.run(),
            Self::List(WholePool { at, json }) => {
                let guests: Vec<GuestReport> = command_pool::ask(&at.pool.path()?, GuestRequest::List, None)?;
                print(json, &guests, |guests| guests.iter().map(show_guest).collect())
            }
            Self::Stat(stat) => stat.run(),
            Self::Flush(OneGuest { guest: InPool { pool, words: GuestName { name } }, json }) => {
                let guest: GuestReport = command_pool::ask(&pool.path()?, GuestRequest::Flush { name }, None)?;
                print(json, &guest, show_counts)
            }
            Self::Serve(serve) => serve.run(),
            Self::Set(changed) => changed.run(),
            Self::Budget(budget) => budget.run(),
            Self::Attach(attach) => attach.run(),
            Self::Detach(OneGuest { guest: InPool { pool, words: GuestName { name } }, json }) => {
                print(json, &guest_attach::detach(&pool.path()?, name)?, show_guest)
            }
            Self::Resize(resized) => resized.run(),
            Self::Export(exported) => exported.run(),
            Self::Import(imported) => imported.run(),
            Self::Run(program) => program.run(),
            Self::Arguments(arguments) => arguments.run(),
            Self::Remove(RemovedGuest { guest: InPool { pool, words: GuestName { name } }, lose }) => {
                command_pool::ask::<Value>(&pool.path()?, GuestRequest::Remove { name, lose }, None).map(drop)
            }
        }
    }
}

impl GuestStat {
    fn run(self) -> Outcome {
        let Self { guest: InPool { pool, words: GuestName { name } }, how } = self;
        let look = |pool: &mut CommandPool| pool.look(GuestRequest::Stat { name: name.clone() });
        how.print(&pool.path()?, look, show_counts, GuestRates::show)
    }
}

/// Returns the path of the file or device in the address of the disk of `guest`, if it has one.
fn disk_path(guest: &GuestReport) -> Option<PathBuf> {
    let address = cache::member(guest.disk.as_deref()?).ok()?;
    (address.path != Path::new("")).then_some(address.path)
}

/// Returns the line of a guest in a list.
fn show_guest(guest: &GuestReport) -> String {
    let disk = guest.disk.as_deref().unwrap_or("a disk whose address is damaged");
    let why = guest.why.as_ref().map_or_else(String::new, |why| format!("  waits for its disk: {why}\n"));
    let user = guest.pid.map_or_else(String::new, |pid| format!("  mapped by process {pid}\n"));
    let pending = match guest.pending.as_deref() {
        Some("import") => "  an import did not end: `ferrite guest import` it again, or `ferrite guest remove` it\n",
        Some(_) => "  a change of its size did not end: the next opening ends it\n",
        None => "",
    };
    let range = match guest.min_bytes == guest.max_bytes {
        true => String::new(),
        false => {
            let [min, max] = [guest.min_bytes, guest.max_bytes].map(size::show);
            format!(" ({min} to {max}, weight {})", guest.weight)
        }
    };
    format!(
        "{:<20} {}, {} in the pool{range}, on {disk}\n{user}{why}{pending}",
        guest.name,
        size::show(guest.size),
        size::show(guest.pm_bytes)
    )
}

/// Returns the description of a guest.
fn show_counts(guest: &GuestReport) -> String {
    let Some(counts) = guest.counts else { return show_guest(guest) };
    let pages = |count: u64| size::show(count.saturating_mul(4096));
    let state = format!(
        "  in the pool: {} newer than the disk, {} that the disk has too, {} free\n",
        pages(counts.truth_frames),
        pages(counts.copy_frames),
        pages(counts.free_frames)
    );
    let moves = format!(
        "  moved: {} to the pool, {} of it lately dropped, {} to the disk, {} stored to again in time, {} given to other pages\n",
        pages(counts.promoted_pages),
        pages(counts.missed_pages),
        pages(counts.demoted_pages),
        pages(counts.returned_pages),
        pages(counts.reclaimed_pages)
    );
    let disk = format!(
        "  disk: {} read, {} written, {} flushes; {} writes waited for it\n",
        size::show(counts.disk_read_bytes),
        size::show(counts.disk_written_bytes),
        counts.disk_flushes,
        counts.waits
    );
    show_guest(guest) + &state + &moves + &disk
}

#[cfg(test)]
mod tests;
