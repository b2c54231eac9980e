//! `ferrite disk`.

mod rates;

use std::net::SocketAddr;
use std::path::Path;

use clap::{Args, Subcommand};
use ferrite_block::StageCount;
use ferrite_block::StageTotals;
use ferrite_cache::{CacheReport, CacheRequest};
use ferrite_daemon::disks::AttachReport;
use ferrite_daemon::disks::DiskReport;
use ferrite_daemon::disks::DiskRequest;
use ferrite_daemon::disks::FaultyDiskReport;
use ferrite_daemon::disks::OpenReport;
use ferrite_daemon::disks::Serving;
use ferrite_daemon::disks::attach_directory;
use ferrite_disk::FaultPlan;
use ferrite_owner::PoolReport;
use ferrite_owner::paths::quoted;
use ferrite_owner::services::PoolRequest;
use serde_json::Value;

use super::announce::{AnnouncedDisk, Announcement};
use super::watch::WatchArguments;
use super::{WholePool, print, print_line, transfer};
use crate::command_pool::{self, CommandPool, Images, Until};
use crate::host;
use crate::how::How;
use crate::nbd_addresses::NbdAddressArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::pool_argument::InPool;
use crate::size;
use crate::stop::{self, Stop};

use rates::Rates;

/// Protected block devices in a pool: make them, serve them, attach them
#[derive(Subcommand)]
pub enum Disk {
    /// Make a disk that reads as zeros; durable when it returns
    Create(Create),
    /// List the disks
    List(WholePool),
    /// Remove a disk and what it holds; refused while it is in use
    Remove(InPool<DiskName, true>),
    /// Grow a disk, also while it is in use
    Resize(Resize),
    /// Serve a disk over NBD until Ctrl-C, on a Unix socket (POOL.NAME.nbd where none is named) and by TCP
    Serve(Serve),
    /// Make a disk a real /dev node, until `detach` or the end of the pool's owner
    ///
    /// It is /dev/ferrite/by-pool/UUID/NAME, and /dev/ferrite/NAME unless a disk of another pool has that. Where no
    /// `ferrite up` owns the pool this command does, and runs until Ctrl-C or until nothing of it is used. While the
    /// node is mounted, new NBD clients are read-only. Clients that connected earlier can still write: disconnect them
    /// first.
    Attach(Attach),
    /// Take a disk's /dev node away; refused while it is mounted or open
    Detach(InPool<DiskName>),
    /// Tell what a disk is, where it is reached, and what it has been asked for
    Stat(Stat),
    /// Change how a disk behind fault:PLAN: fails while it is open in the pool's owner, or list such disks
    Fault(Fault),
    /// Copy any disk to any other: in a pool, over NBD, a file, a device
    Copy(transfer::Copy),
    /// Serve any disk over NBD, also as a simulated hard disk or SSD
    Export(transfer::Export),
}

#[derive(Args)]
pub struct DiskName {
    /// The disk
    name: String,
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    disk: InPool<DiskName, true>,
    /// Its size, such as 512M or 2G: K, M, G and T are powers of 1024
    #[arg(long, value_parser = size::parse)]
    size: u64,
    /// Bytes of a sector: 512 or 4096
    #[arg(long, default_value_t = 512, value_parser = sector)]
    sector: u32,
    /// Take space as it is written: a write where nothing is yet may then find the pool full. What the disk does not
    /// need any more others get when they lack space, whether it is open or not; until then `pool info` and `df` count
    /// it as in use
    #[arg(long)]
    thin: bool,
    /// Keep a checksum of each 4 KiB: damaged data is an error, not an answer. Costs about 15 ns a write and 100 ns a
    /// read of 4 KiB (200 where the processor cannot sum while it copies)
    #[arg(long)]
    checksum: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Resize {
    #[command(flatten)]
    disk: InPool<DiskName>,
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
    disk: InPool<DiskName>,
    #[command(flatten)]
    how: WatchArguments,
}

#[derive(Args)]
#[command(after_long_help = format!("A plan is\n{}", FaultPlan::GRAMMAR))]
pub struct Fault {
    #[command(flatten)]
    at: InPool<FaultWords>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct FaultWords {
    /// The disk to change: its address behind fault:PLAN:, as the list has it. Without it the disks are listed
    address: Option<String>,
    /// Its new plan, which also judges the requests that hang; `none` heals it
    plan: Option<FaultPlan>,
}

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    disk: InPool<DiskName>,
    /// Print JSON: one line, when it is served
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nbd_addresses: NbdAddressArguments,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
pub struct Attach {
    #[command(flatten)]
    disk: InPool<DiskName>,
    /// Print JSON: one line, when it is attached
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: How,
}

impl Disk {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::List(WholePool { at, json }) => {
                let disks: Vec<DiskReport> = command_pool::ask(&at.pool.path()?, DiskRequest::List, None)?;
                print(json, &disks, |disks| disks.iter().map(show_line).collect())
            }
            Self::Remove(InPool { pool, words: DiskName { name } }) => {
                command_pool::ask::<Value>(&pool.path()?, DiskRequest::Remove { name }, None).map(drop)
            }
            Self::Resize(Resize { disk: InPool { pool, words: DiskName { name } }, size, json }) => {
                let disk: DiskReport = command_pool::ask(&pool.path()?, DiskRequest::Resize { name, size }, None)?;
                print(json, &disk, show_line)
            }
            Self::Serve(serve) => serve.run(),
            Self::Attach(attach) => attach.run(),
            Self::Detach(InPool { pool, words: DiskName { name } }) => detach(&pool.path()?, name),
            Self::Stat(stat) => stat.run(),
            Self::Fault(fault) => fault.run(),
            Self::Copy(copy) => copy.run(),
            Self::Export(export) => export.run(),
        }
    }
}

