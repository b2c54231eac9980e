//! A disk as a real `/dev` node, or as a file that programs map.
//!
//! ```text
//! programs -> /dev/ferrite/NAME -> /dev/nbdN  -> socket pairs  -> threads of this process -> Disk
//!             (links)              /dev/loopN -> FUSE file     ->   without an NBD driver
//!                                  (direct I/O)  (direct I/O)
//! programs that map it ----------> page cache -> FUSE file     -> threads of this process -> Disk
//! ```
//!
//! The rules of files are AF in `cached_file` and AH in `attached_file`.
//!
//! - AT1. Every operation on the node reaches the disk: reads, writes, flushes (before the program's fsync returns),
//!   discards and zeroing. The disk's error reaches the program.
//! - AT2. This process never waits for its own node. A child without the FUSE connection and the sockets opens, binds and
//!   releases the device. So a server that is killed at any point dies at once.
//! - AT3. A node that is mounted or open is not detached, and no client may overwrite its whole disk; the error names
//!   the holders. A loop device over the node counts, and so does every other use by the kernel. While the node is
//!   mounted, clients that connect to its disk are read-only. Clients that connected earlier can still write, because
//!   checking each write costs a process. The user who mounts the node must make sure that no such client writes.
//! - AT4. The next server finds and clears the leftovers of a killed server and does not touch the resources of a live
//!   one.
//! - AT5. A server that ends detaches nodes that are in use, too. By then the data that their file systems hold is on
//!   the disk, or the server reports that the data may be lost. Programs that still use the node get errors.

mod attached_file;
mod cached_file;
mod child;
mod child_fd;
mod error;
mod export;
mod file_point;
pub(crate) mod fuse;
mod genl;
mod holders;
mod link;
mod loop_node;
mod lost_ranges;
mod nbd_node;
mod nbd_sockets;
mod node;
mod on_device;
mod options;
mod runtime_dir;
mod stale;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_fuse::{MountSpec, RootKind};

pub use attached_file::{AttachedFile, FileOptions, FileOwner, check_files};
pub use error::{Error, Result};
pub use on_device::lies_on;
pub use options::{Options, Way, check};
pub use stale::clear_stale;

use export::DiskFile;
use loop_node::{LoopNode, LoopShape};
use nbd_node::NbdNode;
use nbd_sockets::NbdSockets;
use node::BlockNode;
use runtime_dir::{DirLock, RuntimeDir};

/// Time that a released node may stay in use by programs that only look at it (a new node attracts some).
const PATIENCE: Duration = Duration::from_secs(5);

/// Time that file systems on a node may take to write their data when the server detaches the node under them.
const WRITING: Duration = Duration::from_secs(30);

/// A disk that is a `/dev` node until it is detached or dropped.
#[derive(Debug)]
pub struct Attached {
    disk: AttachedDisk,
    place: RuntimeDir,
    link: PathBuf,
    /// The shorter link, unless another disk has it.
    short: Option<PathBuf>,
    linked: AtomicBool,
    device: PathBuf,
    notes: Vec<String>,
    node: Option<BlockNode>,
    server: Option<NodeServer>,
    lock: Option<DirLock>,
}

/// The server behind the node.
#[derive(Debug)]
enum NodeServer {
    Nbd(NbdSockets),
    Fuse(fuse::FuseServer),
}

/// The disk of a node; a wrapper, because a [`Disk`] has no `Debug`.
struct AttachedDisk(Arc<dyn Disk>);

impl std::fmt::Debug for AttachedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.geometry().fmt(f)
    }
}

impl Attached {
    /// Makes `disk` a node. Clears first the leftovers of a killed server of the same name.
    ///
    /// The disk must not need the node: see [`lies_on`].
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if the machine cannot attach disks, [`Error::Held`] or [`Error::LinkTaken`] if
    /// another server has the name, and [`Error::Name`] for an invalid name. On an error nothing stays behind.
    pub fn new(disk: Arc<dyn Disk>, options: Options) -> Result<Self> {
        check()?;
        let place = RuntimeDir::make(&options.directory, &options.name)?;
        let lock = place.lock()?;
        let mut attached = Self {
            disk: AttachedDisk(disk),
            place,
            link: options.link,
            short: options.short,
            linked: AtomicBool::new(false),
            device: PathBuf::new(),
            notes: Vec::new(),
            node: None,
            server: None,
            lock: Some(lock),
        };
        attached.start(options.threads.max(1))?;
        Ok(attached)
    }

    /// Starts the node and makes its links. If a step fails, dropping the incomplete value undoes the steps before.
    fn start(&mut self, threads: usize) -> Result<()> {
        if let Some(lock) = &self.lock {
            stale::clear(&self.place, lock, &mut self.notes)?;
            link::check(&self.link, &self.place)?;
            Self::keep_short(&mut self.short, &self.link, &mut self.notes, |short| link::check(short, &self.place));
        }
        self.note_links()?;
        if let Err(error) = fuse::lock_memory() {
            self.notes.push(format!("memory is not locked ({error}): swapping may stall the node"));
        }
        self.start_best(threads)?;
        let Some((node, _)) = self.bound() else { return Ok(()) };
        link::make(&self.link, node, &self.place)?;
        self.linked.store(true, Ordering::Relaxed);
        Self::keep_short(&mut self.short, &self.link, &mut self.notes, |short| link::make(short, node, &self.place));
        self.note_links()
    }

