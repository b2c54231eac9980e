//! `ferrite up`.

mod keep;
mod make;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ferrite_cache::{CacheReport, CacheState};
use ferrite_daemon::disks::{Serving, attach_directory};
use ferrite_daemon::filesystems::names;
use ferrite_daemon::lacks;
use ferrite_daemon::metrics_server::MetricsServer;
use ferrite_daemon::mounts;
use ferrite_daemon::{caches, disks, filesystems};
use ferrite_devnode as attach;
use ferrite_owner::PoolOwner;
use ferrite_owner::access::PoolHolder;
use ferrite_owner::paths::in_line;
use ferrite_pool::AtomicFile;

use self::keep::KeepArguments;
use super::announce::{AnnouncedDisk, AnnouncedFs, Announcement};
use super::aside::{self, Aside};
use super::fs::{MountArguments, awaited};
use super::new_ssd::{NewSsd, new_ssd, with_files};
use crate::command_pool::{self, CommandPool, Images};
use crate::host::{self, absolute};
use crate::how::How;
use crate::mount_notes;
use crate::nbd_addresses::NbdAddressArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::size;
use crate::stop::{self, Stop};

/// The name of the mounted file system.
const FILES: &str = "files";

/// Make what is missing, recover what is there, serve everything, until Ctrl-C
///
/// Creates the pool, and in it a disk called disk0, if they are missing (--no-disk leaves all space to files). Serves
/// every disk of the pool over NBD on a Unix socket (POOL.nbd unless another is named). As root it also makes each disk
/// a /dev node, /dev/ferrite/by-pool/UUID/NAME, and /dev/ferrite/NAME unless a disk of another pool has that name.
/// Opens every cache of the pool and serves its disks. Mounts a file system called files, and creates it if it is
/// missing. The next start, also after kill -9, serves at once what was durable.
#[derive(Args)]
pub struct Up {
    /// The pool's file [default: $FERRITE_POOL, else ferrite/pool in the user's data directory]
    #[arg(long)]
    pool: Option<PathBuf>,
    /// Size of the pool if it is made, in powers of 1024 as all sizes [default: 1G]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// A disk to make if it is not there; repeatable [default: disk0 in a pool without disks, with half of the pool at
    /// most, half of what its host has for it, and 512M in memory]
    #[arg(long, value_name = "NAME=SIZE", value_parser = disk)]
    disk: Vec<(String, u64)>,
    /// Make no disk, in a pool without disks
    #[arg(long, conflicts_with_all = ["disk", "checksum"])]
    no_disk: bool,
    /// Make no /dev nodes
    #[arg(long)]
    no_attach: bool,
    /// Folder to mount the file system `files` on, which is made if it is missing; the mount hides what it holds
    /// [default: ferrite-files in the user's home, if that holds nothing]
    #[arg(long, value_name = "DIR", conflicts_with = "no_mount")]
    mount: Option<PathBuf>,
    /// Mount no file system
    #[arg(long, conflicts_with_all = ["cached", "data", "allow_other", "suid", "dev", "reserve"])]
    no_mount: bool,
    /// An SSD that cold pages of the file system go to; repeatable, up to 8. A file, which is made if it is missing and
    /// has a SIZE, a block device or an NBD export. Its content is lost if the file system does not have it yet. Started
    /// again, the file system finds its SSDs by itself
    #[arg(long, value_name = "SSD[=SIZE]", value_parser = new_ssd, conflicts_with = "no_mount")]
    ssd: Vec<NewSsd>,
    /// Use SSDs that may hold data: the bytes that they have, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse, requires = "ssd", hide_short_help = true)]
    lose: Option<u64>,
    #[command(flatten)]
    how_mounted: MountArguments,
    /// Write a backup here when the power fails (SIGPWR, which a UPS sends), and go on serving
    ///
    /// A pool that is restored from it goes back to that moment, and so do its disks, files and objects. A SQLite
    /// database whose file went on after that moment is refused, with words that say what to do. An image of another
    /// pool, or a later one of this pool, is not written over.
    #[arg(long, value_name = "IMAGE", conflicts_with = "keep")]
    backup: Option<PathBuf>,
    /// Serve the page /metrics for Prometheus here: a port of this machine, or ADDRESS:PORT for other machines too.
    /// Port 0 is any free port. Everyone who reaches the address may read the page: `ferrite metrics --help`
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    keep: KeepArguments,
    /// Give the disks that are made a checksum of each 4 KiB: see `ferrite disk create --help`
    #[arg(long)]
    checksum: bool,
    /// Print JSON: one line, when everything is served
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    aside: Aside,
    #[command(flatten)]
    nbd_addresses: NbdAddressArguments,
    #[command(flatten)]
    how: How,
}

