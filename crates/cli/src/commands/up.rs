//! `ferrite up`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ferrite_block::{DISK_BYTES_MAX, DiskSpec, Shape};
use ferrite_medium::make_pool_file;
use ferrite_pool::Partial;
use ferrite_pool::layout::{CHUNK, FIXED_CHUNKS};
use ferrite_pool::owner::Listening;
use ferrite_serve::attach;

use super::announce::{AnnouncedDisk, AnnouncedFs, Announcement};
use super::aside::{self, Aside};
use super::fs::MountArguments;
use super::pool;
use crate::door::DoorArguments;
use crate::engine::{Engine, absolute};
use crate::host;
use crate::how::How;
use crate::lacks;
use crate::mounts;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::paths::in_line;
use crate::reach::{self, Found, Reach};
use crate::request::{Door, Serving};
use crate::served::disk_names;
use crate::size;
use crate::stop::Stop;
use crate::trees;

/// Size of a pool that is made, in bytes, unless another is given.
const SIZE: u64 = 1 << 30;

/// The file system that is mounted.
const FILES: &str = "files";
/// Chunks of the pool that it takes beside those for maps of disks, with one for its first directory and one for its first
/// file.
const FILES_CHUNKS: u64 = 3;

/// The smallest disk that is made unasked, in bytes.
const DISK_BYTES_MIN: u64 = CHUNK / 2;

/// Make what is missing, recover what is there, serve everything, until Ctrl-C
///
/// Makes a pool and in it a disk called disk0 if there are none (--no-disk leaves all to files); serves every disk of the pool over NBD on a Unix
/// socket (POOL.nbd where none is named); as root it also makes each a /dev node, /dev/ferrite/NAME, or
/// /dev/ferrite/POOL-NAME where a disk of another pool has that. Mounts a file system called files, which it makes if
/// there is none. Started again, also after kill -9, it serves what was there at once.
#[derive(Args)]
pub struct Up {
    /// The pool's file [default: ferrite/pool in the user's data directory]
    #[arg(long)]
    pool: Option<PathBuf>,
    /// Size of the pool if it is made, in powers of 1024 as all sizes [default: 1G]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// A disk to make if it is not there; repeatable [default: disk0 with half of the pool at most, and of what its host has for it, in a pool without disks]
    #[arg(long, value_name = "NAME=SIZE", value_parser = disk)]
    disk: Vec<(String, u64)>,
    /// Make no disk, in a pool without disks
    #[arg(long, conflicts_with_all = ["disk", "checksum"])]
    no_disk: bool,
    /// Make no /dev nodes
    #[arg(long)]
    no_attach: bool,
    /// Folder to mount the file system `files` on, which is made if it is not there; what it holds is hidden meanwhile [default: ferrite in the user's home, where that holds nothing]
    #[arg(long, value_name = "DIR", conflicts_with = "no_mount")]
    mount: Option<PathBuf>,
    /// Mount no file system
    #[arg(long, conflicts_with_all = ["cached", "data", "allow_other", "suid", "dev", "reserve"])]
    no_mount: bool,
    #[command(flatten)]
    how_mounted: MountArguments,
    /// Write a backup here when the power fails (SIGPWR, which a UPS sends), and go on serving
    #[arg(long, value_name = "IMAGE")]
    backup: Option<PathBuf>,
    /// Give the disks that are made a checksum of each 4 KiB: see `ferrite disk create --help`
    #[arg(long)]
    checksum: bool,
    /// Print JSON: one line, when everything is served
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    aside: Aside,
    #[command(flatten)]
    door: DoorArguments,
    #[command(flatten)]
    how: How,
}

/// What was made, open to others.
struct Opened {
    file_system: Option<AnnouncedFs>,
    door: Door,
    tcp: Option<SocketAddr>,
    listening: Option<Listening>,
}

/// The largest disk of at most `most` chunks that fits into `free` chunks, one of them for its map.
fn disk_bytes(most: u64, free: u64) -> Option<u64> {
    let chunks = |size: u64| {
        Shape::of(&DiskSpec { size, sector_bytes: 512, thin: false, checksum: false })
            .ok()
            .map(|shape| shape.chunks() + 1)
    };
    let whole = (1..=most.min(DISK_BYTES_MAX / CHUNK)).rev().map(|count| count * CHUNK);
    whole.chain([DISK_BYTES_MIN]).find(|size| chunks(*size).is_some_and(|it| it <= free))
}