    /// Drops the short link, with a note, if `have` fails to check or make the link.
    fn keep_short(
        short: &mut Option<PathBuf>,
        link: &Path,
        notes: &mut Vec<String>,
        have: impl FnOnce(&Path) -> Result<()>,
    ) {
        if let Some(Err(error)) = short.as_deref().map(have) {
            let why = match error {
                Error::LinkTaken { link, by } => format!("{} is taken by {by}", link.display()),
                error => error.to_string(),
            };
            notes.push(format!("{why}; this disk is only {}", link.display()));
            *short = None;
        }
    }

    /// Notes the links where other servers and the next server find them.
    fn note_links(&self) -> Result<()> {
        let noted = self.lock.as_ref().map_or(Ok(()), |lock| lock.note(self.links()));
        noted.map_err(Error::io("writing the lock file"))
    }

    fn links(&self) -> impl Iterator<Item = &Path> {
        [Some(self.link.as_path()), self.short.as_deref()].into_iter().flatten()
    }

    /// Starts the node by the kernel's NBD driver. If the driver is missing or refuses, starts it as a loop device.
    fn start_best(&mut self, threads: usize) -> Result<()> {
        if Way::Nbd.is_there() {
            match self.start_nbd(threads) {
                Ok(()) => return Ok(()),
                Err(error) => self.notes.push(format!("not {}: {error}", Way::Nbd.name())),
            }
        }
        self.start_loop(threads)
    }

