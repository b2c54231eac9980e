//! Opening a disk by its address.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_daemon::disks;
use ferrite_daemon::disks::{DiskReport, DiskRequest, NbdAddresses, Serving};
use ferrite_disk::{Disk, FileDisk, FileDiskOptions, HddDisk, HddProfile, SsdDisk, SsdProfile};
use ferrite_disk_address::HostClock;
use ferrite_nbd::client::{ConnectOptions, NbdDisk, unix_uri};
use ferrite_owner::services::{PoolRequest, TagRequest};
use ferrite_owner::{PoolReport, TagReport, TypedRequest};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::command_pool::CommandPool;
use crate::flash_drive::Drive;
use crate::foreign_image::{self, ForeignFormat, ImageServer};
use crate::host;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::size;

/// The size of a new disk or file is a multiple of these bytes.
const SECTOR: u64 = 512;

/// The kinds of addresses, for help texts.
pub const ADDRESSES: &str = "POOL:NAME (a disk in a pool), nbd+unix:///NAME?socket=PATH, nbd://HOST/NAME, a file or \
    block device, or one of these behind hdd-7200:, hdd-15000:, hdd-5400:, ssd-x25e:, ssd-sata:, ssd-nvme: or \
    ssd-nvme-plp:, which serves it at the speed of such a disk, or behind ftl-page: or ftl-fast:, which tells at the end \
    what a flash drive of its size would have copied and erased";

/// An open disk, and the pool or file that keeps it open.
pub struct Source {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    command_pool: Option<CommandPool>,
    drives: Vec<Drive>,
    /// The program that reads the disk, if it is an image in the format of another program.
    reader: Option<ImageServer>,
    made: Option<Made>,
}

/// A file or disk that the opening made.
enum Made {
    File(PathBuf),
    InPool { pool: PathBuf, name: String },
}

/// The options for opening an address.
#[derive(Clone, Copy, Default)]
pub struct Opening<'a> {
    /// True to refuse writes.
    pub read_only: bool,
    /// True if the caller overwrites the whole disk. Then the opening refuses a mounted disk, and a disk in use as a
    /// node.
    pub overwrite: bool,
    /// The size of the file or disk to make if the address names none, in bytes; rounded up to whole sectors.
    pub make_bytes: Option<u64>,
    /// True to open the content of an image of a virtual machine, rather than the bytes of its file.
    pub images: bool,
    /// An open disk, which may lie in the same pool; then this process may own that pool.
    pub beside: Option<&'a Source>,
}

/// Returns the message about a disk that another process serves read-only.
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
        Self { disk, command_pool: None, drives: Vec::new(), reader: None, made: None }
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
        let known = opening.beside.and_then(|source| source.command_pool.as_ref()?.ours_at(pool));
        if let Some(owner) = known {
            return Ok(Self::plain(disks(owner).open_known(name, &serving)?));
        }
        let command_pool = CommandPool::new(pool)?;
        let Some(opened) = command_pool.owner().map(|owner| disks(owner).open_known(name, &serving)) else {
            return Self::served(command_pool, pool, name, opening);
        };
        match opened {
            Ok(disk) => Ok(Self { command_pool: Some(command_pool), ..Self::plain(disk) }),
            Err(why) => and_then_cleared(Err(why.into()), command_pool.close()),
        }
    }

    /// Makes the disk called `name` with `bytes` if the pool has no tag of that name. Returns true if it made the disk.
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

    /// Opens a disk that the owner serves to this process alone. A disk in use keeps its options; otherwise the
    /// defaults apply.
    fn served(mut command_pool: CommandPool, pool: &Path, name: &str, opening: Opening<'_>) -> Outcome<Self> {
        let now: DiskReport = command_pool.ask(DiskRequest::Stat { name: name.into() }, None)?;
        let used = now.open.as_ref().filter(|open| open.in_use);
        let serving = used.map_or(&now.usual, |open| &open.serving).clone();
        if serving.read_only && !opening.read_only {
            return Err(read_only(&now, command_pool.owner_pid()).into());
        }
        let end = if opening.read_only { "from" } else { "to" };
        let socket = host::beside(pool, &format!(".{}.{end}.nbd", std::process::id()));
        let nbd_addresses = NbdAddresses { unix: std::path::absolute(&socket)?, tcp: None };
        let request = DiskRequest::Serve { name: name.into(), nbd_addresses, serving, overwrite: opening.overwrite };
        command_pool.ask::<Value>(request, None)?;
        let uri = unix_uri(name, &socket);
        let options = ConnectOptions { read_only: opening.read_only, ..ConnectOptions::default() };
        let connected = NbdDisk::connect(&uri, &options);
        // No other client may connect, and a killed owner could not remove the socket.
        let _ = std::fs::remove_file(&socket);
        Ok(Self { command_pool: Some(command_pool), ..Self::plain(Arc::new(connected?)) })
    }

    /// Returns the pool that the disk lies in, if this process knows the pool.
    pub fn pool(&mut self) -> Outcome<Option<PoolReport>> {
        let Some(command_pool) = &mut self.command_pool else { return Ok(None) };
        Ok(Some(PoolReport { owner_pid: command_pool.owner_pid(), ..command_pool.ask(PoolRequest::Info, None)? }))
    }

    /// Prints the counts of simulated flash drives, and closes the disk in order.
    pub fn close(self) -> Outcome {
        let message = self.drives.iter().try_for_each(Drive::print);
        drop((self.disk, self.drives, self.reader));
        and_then_cleared(message, self.command_pool.map_or(Ok(()), CommandPool::close))
    }

    /// Closes the disk, and removes the file or disk that its opening made. `beside` stays open.
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

/// Sends `request` to the owner of `pool`, which is this process if `beside` lies in the pool. A signal does not cancel
/// the request.
fn ask<T: DeserializeOwned>(pool: &Path, request: impl TypedRequest, beside: Option<&Source>) -> Outcome<T> {
    match beside.and_then(|source| source.command_pool.as_ref()?.ours_at(pool)) {
        Some(owner) => CommandPool::from(Arc::clone(owner)).ask_to_end(request),
        None => {
            let mut command_pool = CommandPool::new(pool)?;
            let answer = command_pool.ask_to_end(request);
            and_then_cleared(answer, command_pool.close())
        }
    }
}

/// Splits POOL:NAME. Both may contain a `:`, so the first part that is the path of a pool counts.
fn pool_and_name(address: &str) -> Option<(&str, &str)> {
    let holds_pool = |path: &str| {
        let looked_at = ferrite_pool::ensure_no_pool(Path::new(path));
        matches!(looked_at, Err(ferrite_pool::Error::Occupied(_)))
    };
    let mut ways = address.match_indices(':').map(|(at, _)| (&address[..at], &address[at + 1..]));
    ways.find(|(pool, _)| holds_pool(pool)).or_else(|| address.rsplit_once(':'))
}

/// Returns true if two addresses name one disk, as far as this is known before the opening.
pub fn is_one_disk(one: &str, other: &str) -> bool {
    identity(one) == identity(other)
}

/// Returns the file or device that a disk lies in, and the name of the disk there; `None` for another kind of address.
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

/// Returns the address of the disk below a simulated or counted disk.
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

/// Refuses two disks whose sizes do not match.
pub fn check_fit(from: u64, to: u64) -> Outcome {
    if from <= to {
        return Ok(());
    }
    let (shown_from, shown_to) = (size::show(from), size::show(to));
    Err(Failure::Failed(format!(
        "{shown_from} ({from} bytes) do not fit a disk of {shown_to} ({to} bytes): name a larger one, or grow it"
    )))
}