impl Stat {
    fn run(self) -> Outcome {
        let Self { disk: InPool { pool, words: DiskName { name } }, how } = self;
        let look = |pool: &mut CommandPool| pool.look(DiskRequest::Stat { name: name.clone() });
        how.print(&pool.path()?, look, show, Rates::show)
    }
}

impl Fault {
    fn run(self) -> Outcome {
        let Self { at: InPool { pool, words: FaultWords { address, plan } }, json } = self;
        let request = match (address, plan) {
            (Some(address), Some(plan)) => DiskRequest::SetFaults { address, plan: plan.to_string() },
            (None, _) => DiskRequest::Faults,
            (Some(_), None) => {
                return Err(Failure::Usage(
                    "name the pool, a disk and its plan: `ferrite disk fault POOL ADDRESS PLAN`".into(),
                ));
            }
        };
        let disks: Vec<FaultyDiskReport> = command_pool::ask(&pool.path()?, request, None)?;
        print(json, &disks, |disks| disks.iter().map(show_faults).collect())
    }
}

impl Create {
    fn run(self) -> Outcome {
        let Self { disk: InPool { pool, words: DiskName { name } }, size, sector, thin, checksum, json } = self;
        let request = DiskRequest::Create { name, size, sector_bytes: sector, thin, checksum };
        let pool = pool.path()?;
        stop::watch()?;
        let mut command_pool = CommandPool::new(&pool)?;
        let answer = command_pool.ask(request, None);
        let is_served = command_pool.owner_pid().is_some();
        let disk: DiskReport = and_then_cleared(answer, command_pool.close())?;
        let may_attach = is_served && host::user().is_ok_and(|(user, _)| user == 0);
        print(json, &disk, |disk| {
            let (pool, name) = (quoted(&pool), quoted(disk.name.as_ref()));
            let attach = format!("  `ferrite disk attach {pool} {name}` makes it a /dev node\n");
            show_line(disk) + if may_attach { &attach } else { "" }
        })
    }
}

impl Serve {
    /// Serves the disk until the process is asked to end.
    pub fn run(self) -> Outcome {
        let stop = Stop::new()?;
        let serving = self.how.serving()?;
        let pool = self.disk.pool.path()?;
        let mut command_pool = self.how.command_pool(&pool)?;
        let begun = self.begin(&pool, &mut command_pool, serving);
        command_pool.hold(begun, &stop, Until::Asked { images: Images::default() })
    }

    fn begin(&self, pool: &Path, command_pool: &mut CommandPool, serving: Serving) -> Outcome {
        let name = &self.disk.words.name;
        command_pool.listen()?;
        let has_volatile_cache = serving.has_volatile_cache();
        let nbd_addresses =
            self.nbd_addresses.resolve(&host::beside(pool, &format!(".{}.nbd", name.replace('/', "%2F"))))?;
        let request =
            DiskRequest::Serve { name: name.clone(), nbd_addresses: nbd_addresses.clone(), serving, overwrite: false };
        let tcp: Option<SocketAddr> = command_pool.ask(request, None)?;
        let disk =
            AnnouncedDisk { name: name.clone(), uris: nbd_addresses.uris(name, tcp), ..AnnouncedDisk::default() };
        let pool = PoolReport { owner_pid: command_pool.owner_pid(), ..command_pool.ask(PoolRequest::Info, None)? };
        let caches: Vec<CacheReport> = command_pool.ask(CacheRequest::List, None)?;
        let caches = caches.into_iter().filter(|cache| cache.disks.contains(name)).collect();
        let all = Announcement { caches, ..Announcement::of(&pool, has_volatile_cache, vec![disk]) };
        all.print(self.json, Announcement::show_uris)
    }
}