/// Why there is no disk that nobody asked for, and what to ask for instead.
fn without_room(why: &ferrite_pool::Error) -> Failure {
    if !why.is_want_of_space() {
        return why.into();
    }
    let instead =
        "--no-disk makes no disk, --disk disk0=SIZE a smaller one, and --size a smaller pool where there is none";
    Failure::Failed(format!("{why}: {instead}"))
}

fn disk(text: &str) -> Result<(String, u64), String> {
    let (name, bytes) = text.split_once('=').ok_or("write NAME=SIZE, such as disk0=512M")?;
    ferrite_pool::check_name(name).map_err(|error| error.to_string())?;
    Ok((name.into(), size::parse(bytes)?))
}

impl Up {
    /// Does it.
    pub fn run(self) -> Outcome {
        let stop = Stop::new()?;
        let path = absolute(&self.pool.clone().map_or_else(host::default_pool, Ok)?)?;
        if self.aside.is_to_detach() {
            return aside::detach(&path, &stop);
        }
        self.aside.begin()?;
        self.how.serving()?;
        self.how_mounted.check()?;
        self.door.check()?;
        self.check_disks()?;
        self.check_size(&path)?;
        let backup = self.backup.as_deref().map(absolute).transpose()?;
        // It has to be there when the power fails, and is said now if it cannot.
        backup.as_deref().map(|image| Partial::begin(image)).transpose()?;
        let is_new = self.make_pool(&path)?;
        let lock = match reach::find(&path)? {
            Found::Ours(lock) => lock,
            Found::Theirs(_, holder) => {
                return Err(format!("{} is {holder}; other commands work beside it", path.display()).into());
            }
        };
        let engine = Arc::new(Engine::open(lock, &self.how.medium)?);
        let begun = self.begin(&engine, is_new);
        self.aside.hold(engine, begun, &stop, backup.as_deref())
    }

    /// Makes what is missing in the pool, serves it, and says so.
    fn begin(&self, engine: &Arc<Engine>, is_new: bool) -> Outcome<Option<Listening>> {
        let serving = self.how.serving()?;
        // What a killed owner of the same pool left attached.
        let mut cleared = attach::clear_stale(&host::attach_directory(engine.pool().superblock().uuid));
        let mut opened = self.open_all(engine, &serving, &mut cleared);
        if opened.is_err() && is_new {
            // Nobody has had it yet; left there, it would be taken for one that is in use, whatever the next try asks for.
            let removed = fs::remove_file(engine.lock().path()).map_err(Failure::from);
            opened = and_then_cleared(opened, removed);
        }
        let Opened { file_system, door, tcp, listening } = opened?;
        mounts::tell_left(engine.lock().path(), file_system.as_ref().and_then(|fs| fs.mounted_on.as_deref()));
        let announced = |name: String| {
            let uris = door.uris(&name, tcp);
            self.attached(engine, &serving, AnnouncedDisk { name, uris, ..AnnouncedDisk::default() })
        };
        let disks = disk_names(engine.pool()).into_iter().map(announced).collect();
        let recovered = !engine.recovery().clean;
        let all = Announcement {
            cleared,
            recovered,
            file_systems: file_system.into_iter().collect(),
            ..Announcement::of(&engine.pool_report(), serving.has_volatile_cache(), disks)
        };
        self.aside.announce(all, self.json)?;
        Ok(listening)
    }

    /// Makes what is missing and opens it to others, to commands last: what they put there stays there.
    fn open_all(&self, engine: &Arc<Engine>, serving: &Serving, cleared: &mut Vec<String>) -> Outcome<Opened> {
        self.make_disks(engine)?;
        let file_system = self.mounted(engine, cleared)?;
        let door = self.door.door(&host::nbd_socket(engine.lock().path()))?;
        let tcp = engine.served().listen(&door, "", serving, None)?;
        let listening = Reach::Ours(Arc::clone(engine)).listen()?;
        Ok(Opened { file_system, door, tcp, listening })
    }