/// The caches, the disks and the file system that are open to clients.
struct Opened {
    caches: Vec<CacheReport>,
    file_system: Option<AnnouncedFs>,
    disks: Vec<AnnouncedDisk>,
    metrics: Option<String>,
}

/// What `up` changes outside of the pool while it opens it.
struct Changes<'a> {
    /// Leftovers of a killed owner that were removed.
    cleared: &'a mut Vec<String>,
    /// Files of SSDs that were made.
    made: &'a mut Vec<PathBuf>,
}

/// Returns why caches and the file system of a restored pool stay closed.
fn closed(caches: &[CacheReport], file_system: Option<&AnnouncedFs>) -> Vec<String> {
    let of_cache = |cache: &CacheReport| cache.why.as_ref().map(|why| format!("cache {}: {why}", cache.name));
    let of_files =
        file_system.and_then(|fs| fs.not_mounted.as_ref().map(|why| format!("file system {}: {why}", fs.name)));
    caches.iter().filter_map(of_cache).chain(of_files).collect()
}

/// Returns true if the folder of `path` lists it. Inspecting a mount itself could wait for a server that does not
/// answer.
fn is_listed(path: &Path) -> bool {
    let listed = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    listed.map(|entry| entry.file_name()).any(|name| path.file_name() == Some(&name))
}

fn disk(text: &str) -> Result<(String, u64), String> {
    let (name, bytes) = text.split_once('=').ok_or("write NAME=SIZE, such as disk0=512M")?;
    ferrite_pool::check_name(name).map_err(|error| error.to_string())?;
    Ok((name.into(), size::parse(bytes)?))
}

/// Returns the address that `text` names: a port alone is one of this machine's loopback address.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    port.map(|port| (Ipv4Addr::LOCALHOST, port).into())
        .or_else(|_| text.parse())
        .map_err(|_| "write a port, such as 9187, or ADDRESS:PORT, such as 192.0.2.7:9187 or [::1]:9187".into())
}

/// Serves the metrics of `owner` at `address`, until the owner stops. Returns the page's address.
fn serve_metrics(owner: &PoolOwner, address: SocketAddr) -> Outcome<String> {
    let server = MetricsServer::start(address, Arc::new(owner.metrics_source()));
    let server = server.map_err(|error| format!("serving metrics at {address}: {error}"))?;
    let page = format!("http://{}/metrics", server.address());
    owner.keep_server(Box::new(server));
    Ok(page)
}

/// Returns the reason why the disk called `name` cannot be served, if it is the disk of a cache that is not open, or that
/// cannot use the disk.
fn not_served(caches: &[CacheReport], name: &str) -> Option<String> {
    let cache = caches.iter().find(|cache| cache.disks.iter().any(|disk| disk == name))?;
    match (cache.ssds_online, cache.state) {
        (Some(_), _) => {
            let why = |refused: &String| Some(refused.strip_prefix(name)?.strip_prefix(": ")?.to_string());
            cache.refused_disks.iter().find_map(why)
        }
        (None, CacheState::Incomplete) => Some("the creation of its cache did not end".into()),
        (None, _) => Some(cache.why.clone().unwrap_or_else(|| "its cache is not open".into())),
    }
}

