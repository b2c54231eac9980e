//! `ferrite disk copy|export`: any disk, by its address.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ferrite_disk::{Access, Disk, FaultPlan, Zeroing};
use ferrite_disk_address::{ADDRESS_FORMS, AGED_DRIVE_GRAMMAR, DiskAddress, DiskPlace};
use ferrite_memory::{Error, Span};
use ferrite_nbd::client::unix_uri;
use ferrite_nbd::{Exports, Options, Refusal, Server};
use ferrite_pool::Progress;
use serde::Serialize;

use super::announce::{AnnouncedDisk, Announcement};
use super::print;
use crate::bar::Bar;
use crate::command_pool;
use crate::host::absolute;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::size;
use crate::source::{Opening, Source, check_fit};
use crate::stop::{self, Stop};
use crate::traced::Traced;

/// The size of one copied piece in bytes.
const PIECE: u64 = 1 << 20;

fn addresses() -> String {
    format!("A disk's address is {ADDRESS_FORMS}.")
}

fn addresses_and_grammars() -> String {
    format!(
        "{}\n\nThe settings of ssd-NAME@SETTINGS: are\n{AGED_DRIVE_GRAMMAR}\n\nA plan of fault:PLAN: is\n{}",
        addresses(),
        FaultPlan::GRAMMAR
    )
}

#[derive(Args)]
#[command(after_help = addresses(), after_long_help = addresses_and_grammars())]
pub struct Copy {
    /// The disk to copy from, or an address. A qcow2, VMDK or VHDX image is copied as the disk that it holds (qemu-nbd
    /// reads it)
    #[arg(value_parser = DiskAddress::parse)]
    from: DiskAddress,
    /// The disk to copy to, which may be larger; what it holds is lost. A disk of a pool that is not there is made, and
    /// a file, for its user alone. A disk in a pool is refused while its node is mounted or open, and a device while it
    /// is mounted
    #[arg(value_parser = DiskAddress::parse)]
    to: DiskAddress,
    /// Copy the bytes of an image file as they are
    #[arg(long)]
    raw: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = addresses(), after_long_help = addresses_and_grammars())]
pub struct Export {
    /// The disk, by its address
    #[arg(value_parser = DiskAddress::parse)]
    from: DiskAddress,
    /// The socket to serve it on over NBD
    #[arg(long)]
    unix: PathBuf,
    /// Write down each request, with its time, as fio's iolog (version 3), for `sim ftl --trace` and `fio
    /// --read_iolog`. The file appears at the end; a pipe gets requests as they come. An iolog has no word for a
    /// zeroing, which is a write in there: a simulated flash drive (ftl-page:) trims the pages that are zeroed whole,
    /// and its trace writes them
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Print JSON: one line, when it is served
    #[arg(long)]
    json: bool,
}

/// The result of a copy.
#[derive(Serialize)]
struct Copied {
    /// Bytes of the disk.
    size_bytes: u64,
    /// Bytes that were copied.
    copied_bytes: u64,
    /// Bytes that read as zeros and were zeroed.
    zeroed_bytes: u64,
}

impl Copy {
    /// Runs the copy. All copied data is durable on return.
    pub fn run(self) -> Outcome {
        stop::watch()?;
        if self.from.place.is_same(&self.to.place) {
            return Err(Failure::Usage(format!("{} is {} itself: name two disks", self.to, self.from)));
        }
        let from = Source::open(&self.from, Opening { read_only: true, images: !self.raw, ..Opening::default() })?;
        let copied = self.copy_from(&from);
        let copied = and_then_cleared(copied, from.close())?;
        print(self.json, &copied, |it| {
            let (all, copied, zeroed) = (it.size_bytes, it.copied_bytes, it.zeroed_bytes);
            format!("{}: {} copied, {} zeroed, durable\n", size::show(all), size::show(copied), size::show(zeroed))
        })
    }
}

impl Copy {
    fn copy_from(&self, from: &Source) -> Outcome<Copied> {
        let size = from.disk.geometry().size;
        let opening = Opening { overwrite: true, make_bytes: Some(size), beside: Some(from), ..Opening::default() };
        let to = Source::open(&self.to, opening)?;
        let writable = match to.disk.geometry().read_only {
            true => Err(format!(
                "{} is read-only: its server refuses writes (as Ferrite does while the disk's node is mounted)",
                self.to
            )
            .into()),
            false => Ok(()),
        };
        let copied = writable
            .and_then(|()| check_fit(size, to.disk.geometry().size))
            .and_then(|()| copy(&*from.disk, &*to.disk, size));
        let closed = if copied.is_ok() { to.close() } else { to.discard(Some(from)) };
        and_then_cleared(copied, closed)
    }
}