    /// The file system mounted, or why it is not, which is an error where a folder was named. It is made where there is none.
    fn mounted(&self, engine: &Engine, cleared: &mut Vec<String>) -> Outcome<Option<AnnouncedFs>> {
        if self.no_mount {
            return Ok(None);
        }
        let name = || AnnouncedFs { name: FILES.into(), mounted_on: None, not_mounted: None };
        Ok(Some(match self.mount_files(engine, cleared) {
            Ok(point) => AnnouncedFs { mounted_on: Some(point), ..name() },
            Err(why) if self.mount.is_some() => return Err(why),
            Err(why) => {
                let why = lacks::to_mount_in_line().unwrap_or_else(|| why.text().into());
                AnnouncedFs { not_mounted: Some(why), ..name() }
            }
        }))
    }

    /// Where it is mounted. What a killed owner left there is taken away.
    fn mount_files(&self, engine: &Engine, cleared: &mut Vec<String>) -> Outcome<PathBuf> {
        let point = absolute(&self.mount.clone().map_or_else(host::default_mount, Ok)?)?;
        let was_dead = mounts::clear(&point).map_err(|error| format!("mounting on {}: {error}", in_line(&point)))?;
        cleared.extend(was_dead.then(|| mounts::cleared(&point)));
        let mounting = self.how_mounted.mounting(&point, self.how.serving()?.read_only)?;
        if !trees::names(engine.pool()).iter().any(|name| name == FILES) {
            // Before it takes space for nothing.
            if lacks::to_mount().is_empty() {
                engine.trees().ensure_place(&point)?;
            }
            let made = engine.trees().create(FILES, Some(ferrite_fs::SUPER_THRESHOLD_BYTES));
            made.map_err(|why| format!("making a file system in the pool (--no-mount serves it without one): {why}"))?;
        }
        let hides = mounts::would_hide(&point);
        if hides && self.mount.is_none() {
            return Err(format!("{} holds files: name a folder with --mount", in_line(&point)).into());
        }
        let mounted = engine.trees().mount(FILES, &mounting)?;
        mounted.awaited().into_iter().for_each(|told| remark!("{told}"));
        if hides {
            mounts::tell_hidden(&point);
        }
        Ok(point)
    }

