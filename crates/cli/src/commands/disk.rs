//! `ferrite disk`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use ferrite_medium::Scheme;
use ferrite_pool::owner::{Claim, claim};
use serde_json::Value;

use super::{print, transfer};
use crate::door::DoorArguments;
use crate::host;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome};
use crate::reach::{self, Reach};
use crate::request::{AttachReport, DiskReport, Request, Serving};
use crate::size;
use crate::stop::{self, Stop};

/// Pause between two looks at a disk.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Protected block devices in a pool: make them, serve them, attach them
#[derive(Subcommand)]
pub enum Disk {
    /// Make a disk that reads as zeros; durable when it returns
    Create(Create),
    /// List the disks
    List(List),
    /// Remove a disk and what it holds; refused while it is in use
    Remove(Named),
    /// Grow a disk, also while it is in use
    Resize(Resize),
    /// Serve a disk over NBD until Ctrl-C, on a Unix socket (POOL.NAME.nbd where none is named) and by TCP
    Serve(Serve),
    /// Make a disk a real /dev node, until `detach` or the end of the pool's owner
    ///
    /// Where no `ferrite up` owns the pool this command does, and runs until Ctrl-C.
    Attach(Attach),
    /// Take a disk's /dev node away; refused while it is mounted or open
    Detach(Named),
    /// Tell what a disk is, where it is reached, and what it has been asked for
    Stat(Stat),
    /// Copy any disk to any other: in a pool, over NBD, a file, a device
    Copy(transfer::Copy),
    /// Serve any disk over NBD, also as a simulated hard disk or SSD
    Export(transfer::Export),
}