impl Up {
    /// Runs the server.
    pub fn run(self) -> Outcome {
        let stop = Stop::new()?;
        let path = absolute(&self.pool.clone().map_or_else(host::default_pool, Ok)?)?;
        if self.aside.is_to_detach() {
            return aside::detach(&path, &stop);
        }
        self.aside.begin()?;
        self.how.serving()?;
        self.how_mounted.check()?;
        self.nbd_addresses.check()?;
        self.check_disks()?;
        self.check_size(&path)?;
        let backup = self.backup.as_deref().map(absolute).transpose()?;
        // The backup must be writable when the power fails, so a path that cannot be written is an error now.
        backup.as_deref().map(AtomicFile::begin).transpose()?;
        let restored = self.keep.restore(&path, self.size)?;
        let is_new = restored.is_none() && self.make_pool(&path)?;
        let has_point = self.point().is_ok_and(|point| is_listed(&point));
        let lock = match command_pool::find(&path)? {
            PoolHolder::Ours(lock) => lock,
            PoolHolder::Theirs(_, holder) => {
                return Err(format!("{} is {holder}; other commands work beside it", path.display()).into());
            }
        };
        let mut memory = self.how.medium.map(&lock)?;
        let snapshot = self.keep.snapshot(&mut memory);
        let command_pool = CommandPool::own_mapped(lock, memory, &self.how.medium)?;
        let owner = Arc::clone(command_pool.owner().expect("it has just opened the pool"));
        drop(command_pool);
        backup.as_deref().map(|image| ferrite_pool::backup::ensure_may_replace(owner.pool(), image)).transpose()?;
        let keeper = self.keep.keeper(&owner, snapshot)?;
        let begun = self.begin(&owner, is_new, restored.is_some());
        let has_failed = begun.is_err();
        let held = self.aside.hold(owner, begun, &stop, Images { backup: backup.as_deref(), keeper: keeper.as_ref() });
        if has_failed && !has_point {
            // Only an empty folder can be removed, and a folder that another program made can be made again.
            let _ = self.point().map(fs::remove_dir);
        }
        held
    }

    /// Returns the folder to mount on.
    fn point(&self) -> Outcome<PathBuf> {
        absolute(&self.mount.clone().map_or_else(host::default_mount, Ok)?)
    }

    /// Makes the missing parts of the pool, serves it, and prints the announcement.
    fn begin(&self, owner: &Arc<PoolOwner>, is_new: bool, is_restored: bool) -> Outcome {
        let serving = self.how.serving()?;
        // A killed owner of the same pool may have left nodes.
        let mut cleared = attach::clear_stale(&attach_directory(owner.pool().superblock().uuid));
        let mut made = Vec::new();
        let mut opened = self.open_all(owner, &serving, Changes { cleared: &mut cleared, made: &mut made });
        if opened.is_err() && is_new {
            // No client has seen the new pool yet. If it stayed, the next `up` would treat it as a pool in use,
            // whatever its options.
            let removed = fs::remove_file(owner.lock().path()).map_err(Failure::from);
            opened = and_then_cleared(opened, removed);
            // They have the stamp of the pool that was just removed, and no other pool's.
            made.iter().for_each(|path| _ = fs::remove_file(path));
        }
        let Opened { caches, file_system, disks, metrics } = opened?;
        mount_notes::remark_left(owner.lock().path(), file_system.as_ref().and_then(|fs| fs.mounted_on.as_deref()));
        if is_restored || self.keep.is_strict() {
            self.keep.remark_closed(owner, closed(&caches, file_system.as_ref()))?;
        }
        let recovered = !owner.recovery().clean;
        let all = Announcement {
            cleared,
            recovered,
            restored: is_restored,
            kept: owner.report().kept,
            caches,
            metrics,
            file_systems: file_system.into_iter().collect(),
            ..Announcement::of(&owner.report(), serving.has_volatile_cache(), disks)
        };
        self.aside.announce(all, self.json)
    }

    /// Makes the missing parts and opens them to clients. Commands get access last, because the data that they store
    /// must stay. A signal stops this function between any two steps.
    fn open_all(&self, owner: &Arc<PoolOwner>, serving: &Serving, changes: Changes<'_>) -> Outcome<Opened> {
        stop::go_on()?;
        self.make_disks(owner)?;
        stop::go_on()?;
        // A cache that cannot be opened does not keep the rest from being served.
        let caches = caches(owner).open_all();
        stop::go_on()?;
        let file_system = self.mounted(owner, changes)?;
        stop::go_on()?;
        let nbd_addresses = self.nbd_addresses.resolve(&host::nbd_socket(owner.lock().path()))?;
        let tcp = disks(owner).listen(&nbd_addresses, "", serving, None)?;
        let announced = |name: String| {
            stop::go_on()?;
            if let Some(why) = not_served(&caches, &name) {
                return Ok(AnnouncedDisk { name, not_served: Some(why), ..AnnouncedDisk::default() });
            }
            let uris = nbd_addresses.uris(&name, tcp);
            Ok(self.attached(owner, serving, AnnouncedDisk { name, uris, ..AnnouncedDisk::default() }))
        };
        let announced: Outcome<_> = disks(owner).all_names().into_iter().map(announced).collect();
        let disks = announced?;
        stop::go_on()?;
        let metrics = self.metrics.map(|address| serve_metrics(owner, address)).transpose()?;
        owner.listen()?;
        Ok(Opened { caches, file_system, disks, metrics })
    }