    /// Refuses what makes no sense, before anything is made.
    fn check_disks(&self) -> Outcome {
        let mut names: Vec<&str> = self.disk.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Failure::Usage(format!("--disk {} is given twice", pair[0]))),
            None => Ok(()),
        }
    }

    /// Refuses a new pool without room for what is to be made in it, before anything is made.
    fn check_size(&self, path: &Path) -> Outcome {
        let size = self.size.unwrap_or(SIZE);
        if path.exists() {
            return Ok(());
        }
        pool::check_size(size)?;
        let mut wanted: Vec<u64> = self.disk.iter().map(|(_, size)| *size).collect();
        if self.makes_disk0() {
            wanted.push(DISK_BYTES_MIN);
        }
        let (mut chunks, mut page_bytes) = (0, 0);
        for size in wanted {
            let shape = Shape::of(&self.spec(size))?;
            (chunks, page_bytes) = (chunks + shape.chunks(), page_bytes + shape.page_bytes());
        }
        let disks = if self.makes_disk0() { "a disk" } else { "these disks" };
        let files = if self.no_mount { 0 } else { FILES_CHUNKS };
        let what = match (self.no_disk, self.no_mount) {
            (false, false) => format!("{disks} and a file system"),
            (false, true) => disks.into(),
            (true, _) => "a file system".into(),
        };
        let (there, needed) = (size / CHUNK, FIXED_CHUNKS + chunks + page_bytes.div_ceil(CHUNK));
        if there < needed + files {
            let (size, least) = (size::show(size), size::written((needed + files) * CHUNK));
            let or = if there < needed { "" } else { ", or --no-mount" };
            return Err(Failure::Usage(format!(
                "a pool of {size} has no room for {what}: --size {least} at least{or}"
            )));
        }
        Ok(())
    }

    /// Whether a pool without disks gets one unasked.
    fn makes_disk0(&self) -> bool {
        self.disk.is_empty() && !self.no_disk
    }

    fn spec(&self, size: u64) -> DiskSpec {
        DiskSpec { size, sector_bytes: 512, thin: false, checksum: self.checksum }
    }

    /// Whether there was none.
    fn make_pool(&self, path: &Path) -> Outcome<bool> {
        if let Ok(there) = fs::metadata(path) {
            if self.size.is_some_and(|size| there.is_file() && there.len() != size) {
                let (path, bytes) = (path.display(), size::show(there.len()));
                remark!("{path} is there already and has {bytes}: `ferrite pool grow` makes it larger, not --size");
            }
            return Ok(false);
        }
        let size = self.size.unwrap_or(SIZE);
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
        // Whoever is killed here leaves nothing that is taken for a pool, and nothing that is in the next one's way.
        let partial = host::beside(path, &format!(".{}", ferrite_pool::show_uuid(&host::random_uuid()?)));
        make_pool_file(&partial, size).map_err(|error| format!("making {}: {error}", partial.display()))?;
        let placed =
            pool::ours(&partial).and_then(|lock| pool::format(&lock, path)).and_then(|()| {
                match fs::hard_link(&partial, path) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
                    other => Ok(other.map(|()| true).map_err(|error| format!("making {}: {error}", path.display()))?),
                }
            });
        let _ = fs::remove_file(&partial);
        let is_new = placed?;
        host::settle_name(path)?;
        host::settle_name(folder)?;
        Ok(is_new)
    }

    fn make_disks(&self, engine: &Engine) -> Outcome {
        let there = disk_names(engine.pool());
        for (name, size) in &self.disk {
            let has = engine.pool().tag(name).ok().filter(|tag| there.contains(name) && tag.size != *size);
            if let Some(tag) = has {
                let bytes = size::show(tag.size);
                remark!("{name:?} is there already and has {bytes}: `ferrite disk resize` makes it larger, not --disk");
            }
        }
        let mut wanted: Vec<(String, u64)> = self.disk.clone();
        if self.makes_disk0() && there.is_empty() {
            wanted.push(("disk0".into(), self.disk0_bytes(engine)?));
        }
        for (name, size) in wanted.into_iter().filter(|(name, _)| !there.contains(name)) {
            let made = ferrite_block::create(engine.pool(), &name, &self.spec(size));
            made.map_err(|why| if self.makes_disk0() { without_room(&why) } else { why.into() })?;
        }
        Ok(())
    }

    /// Bytes of the disk that is made unasked: half of what the pool can come to have of its host, if that fits beside the
    /// rest. Where not even the smallest fits, that is refused as any other.
    fn disk0_bytes(&self, engine: &Engine) -> Outcome<u64> {
        let room = engine.medium().mapped.host_room()?;
        let lacked = room.map_or(0, |(lacked, left)| lacked.saturating_sub(left)).div_ceil(CHUNK);
        let of_host = |bytes: u64| (bytes / CHUNK).saturating_sub(lacked);
        let has_files = trees::names(engine.pool()).iter().any(|name| name == FILES);
        let others = if self.no_mount || has_files { 0 } else { FILES_CHUNKS };
        let usage = engine.pool().usage();
        let free = of_host(usage.free_bytes).saturating_sub(others);
        Ok(disk_bytes(of_host(usage.total_bytes) / 2, free).unwrap_or(DISK_BYTES_MIN))
    }

    /// The disk with its node, or why it has none.
    fn attached(&self, engine: &Engine, serving: &Serving, disk: AnnouncedDisk) -> AnnouncedDisk {
        if self.no_attach {
            return disk;
        }
        match engine.served().attach(&disk.name, serving) {
            Ok(node) => AnnouncedDisk { node: Some(node), ..disk },
            Err(why) => AnnouncedDisk { not_attached: Some(why), ..disk },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_made_unasked_is_as_large_as_fits() {
        let free = |chunks: u64| disk_bytes(16, chunks);
        assert_eq!((free(1), free(2), free(3)), (None, Some(DISK_BYTES_MIN), Some(CHUNK)));
        assert_eq!((free(10), free(18), free(1000)), (Some(8 * CHUNK), Some(16 * CHUNK), Some(16 * CHUNK)));
        assert_eq!(disk_bytes(u64::MAX / CHUNK, u64::MAX), Some(DISK_BYTES_MAX));
    }
}
