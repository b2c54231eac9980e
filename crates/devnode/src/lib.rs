//! A disk as a real `/dev` node.
//!
//! ```text
//! programs -> /dev/ferrite/NAME -> /dev/nbdN  -> socket pairs  -> threads of this process -> Disk
//!             (links)              /dev/loopN -> FUSE file     ->   where there is no NBD driver
//!                                  (direct I/O)  (direct I/O)
//! ```
//!
//! - AT1. What reaches the node reaches the disk: reads, writes, flushes (before the program's fsync returns), discards
//!   and zeroing; and the disk's error reaches the program.
//! - AT2. This process never waits for its own node: a child without the FUSE connection and the sockets opens, binds and
//!   releases the device, so a server that is killed at any point dies at once.
//! - AT3. A node that is mounted or open is not detached, nor is its disk given to who overwrites all of it; its holders
//!   are named. A loop device over it counts, and whatever else the kernel has it for. Who connects to the disk of one
//!   that is mounted may only read it; who connected before that keeps what he had, for asking at each write costs a
//!   process, so it is the mounter's part to see that nobody writes.
//! - AT4. What a killed server left is found and cleared by the next one; what a live one holds is not touched.
//! - AT5. A server that ends takes nodes away that are in use, too. What file systems on them hold is on the disk then, or it
//!   is told that it may be lost; who uses them still has errors.

mod child;
mod child_fd;
mod error;
mod export;
pub(crate) mod fuse;
mod genl;
mod holders;
mod link;
mod loop_node;
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

/// How long a released node may stay in use by programs that only look at it (a new node draws some).
const PATIENCE: Duration = Duration::from_secs(5);

/// How long file systems on a node that is taken away from them may take to write what they hold.
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

/// What answers for the node.
#[derive(Debug)]
enum NodeServer {
    Nbd(NbdSockets),
    Fuse(fuse::FuseServer),
}

/// A disk has no `Debug`.
struct AttachedDisk(Arc<dyn Disk>);

impl std::fmt::Debug for AttachedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.geometry().fmt(f)
    }
}

impl Attached {
    /// Makes `disk` a node. What a killed server of the same name left is cleared first.
    ///
    /// The disk must not need the node: see [`lies_on`].
    ///
    /// # Errors
    /// [`Error::Missing`] where the machine cannot do it, [`Error::Held`] and [`Error::LinkTaken`] where another has
    /// the name, [`Error::Name`] for one that is none. Nothing stays behind.
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

    /// What fails here is undone by dropping the half-made.
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

    /// Gives up the short link, with a note, if `have` fails to check or make it.
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

    /// Notes the links where other servers and the next one look for them.
    fn note_links(&self) -> Result<()> {
        let noted = self.lock.as_ref().map_or(Ok(()), |lock| lock.note(self.links()));
        noted.map_err(Error::io("writing the lock file"))
    }

    fn links(&self) -> impl Iterator<Item = &Path> {
        [Some(self.link.as_path()), self.short.as_deref()].into_iter().flatten()
    }

    /// By the kernel's NBD driver; where that is not there or does not do it, by the other way.
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
        // A container may lack the device's node; then nobody could use it.
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
        self.server = Some(NodeServer::Fuse(fuse::FuseServer::start(export, &point, threads).map_err(mounting())?));
        self.bind_loop()
    }

    fn set_node(&mut self, node: BlockNode) {
        self.node = Some(node);
        self.device = node.path();
    }

    /// Makes the links of a node that is not released after all.
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

    /// The node, `/dev/nbdN` or `/dev/loopN`.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// What lies between the node and the disk.
    pub fn way(&self) -> Way {
        if matches!(self.server, Some(NodeServer::Nbd(_))) { Way::Nbd } else { Way::Loop }
    }

    /// The shortest link that leads to it.
    pub fn link(&self) -> &Path {
        self.short.as_deref().unwrap_or(&self.link)
    }

    /// The link that leads to it whatever other disks are attached.
    pub fn stable_link(&self) -> &Path {
        &self.link
    }

    /// What was cleared before attaching, and what is not as it should be; for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Takes over the size of a disk that has grown.
    ///
    /// # Errors
    /// What the driver said.
    pub fn grow(&self) -> Result<()> {
        let Some((node, lock)) = self.bound() else { return Ok(()) };
        node.grow(lock, &self.place, &self.disk.0.geometry())
            .map_err(Error::io(format!("growing {}", self.device.display())))
    }

    /// Refuses while programs use the node.
    ///
    /// # Errors
    /// [`Error::Busy`] names them.
    pub fn ensure_unused(&self) -> Result<()> {
        let who = self.bound().map(|(node, lock)| holders::lasting_holders(node, lock)).unwrap_or_default();
        if who.is_empty() { Ok(()) } else { Err(self.busy(who)) }
    }

    /// The mounts, swap and devices that have the node, each in words; the kernel, where it has it and does not tell for
    /// whom.
    pub fn claims(&self) -> Vec<String> {
        self.bound().map(|(node, lock)| holders::claims(node, lock)).unwrap_or_default()
    }

    /// Whether the node is there: a person may have taken it away, by `losetup -d` for one.
    pub fn is_there(&self) -> bool {
        self.bound().is_some()
    }

    /// Takes the node away and flushes the disk. Done already, it does nothing.
    ///
    /// # Errors
    /// [`Error::Busy`] names who uses the node, which then stays as it is; [`Error::Flush`] when the node is gone but
    /// the disk could not be flushed.
    pub fn detach(&mut self) -> Result<()> {
        self.release()?;
        self.take_down()?;
        self.disk.0.flush().map_err(Error::Flush)
    }

    /// Takes the node alone away, as [`Attached::detach`] begins: the part of it that waits for others.
    ///
    /// # Errors
    /// [`Error::Busy`] names who uses the node, which then stays as it is.
    pub fn release(&self) -> Result<()> {
        if !self.is_there() {
            return Ok(());
        }
        self.ensure_unused()?;
        // Once released the device's number may become another's, so the links go first.
        self.remove_links();
        // Who took the link meanwhile has it; why the node stays is what is to be told.
        self.release_device().inspect_err(|_| _ = self.make_links())
    }

    /// The device, unless someone else has taken it away and it may be another's by now.
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
        // It was told to go with its last user, which would be after the refusal.
        node.keep(lock, &self.place).map_err(Error::io(format!("keeping {}", self.device.display())))?;
        if self.is_there() { Err(self.busy(holders::holders(node, lock))) } else { Ok(()) }
    }

    /// Removes all but the device.
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

    /// Takes the node away whoever uses it, and flushes the disk. Done already, it does nothing; dropping does the same.
    ///
    /// # Errors
    /// [`Error::Io`] when what a file system on it held may be lost, [`Error::Flush`] when the disk could not be flushed; the
    /// node is gone all the same.
    pub fn end(&mut self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        self.detach().or_else(|_| self.abandon())
    }

    /// Lets go of a node that is in use: its file systems are thawed, write what they hold and are unmounted lazily; who
    /// still uses the node after that gets errors.
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