fn copy(from: &dyn Disk, to: &dyn Disk, size: u64) -> Outcome<Copied> {
    let bar = Bar::new();
    let mut copied = Copied { size_bytes: size, copied_bytes: 0, zeroed_bytes: 0 };
    let mut buffer = vec![0; PIECE as usize];
    let mut at = 0;
    while at < size {
        for run in from.extents(Span::new(at, (size - at).min(64 * PIECE)))? {
            let mut left = Span::new(at, run.len);
            while left.len > 0 {
                let piece = Span::new(left.at, left.len.min(PIECE));
                let bytes = &mut buffer[..piece.len as usize];
                if !run.zero {
                    from.read(piece.at, bytes)?;
                }
                if run.zero || bytes.iter().all(|byte| *byte == 0) {
                    zero(to, piece)?;
                    copied.zeroed_bytes += piece.len;
                } else {
                    to.write(piece.at, bytes, Access::Cached)?;
                    copied.copied_bytes += piece.len;
                }
                left = Span::new(left.at + piece.len, left.len - piece.len);
                if !bar.show(&Progress { done: left.at, total: size, what: "copying".into() }) {
                    return Err("stopped before its end: run it again".into());
                }
            }
            at += run.len;
        }
    }
    to.flush()?;
    Ok(copied)
}

/// Writes zeros, by the disk's zeroing if it has one.
fn zero(to: &dyn Disk, span: Span) -> Outcome {
    match to.write_zeroes(span, Zeroing { fast: true, ..Zeroing::default() }) {
        Err(Error::Unsupported(_)) => Ok(to.write_zeroes(span, Zeroing::default())?),
        other => Ok(other?),
    }
}

impl Export {
    /// Serves the disk until Ctrl-C. If the server behind it never answers an open or a flush, a second Ctrl-C ends the
    /// wait.
    pub fn run(self) -> Outcome {
        let stop = Stop::once()?;
        if self.trace.as_ref().is_some_and(|trace| self.from.place.is_same(&DiskPlace::File(trace.clone()))) {
            return Err(Failure::Usage(format!("--trace names {} itself: name another file", self.from)));
        }
        let mut source = Source::open(&self.from, Opening { read_only: self.read_only, ..Opening::default() })?;
        let served = self.serve(&mut source, &stop);
        and_then_cleared(served, source.end(&stop))
    }

    fn serve(&self, source: &mut Source, stop: &Stop) -> Outcome {
        let traced = self.trace.as_deref().map(|to| Traced::begin(&source.disk, to)).transpose()?;
        let only = Arc::new(Only(traced.as_ref().map_or_else(|| Arc::clone(&source.disk), Traced::disk)));
        let unix = absolute(&self.unix)?;
        let listening = Server::new(only, Options::default()).listen_unix(&unix)?;
        source.listen()?;
        let disk = AnnouncedDisk { name: self.from.to_string(), uris: vec![unix_uri("", &unix)], ..Default::default() };
        let pool = source.pool()?;
        pool.iter().for_each(command_pool::tell_survival);
        let all = match &pool {
            Some(pool) => Announcement::of(pool, source.disk.geometry().volatile_cache, vec![disk]),
            None => Announcement { owner_pid: std::process::id(), disks: vec![disk], ..Announcement::default() },
        };
        all.print(self.json, Announcement::show_uris)?;
        while stop.wait() != stop::Asked::End {}
        listening.stop();
        // The trace is finished first, because the flush may never return.
        let traced = traced.map_or(Ok(()), Traced::finish);
        and_then_cleared(traced, source.disk.flush().map_err(Failure::from))
    }
}

/// A list of exports with a single unnamed disk.
struct Only(Arc<dyn Disk>);

impl Exports for Only {
    fn list(&self) -> Vec<String> {
        vec![String::new()]
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Refusal> {
        if name.is_empty() { Ok(Arc::clone(&self.0)) } else { Err(Refusal::Unknown) }
    }
}
