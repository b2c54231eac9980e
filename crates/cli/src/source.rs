//! Opening a disk by its address, also in a pool, and making the disk that a copy goes to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_daemon::disks;
use ferrite_daemon::disks::{DiskReport, DiskRequest, NbdAddresses, Serving};
use ferrite_disk::Disk;
use ferrite_disk_address::{CountedFlash, DiskAddress, DiskPlace, ModeledDisk, make_file, open_file, open_nbd};
use ferrite_nbd::client::unix_uri;
use ferrite_owner::services::{PoolRequest, TagRequest};
use ferrite_owner::{PoolReport, TagReport, TypedRequest};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::command_pool::CommandPool;
use crate::flash_drive;
use crate::foreign_image::{self, ForeignFormat, ImageServer};
use crate::host;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::size;
use crate::stop::Stop;

/// The size of a new disk or file is a multiple of these bytes.
const SECTOR: u64 = 512;

/// An open disk, and the pool or file that keeps it open.
pub struct Source {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    command_pool: Option<CommandPool>,
    flash: Vec<CountedFlash>,
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
    /// The size of the file or disk to make if it is missing, in bytes; rounded up to whole sectors.
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
    pub fn open(address: &DiskAddress, opening: Opening<'_>) -> Outcome<Self> {
        let source = match &address.place {
            DiskPlace::Nbd(uri) => Self::plain(open_nbd(uri, opening.read_only)?),
            DiskPlace::File(path) => Self::file(path, opening)?,
            DiskPlace::InPool { pool, name } => Self::in_pool(pool, name, opening)?,
        };
        match address.with_models(Arc::clone(&source.disk)) {
            Ok(ModeledDisk { disk, flash }) => Ok(Self { disk, flash, ..source }),
            Err(why) => and_then_cleared(Err(why.into()), source.discard(opening.beside)),
        }
    }

    fn plain(disk: Arc<dyn Disk>) -> Self {
        Self { disk, command_pool: None, flash: Vec::new(), reader: None, made: None }
    }

    fn file(path: &Path, opening: Opening<'_>) -> Outcome<Self> {
        if let Some(format) = opening.images.then(|| ForeignFormat::of(path)).flatten() {
            let (disk, reader) = foreign_image::open(path, format)?;
            return Ok(Self { reader: Some(reader), ..Self::plain(disk) });
        }
        let Some(bytes) = opening.make_bytes.filter(|_| !path.exists()) else {
            return Ok(Self::plain(open_file(path, opening.read_only)?));
        };
        make_file(path, bytes.next_multiple_of(SECTOR))?;
        let opened = open_file(path, opening.read_only).inspect_err(|_| _ = std::fs::remove_file(path))?;
        Ok(Self { made: Some(Made::File(path.into())), ..Self::plain(opened) })
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
        let connected = open_nbd(&uri, opening.read_only);
        // No other client may connect, and a killed owner could not remove the socket.
        let _ = std::fs::remove_file(&socket);
        Ok(Self { command_pool: Some(command_pool), ..Self::plain(connected?) })
    }

    /// Returns the pool that the disk lies in, if this process knows the pool.
    pub fn pool(&mut self) -> Outcome<Option<PoolReport>> {
        let Some(command_pool) = &mut self.command_pool else { return Ok(None) };
        Ok(Some(PoolReport { owner_pid: command_pool.owner_pid(), ..command_pool.ask(PoolRequest::Info, None)? }))
    }

    /// Answers the requests of other commands from now on, if this process owns the pool that the disk lies in.
    pub fn listen(&self) -> Outcome {
        self.command_pool.as_ref().map_or(Ok(()), CommandPool::listen)
    }

    /// Prints the counts of simulated flash drives, and closes the disk in order.
    pub fn close(self) -> Outcome {
        self.close_by(CommandPool::close)
    }

    /// Closes the disk as [`Source::close`] does, after [`Source::listen`]: other commands may have mounted something.
    pub fn end(self, stop: &Stop) -> Outcome {
        self.close_by(|command_pool| command_pool.end(stop))
    }

    fn close_by(self, close_pool: impl FnOnce(CommandPool) -> Outcome) -> Outcome {
        let message = self.flash.iter().try_for_each(flash_drive::print);
        drop((self.disk, self.flash, self.reader));
        and_then_cleared(message, self.command_pool.map_or(Ok(()), close_pool))
    }

    /// Closes the disk, and removes the file or disk that its opening made. `beside` stays open.
    pub fn discard(mut self, beside: Option<&Self>) -> Outcome {
        let made = self.made.take();
        let closed = self.close();
        and_then_cleared(closed, made.map_or(Ok(()), |made| made.remove(beside)))
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
