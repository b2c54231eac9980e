//! Any disk, by its address.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_daemon::disks;
use ferrite_daemon::disks::{DiskReport, DiskRequest, Door, Serving};
use ferrite_disk::{Disk, FileDisk, FileDiskOptions, HddDisk, HddProfile, SsdDisk, SsdProfile};
use ferrite_disk_address::HostClock;
use ferrite_nbd::client::{ConnectOptions, NbdDisk, unix_uri};
use ferrite_owner::services::{PoolRequest, TagRequest};
use ferrite_owner::{PoolReport, TagReport, TypedRequest};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::flash_drive::Drive;
use crate::foreign_image::{self, ForeignFormat, ImageServer};
use crate::host;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::reach::Reach;
use crate::size;

/// Bytes that the size of a new disk or file is a multiple of.
const SECTOR: u64 = 512;

/// What addresses there are, for help texts.
pub const ADDRESSES: &str = "POOL:NAME (a disk in a pool), nbd+unix:///NAME?socket=PATH, nbd://HOST/NAME, a file or \
    block device, or one of these behind hdd-7200:, hdd-15000:, hdd-5400:, ssd-x25e:, ssd-sata:, ssd-nvme: or \
    ssd-nvme-plp:, which serves it at the speed of such a disk, or behind ftl-page: or ftl-fast:, which tells at the end \
    what a flash drive of its size would have copied and erased";

/// An open disk, and what keeps it open.
pub struct Source {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    reach: Option<Reach>,
    drives: Vec<Drive>,
    /// Reads it, if it is an image in another program's format.
    reader: Option<ImageServer>,
    made: Option<Made>,
}

/// What opening a disk has made.
enum Made {
    File(PathBuf),
    InPool { pool: PathBuf, name: String },
}

/// How an address is opened.
#[derive(Clone, Copy, Default)]
pub struct Opening<'a> {
    /// Refuse writes.
    pub read_only: bool,
    /// All of it is to be overwritten: refuse a disk that is mounted, or in use as a node.
    pub overwrite: bool,
    /// If it names a file or a disk of a pool that is not there, make one of so many bytes, rounded up to whole sectors.
    pub make_bytes: Option<u64>,
    /// Read the images of virtual machines as what they hold, rather than as the bytes of a file.
    pub images: bool,
    /// What is open already, maybe in the same pool, which this process then owns.
    pub beside: Option<&'a Source>,
}

/// Why a disk that another process serves read-only cannot be written to.
fn read_only(disk: &DiskReport, owner: Option<u32>) -> String {
    let name = &disk.name;
    if disk.usual.read_only {
        let owner = owner.map_or("its pool's owner".into(), |pid| format!("process {pid}, which owns the pool,"));
        return format!("{name:?} is read-only: {owner} serves all disks so; start that without --read-only");
    }
    let at = disk.open.as_ref().map(|open| open.served_at.join(", ")).unwrap_or_default();
    format!("{name:?} is read-only as long as it is served so at {at}: end that first")
}

impl Source {
    /// Opens the disk at `address`.
    pub fn open(address: &str, opening: Opening<'_>) -> Outcome<Self> {
        if let Some((profile, rest)) = address.split_once(':').filter(|(name, _)| simulates(name)) {
            let source = Self::open(rest, opening)?;
            return Ok(Self { disk: simulated(profile, source.disk), ..source });
        }
        if let Some((scheme, rest)) = address.split_once(':').filter(|(name, _)| Drive::is_named(name)) {
            let mut source = Self::open(rest, opening)?;
            let drive = Drive::new(scheme, &source.disk)?;
            source.disk = drive.disk();
            source.drives.push(drive);
            return Ok(source);
        }
        if address.contains("://") {
            let options = ConnectOptions { read_only: opening.read_only, ..ConnectOptions::default() };
            return Ok(Self::plain(Arc::new(NbdDisk::connect(address, &options)?)));
        }
        match pool_and_name(address) {
            Some((pool, name)) if !Path::new(address).exists() => Self::in_pool(Path::new(pool), name, opening),
            _ => Self::file(Path::new(address), opening),
        }
    }

    fn plain(disk: Arc<dyn Disk>) -> Self {
        Self { disk, reach: None, drives: Vec::new(), reader: None, made: None }
    }