impl Attach {
    fn run(self) -> Outcome {
        let stop = Stop::new()?;
        let serving = self.how.serving()?;
        let mut command_pool = self.how.command_pool(&self.disk.pool.path()?)?;
        let begun = self.begin(&mut command_pool, serving);
        command_pool.hold_while_used(begun, &stop)
    }

    fn begin(&self, command_pool: &mut CommandPool, serving: Serving) -> Outcome {
        let name = &self.disk.words.name;
        command_pool.listen()?;
        let attached: AttachReport = command_pool.ask(DiskRequest::Attach { name: name.clone(), serving }, None)?;
        print_line(self.json, &attached, |attached| {
            let notes: String = attached.notes.iter().map(|note| format!("note: {note}\n")).collect();
            let (link, stable) = (attached.link.display(), attached.stable_link.display());
            let stable =
                if attached.link == attached.stable_link { String::new() } else { format!("always {stable}\n") };
            format!("{name} is {link} ({}, {})\n{stable}{notes}", attached.device.display(), attached.way)
        })?;
        Ok(())
    }
}

/// Asks the owner to detach the disk. If there is no owner, no disk is attached, and this function clears the links of
/// a killed owner.
fn detach(pool: &Path, name: String) -> Outcome {
    let mut command_pool = CommandPool::new(pool)?;
    if let Some(owner) = command_pool.owner() {
        let cleared = ferrite_devnode::clear_stale(&attach_directory(owner.pool().superblock().uuid));
        cleared.iter().for_each(|what| say!("{what}"));
        command_pool.close()?;
        return if cleared.is_empty() { Err(format!("{name:?} is not attached").into()) } else { Ok(()) };
    }
    command_pool.ask::<Value>(DiskRequest::Detach { name }, None).map(drop)
}

fn show_line(disk: &DiskReport) -> String {
    let thin = if disk.thin { ", thin" } else { "" };
    let thin = if disk.checksum { format!("{thin}, with checksums") } else { thin.into() };
    let of = disk.service.as_ref().map(|service| format!(", of the service {service}")).unwrap_or_default();
    let sectors = if disk.sector_bytes > 0 { format!(", sectors of {}", disk.sector_bytes) } else { String::new() };
    let at: String = disk.reached_at.iter().map(|at| format!(", {at}")).collect();
    format!("{:<20} {:>10}{sectors}{thin}{of}{at}\n", disk.name, size::show(disk.size_bytes))
}

fn show_faults(FaultyDiskReport { address, plan, requests }: &FaultyDiskReport) -> String {
    format!("{address:<20} {plan}, {requests} requests\n")
}

fn show(disk: &DiskReport) -> String {
    let text = show_line(disk) + &format!("  takes {} of the pool\n", size::show(disk.space_bytes));
    let Some(open) = &disk.open else { return text + "  not used yet\n" };
    let when = if open.volatile_cache { "when flushed" } else { "when it completes" };
    let lost = |bytes| format!("  {} are held back in DRAM: an unclean stop now loses them\n", size::show(bytes));
    let requests = format!(
        "{}  holds {}; a write is durable {when}\n  {} reads of {}, {} writes of {}\n  {} flushes, {} with FUA, {} trims, \
         {} zeroings, {} errors\n",
        show_serving(open),
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
    );
    text + &requests
        + &open.unsaved_bytes.map(lost).unwrap_or_default()
        + &open.stages.map(show_stages).unwrap_or_default()
}

/// Returns the options of the open disk, if they differ from the defaults.
fn show_serving(open: &OpenReport) -> String {
    let Serving { scheme, in_place, read_only, verify, stages: _, buffering } = &open.serving;
    let said = [
        read_only.then(|| "read-only".to_string()),
        in_place.then(|| "in place, where a crash may tear a sector".into()),
        scheme.as_ref().map(|name| format!("by scheme {name}")),
        verify.then(|| "read back".into()),
        buffering.is_some().then(|| "by buffers in DRAM".into()),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    match (said.is_empty(), open.in_use) {
        (true, _) => String::new(),
        (false, true) => format!("  in use: {}\n", said.join(", ")),
        (false, false) => format!("  not in use; when it was last: {}\n", said.join(", ")),
    }
}

fn show_stages(stages: StageTotals) -> String {
    stages
        .rows()
        .into_iter()
        .filter(|(_, passed)| passed.count > 0)
        .map(|(name, passed)| show_stage(name, passed))
        .collect()
}

fn show_stage(name: &str, passed: StageCount) -> String {
    let each = passed.cycles.checked_div(passed.count).unwrap_or(0);
    let times = if passed.count == 1 { "time" } else { "times" };
    format!("  {name:<14} {:>12} {times:<5} {each:>10} cycles each\n", passed.count)
}

fn sector(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" => Ok(4096),
        _ => Err("512 or 4096".into()),
    }
}

#[cfg(test)]
mod tests;