#[derive(Args)]
pub struct Named {
    /// The pool's file
    pool: PathBuf,
    /// The disk
    name: String,
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    disk: Named,
    /// Its size, such as 512M or 2G
    #[arg(long, value_parser = size::parse)]
    size: u64,
    /// Bytes of a sector
    #[arg(long, default_value_t = 512, value_parser = sector)]
    sector: u32,
    /// Take space as it is written: a write may then find the pool full
    #[arg(long)]
    thin: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct List {
    /// The pool's file
    pool: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Resize {
    #[command(flatten)]
    disk: Named,
    /// Its new size, not smaller than it is
    #[arg(long, value_parser = size::parse)]
    size: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Stat {
    #[command(flatten)]
    disk: Named,
    /// Tell it again every second, until Ctrl-C or the end of the pool's owner
    #[arg(long)]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a disk is served. The defaults are the safe and fast ones.
#[derive(Args)]
pub struct How {
    #[command(flatten)]
    medium: MediumArguments,
    /// How data reaches the medium: nt, flush, clwb, clflushopt, clflush, writeback, writeback-all or writethrough
    /// [default: nt]
    ///
    /// With the two of writeback a write is durable when flushed; with the others when it completes. writeback-all
    /// flushes every line of the pool at a flush, writethrough every 8 bytes as they are stored: as the paper compares.
    #[arg(long)]
    scheme: Option<String>,
    /// Overwrite in place: one fence instead of two, and a crash may tear a sector
    #[arg(long)]
    in_place: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
}

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    disk: Named,
    #[command(flatten)]
    door: DoorArguments,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
pub struct Attach {
    #[command(flatten)]
    disk: Named,
    #[command(flatten)]
    how: How,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl How {
    fn serving(&self) -> Outcome<Serving> {
        self.medium.check()?;
        if let Some(name) = &self.scheme {
            let known = Scheme::from_name(name);
            known.ok_or_else(|| Failure::Usage(format!("there is no scheme {name:?}: see --help")))?;
        }
        Ok(Serving { scheme: self.scheme.clone(), in_place: self.in_place, read_only: self.read_only })
    }

    /// Reaches the pool at `path`; as it was asked for, if it becomes ours.
    fn reach(&self, path: &Path) -> Outcome<Reach> {
        match claim(path)? {
            Claim::Ours(lock) => Ok(Reach::Ours(reach::open(lock, &self.medium)?)),
            Claim::Held(holder) if !self.medium.is_default() => Err(Failure::Failed(format!(
                "{} is {holder}: its guard, pace and wear hold for all of it, so end that first to choose others",
                path.display()
            ))),
            Claim::Held(_) => Reach::new(path),
        }
    }
}

impl Disk {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::List(List { pool, json }) => {
                let disks: Vec<DiskReport> = reach::ask(&pool, Request::DiskList, None)?;
                print(json, &disks, |disks| disks.iter().map(show_line).collect())
            }
            Self::Remove(Named { pool, name }) => {
                reach::ask::<Value>(&pool, Request::DiskRemove { name }, None).map(drop)
            }
            Self::Resize(Resize { disk: Named { pool, name }, size, json }) => {
                let disk: DiskReport = reach::ask(&pool, Request::DiskResize { name, size }, None)?;
                print(json, &disk, show_line)
            }
            Self::Serve(serve) => serve.run(),
            Self::Attach(attach) => attach.run(),
            Self::Detach(Named { pool, name }) => detach(&pool, name),
            Self::Stat(stat) => stat.run(),
            Self::Copy(copy) => copy.run(),
            Self::Export(export) => export.run(),
        }
    }
}

impl Stat {
    fn run(self) -> Outcome {
        let Self { disk: Named { pool, name }, watch, json } = self;
        stop::watch()?;
        let mut reach = Reach::new(&pool)?;
        loop {
            let disk: DiskReport = reach.ask(Request::DiskStat { name: name.clone() }, None)?;
            print(json, &disk, show)?;
            if !watch || matches!(reach, Reach::Ours(_)) || stop::is_asked() {
                return reach.close();
            }
            std::thread::sleep(WATCH_PAUSE);
        }
    }
}

impl Create {
    fn run(self) -> Outcome {
        let Self { disk: Named { pool, name }, size, sector, thin, json } = self;
        let request = Request::DiskCreate { name, size, sector_bytes: sector, thin };
        let disk: DiskReport = reach::ask(&pool, request, None)?;
        print(json, &disk, show_line)
    }
}

impl Serve {
    fn run(self) -> Outcome {
        let Named { pool, name } = self.disk;
        let serving = self.how.serving()?;
        let mut stop = Stop::new()?;
        let mut reach = self.how.reach(&pool)?;
        let listening = reach.listen()?;
        let door = self.door.door(&host::beside(&pool, &format!(".{name}.nbd")))?;
        let unix = door.unix.display().to_string();
        let request = Request::DiskServe { name: name.clone(), door, serving };
        let tcp: Option<SocketAddr> = reach.ask(request, None)?;
        println!("{name} is served at nbd+unix:///{name}?socket={unix}");
        if let Some(address) = tcp {
            println!("{name} is served at nbd://{address}/{name}");
        }
        reach.hold(listening, &mut stop, None)
    }
}

impl Attach {
    fn run(self) -> Outcome {
        let Named { pool, name } = self.disk;
        let serving = self.how.serving()?;
        let mut stop = Stop::new()?;
        let mut reach = self.how.reach(&pool)?;
        let listening = reach.listen()?;
        let attached: AttachReport = reach.ask(Request::DiskAttach { name: name.clone(), serving }, None)?;
        print(self.json, &attached, |attached| {
            let notes: String = attached.notes.iter().map(|note| format!("note: {note}\n")).collect();
            format!("{name} is {} ({})\n{notes}", attached.link.display(), attached.device.display())
        })?;
        match listening {
            Some(listening) => reach.hold(Some(listening), &mut stop, None),
            None => Ok(()),
        }
    }
}

/// Asks the owner; where there is none, nothing is attached, and what a killed one left is cleared.
fn detach(pool: &Path, name: String) -> Outcome {
    let mut reach = Reach::new(pool)?;
    if let Reach::Ours(engine) = &reach {
        let cleared = ferrite_serve::attach::clear_stale(&host::attach_directory(engine.pool().superblock().uuid));
        cleared.iter().for_each(|what| println!("{what}"));
        return reach.close();
    }
    reach.ask::<Value>(Request::DiskDetach { name }, None).map(drop)
}

fn show_line(disk: &DiskReport) -> String {
    let thin = if disk.thin { ", thin" } else { "" };
    let at = disk.open.as_ref().map(|open| open.reached_at.join(", ")).unwrap_or_default();
    format!("{:<20} {:>10}, sectors of {}{thin} {at}\n", disk.name, size::show(disk.size_bytes), disk.sector_bytes)
}

fn show(disk: &DiskReport) -> String {
    let text = show_line(disk) + &format!("  takes {} of the pool\n", size::show(disk.space_bytes));
    let Some(open) = &disk.open else { return text + "  not open\n" };
    let when = if open.volatile_cache { "when flushed" } else { "when it completes" };
    text + &format!(
        "  holds {}; a write is durable {when}\n  {} reads of {}, {} writes of {}\n  {} flushes, {} with FUA, {} trims, \
         {} zeroings, {} errors\n",
        size::show(open.used_bytes),
        open.reads,
        size::show(open.read_bytes),
        open.writes,
        size::show(open.written_bytes),
        open.flushes,
        open.fua,
        open.trims,
        open.zeroings,
        open.errors
    )
}

fn sector(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" => Ok(4096),
        _ => Err("512 or 4096".into()),
    }
}