    fn file(path: &Path, opening: Opening<'_>) -> Outcome<Self> {
        if path == Path::new("-") {
            return Err(Failure::Usage(
                "- is no disk, which is read and written at any place: name a file (./- if it is called so)".into(),
            ));
        }
        if let Some(format) = opening.images.then(|| ForeignFormat::of(path)).flatten() {
            let (disk, reader) = foreign_image::open(path, format)?;
            return Ok(Self { reader: Some(reader), ..Self::plain(disk) });
        }
        if let Some(bytes) = opening.make_bytes.filter(|_| !path.exists()) {
            host::make_file(path, bytes.next_multiple_of(SECTOR))
                .map_err(|error| format!("making {}: {error}", path.display()))?;
            let opened = Self::file(path, Opening { make_bytes: None, ..opening });
            let opened = opened.inspect_err(|_| _ = std::fs::remove_file(path))?;
            return Ok(Self { made: Some(Made::File(path.into())), ..opened });
        }
        if !opening.read_only {
            ferrite_pool::ensure_no_pool(path)?;
        }
        let options = FileDiskOptions { read_only: opening.read_only, ..FileDiskOptions::default() };
        let disk = FileDisk::open(path, &options)?;
        let (found, size) = (std::fs::metadata(path)?, disk.geometry().size);
        if found.is_file() && found.len() != size {
            let (path, bytes) = (path.display(), found.len());
            return Err(Failure::Failed(format!(
                "{path} has {bytes} bytes, and a disk whole sectors: what is behind byte {size} would be left out; \
                 `truncate --size=%512` fills the last one up"
            )));
        }
        Ok(Self::plain(Arc::new(disk)))
    }

    fn in_pool(pool: &Path, name: &str, opening: Opening<'_>) -> Outcome<Self> {
        if let Some(bytes) = opening.make_bytes
            && Self::make_in_pool(pool, name, bytes, opening.beside)?
        {
            let made = Made::InPool { pool: pool.into(), name: name.into() };
            return match Self::in_pool(pool, name, Opening { make_bytes: None, ..opening }) {
                Ok(opened) => Ok(Self { made: Some(made), ..opened }),
                Err(why) => and_then_cleared(Err(why), made.remove(opening.beside)),
            };
        }
        let serving = Serving { read_only: opening.read_only, ..Serving::default() };
        let known = opening.beside.and_then(|source| source.reach.as_ref()?.ours_at(pool));
        if let Some(owner) = known {
            return Ok(Self::plain(disks(owner).open_known(name, &serving)?));
        }
        let reach = Reach::new(pool)?;
        let Some(opened) = reach.owner().map(|owner| disks(owner).open_known(name, &serving)) else {
            return Self::served(reach, pool, name, opening);
        };
        match opened {
            Ok(disk) => Ok(Self { reach: Some(reach), ..Self::plain(disk) }),
            Err(why) => and_then_cleared(Err(why.into()), reach.close()),
        }
    }

    /// Makes the disk called `name` of `bytes` if nothing in the pool is called so; returns whether it did.
    fn make_in_pool(pool: &Path, name: &str, bytes: u64, beside: Option<&Self>) -> Outcome<bool> {
        let tags: Vec<TagReport> = ask(pool, TagRequest::List, beside)?;
        if tags.iter().any(|tag| tag.name == name) {
            return Ok(false);
        }
        let size = bytes.next_multiple_of(SECTOR);
        let sector_bytes = SECTOR as u32;
        let request = DiskRequest::Create { name: name.into(), size, sector_bytes, thin: false, checksum: false };
        ask::<Value>(pool, request, beside)?;
        remark!("there was no {name:?} in {}: made a disk of {}", pool.display(), size::show(size));
        Ok(true)
    }

    /// The owner serves it to us alone: as it is in use already, or else as the owner serves disks.
    fn served(mut reach: Reach, pool: &Path, name: &str, opening: Opening<'_>) -> Outcome<Self> {
        let now: DiskReport = reach.ask(DiskRequest::Stat { name: name.into() }, None)?;
        let used = now.open.as_ref().filter(|open| open.in_use);
        let serving = used.map_or(&now.usual, |open| &open.serving).clone();
        if serving.read_only && !opening.read_only {
            return Err(read_only(&now, reach.owner_pid()).into());
        }
        let end = if opening.read_only { "from" } else { "to" };
        let socket = host::beside(pool, &format!(".{}.{end}.nbd", std::process::id()));
        let door = Door { unix: std::path::absolute(&socket)?, tcp: None };
        let request = DiskRequest::Serve { name: name.into(), door, serving, overwrite: opening.overwrite };
        reach.ask::<Value>(request, None)?;
        let uri = unix_uri(name, &socket);
        let options = ConnectOptions { read_only: opening.read_only, ..ConnectOptions::default() };
        let connected = NbdDisk::connect(&uri, &options);
        // Nobody else is to come in, and an owner that is killed could not remove it.
        let _ = std::fs::remove_file(&socket);
        Ok(Self { reach: Some(reach), ..Self::plain(Arc::new(connected?)) })
    }