    fn start_nbd(&mut self, threads: usize) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let connecting = || Error::io("connecting an NBD device");
        let (lines, ends) = NbdSockets::start(&self.disk.0, threads).map_err(connecting())?;
        let geometry = self.disk.0.geometry();
        let node = NbdNode::connect(self.place.root(), &geometry, &ends).map_err(connecting())?;
        // A container may lack the device's node; then no program could use it.
        node.scan(lock).or_else(|error| node.cut(lock).and(Err(error))).map_err(connecting())?;
        self.server = Some(NodeServer::Nbd(lines));
        self.set_node(BlockNode::Nbd(node));
        Ok(())
    }

    fn start_loop(&mut self, threads: usize) -> Result<()> {
        let point = self.place.mount_point();
        let mounting = || Error::io(format!("mounting {}", point.display()));
        std::fs::create_dir_all(&point).map_err(mounting())?;
        let export = DiskFile::new(self.disk.0.clone());
        let how = MountSpec { source: "ferrite", flags: 0, rest: "", root: RootKind::Folder };
        let server = fuse::FuseServer::start(export, &point, &how, threads).map_err(mounting())?;
        self.server = Some(NodeServer::Fuse(server));
        self.bind_loop()
    }

    fn set_node(&mut self, node: BlockNode) {
        self.node = Some(node);
        self.device = node.path();
    }

    /// Makes the links of a node whose release failed.
    fn make_links(&self) -> Result<()> {
        if let Some((node, _)) = self.bound() {
            self.linked.store(true, Ordering::Relaxed);
            self.links().try_for_each(|link| link::make(link, node, &self.place))?;
        }
        Ok(())
    }

    fn remove_links(&self) {
        if self.linked.swap(false, Ordering::Relaxed) {
            self.links().for_each(|link| _ = link::remove(link, &self.place));
        }
    }

    fn bind_loop(&mut self) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let geometry = self.disk.0.geometry();
        let shape = LoopShape { sector_bytes: geometry.sector_bytes, read_only: geometry.read_only };
        let node = LoopNode::bind(lock, &self.place.backing(), shape).map_err(Error::io("binding a loop device"))?;
        self.set_node(BlockNode::Loop(node));
        if !node.is_direct() {
            self.notes.push(format!("{} has no direct I/O: everything is cached twice", self.device.display()));
        }
        Ok(())
    }

    /// Returns the node, `/dev/nbdN` or `/dev/loopN`.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Returns the mechanism between the node and the disk.
    pub fn way(&self) -> Way {
        if matches!(self.server, Some(NodeServer::Nbd(_))) { Way::Nbd } else { Way::Loop }
    }

    /// Returns the shortest link that leads to the node.
    pub fn link(&self) -> &Path {
        self.short.as_deref().unwrap_or(&self.link)
    }

    /// Returns the link that leads to the node whatever other disks are attached.
    pub fn stable_link(&self) -> &Path {
        &self.link
    }

    /// Returns notes for people: the leftovers that were cleared before attaching, and the defects of the node.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Updates the node to the size of a disk that has grown.
    ///
    /// # Errors
    /// Returns the error of the driver.
    pub fn grow(&self) -> Result<()> {
        let Some((node, lock)) = self.bound() else { return Ok(()) };
        node.grow(lock, &self.place, &self.disk.0.geometry())
            .map_err(Error::io(format!("growing {}", self.device.display())))
    }

    /// Checks that no program uses the node.
    ///
    /// # Errors
    /// Returns [`Error::Busy`], which names the programs that use the node.
    pub fn ensure_unused(&self) -> Result<()> {
        let who = self.bound().map(|(node, lock)| holders::lasting_holders(node, lock)).unwrap_or_default();
        if who.is_empty() { Ok(()) } else { Err(self.busy(who)) }
    }

    /// Returns the mounts, swap areas and devices that use the node, each in words. If the kernel has the node in use
    /// and no list shows a user, the result names the kernel.
    pub fn claims(&self) -> Vec<String> {
        self.bound().map(|(node, lock)| holders::claims(node, lock)).unwrap_or_default()
    }

    /// Returns true if the node exists: a person may have removed it, for example by `losetup -d`.
    pub fn is_there(&self) -> bool {
        self.bound().is_some()
    }

    /// Detaches the node and flushes the disk. A second call does nothing.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] with the users of the node, which then stays attached. Returns [`Error::Flush`] if the
    /// node is gone but the disk could not be flushed.
    pub fn detach(&mut self) -> Result<()> {
        self.release()?;
        self.take_down()?;
        self.disk.0.flush().map_err(Error::Flush)
    }

    /// Removes only the node: the first step of [`Attached::detach`], which may wait for other programs.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] with the users of the node, which then stays attached.
    pub fn release(&self) -> Result<()> {
        if !self.is_there() {
            return Ok(());
        }
        self.ensure_unused()?;
        // After the release the device's number may belong to another server, so the links go first.
        self.remove_links();
        // If another server took the link in between, the link stays with that server. The caller needs the reason why
        // the node stays, not the error of the link.
        self.release_device().inspect_err(|_| _ = self.make_links())
    }

    /// Returns the device, unless another process has detached it: then it may belong to another server by now.
    fn bound(&self) -> Option<(BlockNode, &DirLock)> {
        let node = self.node.filter(|node| node.belongs_to(&self.place))?;
        Some((node, self.lock.as_ref()?))
    }

    fn busy(&self, mut who: Vec<String>) -> Error {
        if who.is_empty() {
            who.push(holders::UNSEEN.into());
        }
        Error::Busy { device: self.device.clone(), who }
    }

    fn release_device(&self) -> Result<()> {
        let Some((node, lock)) = self.bound() else { return Ok(()) };
        match node.release(lock) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(self.busy(holders::holders(node, lock)));
            }
            other => other.map_err(Error::io(format!("detaching {}", self.device.display())))?,
        }
        if node.wait_until_free(&self.place, PATIENCE) {
            return Ok(());
        }
        // The device was marked to go with its last user, which would be after the refusal.
        node.keep(lock, &self.place).map_err(Error::io(format!("keeping {}", self.device.display())))?;
        if self.is_there() { Err(self.busy(holders::holders(node, lock))) } else { Ok(()) }
    }

    /// Removes all resources except the device.
    fn take_down(&mut self) -> Result<()> {
        self.node = None;
        let Some(lock) = self.lock.take() else { return Ok(()) };
        self.remove_links();
        let point = self.place.mount_point();
        let stopping = || Error::io(format!("unmounting {}", point.display()));
        match self.server.take() {
            None => {}
            Some(NodeServer::Nbd(lines)) => lines.join().map_err(Error::io("ending the node's threads"))?,
            Some(NodeServer::Fuse(server)) => {
                ferrite_fuse::unmount(&point).map_err(stopping())?;
                server.join().map_err(stopping())?;
            }
        }
        lock.remove().map_err(Error::io(format!("removing the directory of {}", self.place.name())))
    }

    /// Detaches the node even while programs use it, and flushes the disk. A second call does nothing; dropping does
    /// the same.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if data of a file system on the node may be lost, and [`Error::Flush`] if the disk could
    /// not be flushed. The node is gone in both cases.
    pub fn end(&mut self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        self.detach().or_else(|_| self.abandon())
    }

    /// Releases a node that is in use. Its file systems are thawed, write their data and are unmounted lazily. Programs
    /// that still use the node after that get errors.
    fn abandon(&mut self) -> Result<()> {
        let mut written = Ok(());
        if let Some((node, lock)) = self.bound() {
            let points = holders::mounted("self", &node.devices());
            written = node
                .save_file_systems(lock, &points, WRITING)
                .map_err(Error::io(format!("having file systems on {} write what they hold", self.device.display())));
            let _ = fuse::unmount_in_child(lock, points);
            let _ = node.release_when_closed(lock);
            node.wait_until_free(&self.place, PATIENCE);
        }
        let _ = self.take_down();
        written.and(self.disk.0.flush().map_err(Error::Flush))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