    /// Mounts the file system, which is made if it is missing, or returns why it is not mounted. If the user named a
    /// folder, a failed mount is an error.
    fn mounted(&self, owner: &PoolOwner, changes: Changes<'_>) -> Outcome<Option<AnnouncedFs>> {
        if self.no_mount {
            return Ok(None);
        }
        let name = || AnnouncedFs { name: FILES.into(), mounted_on: None, not_mounted: None };
        Ok(Some(match self.mount_files(owner, changes) {
            Ok(point) => AnnouncedFs { mounted_on: Some(point), ..name() },
            Err(why) if self.mount.is_some() => return Err(why),
            Err(why) => {
                let why = lacks::to_mount_in_line().unwrap_or_else(|| why.text().into());
                AnnouncedFs { not_mounted: Some(why), ..name() }
            }
        }))
    }

    /// Mounts the file system and returns the folder. Removes the mount of a killed owner there.
    fn mount_files(&self, owner: &PoolOwner, changes: Changes<'_>) -> Outcome<PathBuf> {
        let point = self.point()?;
        let was_dead = mounts::clear(&point).map_err(|error| format!("mounting on {}: {error}", in_line(&point)))?;
        changes.cleared.extend(was_dead.then(|| mounts::cleared(&point)));
        let mounting = self.how_mounted.mounting(&point, self.how.serving()?.read_only)?;
        let is_new = !names(owner.pool()).iter().any(|name| name == FILES);
        if is_new {
            // The place is checked before the file system uses any space.
            if lacks::to_mount().is_empty() {
                filesystems(owner).ensure_place(&point)?;
            }
            let made = filesystems(owner).create(FILES, Some(ferrite_fs::SUPER_THRESHOLD_BYTES));
            made.map_err(|why| format!("making a file system in the pool (--no-mount serves it without one): {why}"))?;
        }
        if let Err(why) = self.add_ssds(owner, changes.made) {
            if is_new {
                // The file system is empty.
                let _ = filesystems(owner).remove(FILES);
            }
            return Err(why);
        }
        let hides = mounts::would_hide(&point);
        if hides && self.mount.is_none() {
            return Err(format!("{} holds files: name a folder with --mount", in_line(&point)).into());
        }
        let mounted = filesystems(owner).mount(FILES, &mounting)?;
        awaited(&mounted).into_iter().for_each(|output| remark!("{output}"));
        if hides {
            mount_notes::remark_hidden(&point);
        }
        Ok(point)
    }

    /// Gives the file system, which is not mounted, the SSDs that it does not have.
    fn add_ssds(&self, owner: &PoolOwner, made: &mut Vec<PathBuf>) -> Outcome {
        if self.ssd.is_empty() {
            return Ok(());
        }
        let present = filesystems(owner).ssd_addresses(FILES)?;
        let added: Vec<NewSsd> =
            self.ssd.iter().filter(|ssd| !present.iter().any(|it| it == ssd.address())).cloned().collect();
        if added.is_empty() {
            return Ok(());
        }
        with_files(&added, made, |ssds| Ok(filesystems(owner).add_ssds(FILES, &ssds, self.lose)?))
    }

    /// Returns the disk with its node, or with the reason why the node is missing.
    fn attached(&self, owner: &PoolOwner, serving: &Serving, disk: AnnouncedDisk) -> AnnouncedDisk {
        if self.no_attach {
            return disk;
        }
        match disks(owner).attach(&disk.name, serving) {
            Ok(node) => AnnouncedDisk { node: Some(node), ..disk },
            Err(why) => AnnouncedDisk { not_attached: Some(why.message), ..disk },
        }
    }
}