    /// The pool it lies in, where that is known here.
    pub fn pool(&mut self) -> Outcome<Option<PoolReport>> {
        let Some(reach) = &mut self.reach else { return Ok(None) };
        Ok(Some(PoolReport { owner_pid: reach.owner_pid(), ..reach.ask(PoolRequest::Info, None)? }))
    }

    /// Lets go of it in order, and tells what simulated flash drives have counted.
    pub fn close(self) -> Outcome {
        let told = self.drives.iter().try_for_each(Drive::tell);
        drop((self.disk, self.drives, self.reader));
        and_then_cleared(told, self.reach.map_or(Ok(()), Reach::close))
    }

    /// Closes it, and removes what its opening has made, beside what was open already.
    pub fn discard(mut self, beside: &Self) -> Outcome {
        let made = self.made.take();
        let closed = self.close();
        and_then_cleared(closed, made.map_or(Ok(()), |made| made.remove(Some(beside))))
    }
}

impl Made {
    fn remove(self, beside: Option<&Source>) -> Outcome {
        match self {
            Self::File(path) => Ok(std::fs::remove_file(path)?),
            Self::InPool { pool, name } => ask::<Value>(&pool, DiskRequest::Remove { name }, beside).map(drop),
        }
    }
}

/// Asks the owner of `pool` for `request`: this process, if it has the pool because of what is open already. A signal does
/// not cancel it.
fn ask<T: DeserializeOwned>(pool: &Path, request: impl TypedRequest, beside: Option<&Source>) -> Outcome<T> {
    match beside.and_then(|source| source.reach.as_ref()?.ours_at(pool)) {
        Some(owner) => Reach::from(Arc::clone(owner)).ask_to_end(request),
        None => {
            let mut reach = Reach::new(pool)?;
            let answer = reach.ask_to_end(request);
            and_then_cleared(answer, reach.close())
        }
    }
}

/// What POOL:NAME means. Both may have a `:` in them, so what counts is where a pool is.
fn pool_and_name(address: &str) -> Option<(&str, &str)> {
    let holds_pool = |path: &str| {
        let looked_at = ferrite_pool::ensure_no_pool(Path::new(path));
        matches!(looked_at, Err(ferrite_pool::Error::Occupied(_)))
    };
    let mut ways = address.match_indices(':').map(|(at, _)| (&address[..at], &address[at + 1..]));
    ways.find(|(pool, _)| holds_pool(pool)).or_else(|| address.rsplit_once(':'))
}

/// Whether two addresses are of one disk, as far as that can be told before they are opened.
pub fn is_one_disk(one: &str, other: &str) -> bool {
    identity(one) == identity(other)
}

/// The file or device that a disk lies in, where there is one, and its name there.
fn identity(address: &str) -> (Option<(u64, u64)>, &str) {
    let address = without_models(address);
    let (path, name) = match pool_and_name(address) {
        _ if address.contains("://") => return (None, address),
        Some((pool, name)) if !Path::new(address).exists() => (pool, name),
        _ => (address, ""),
    };
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_block_device() => (Some((0, found.rdev())), name),
        Ok(found) => (Some((found.dev(), found.ino())), name),
        Err(_) => (None, address),
    }
}

/// The address of what is simulated on, or counted.
fn without_models(mut address: &str) -> &str {
    let is_model = |name: &str| simulates(name) || Drive::is_named(name);
    while let Some((_, rest)) = address.split_once(':').filter(|(name, _)| is_model(name)) {
        address = rest;
    }
    address
}

fn simulates(name: &str) -> bool {
    HddProfile::named(name).is_some() || SsdProfile::named(name).is_some()
}

fn simulated(profile: &str, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    let clock = HostClock::new();
    match (HddProfile::named(profile), SsdProfile::named(profile)) {
        (Some(profile), _) => Arc::new(HddDisk::new(disk, &profile, clock, 1)),
        (None, Some(profile)) => Arc::new(SsdDisk::new(disk, &profile, clock, 1)),
        (None, None) => disk,
    }
}

/// Refuses two disks of which one does not fit the other.
pub fn check_fit(from: u64, to: u64) -> Outcome {
    if from <= to {
        return Ok(());
    }
    let (shown_from, shown_to) = (size::show(from), size::show(to));
    Err(Failure::Failed(format!(
        "{shown_from} ({from} bytes) do not fit a disk of {shown_to} ({to} bytes): name a larger one, or grow it"
    )))
}
