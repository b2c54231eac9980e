//! The open disks of a pool, each opened once, with their sockets and nodes.

mod disk_metrics;
mod exports;
mod files;
mod nodes;
mod request;
mod service;
mod unopened;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use ferrite_block::{BlockDisk, BufferOptions, Buffered, DiskOptions, Syncers};
use ferrite_disk::{Disk, Geometry, ReadOnlyDisk, StatsDisk};
use ferrite_memory::{Error, Scheme, Ticks, Tsc, monotonic_ns};
use ferrite_nbd::{Listening, ListeningTcp, Network, NotNetwork, Options, Server, TcpOptions, Tls, TlsFiles};
use ferrite_owner::{RunningServices, ServiceRegistry};
use ferrite_pool::{Failure, Pool, TagKind};
use parking_lot::Mutex;

use exports::SocketExports;
use files::FileSlot;
use nodes::NodeHandle;

pub use exports::disk_names;
pub use nodes::attach_directory;
pub use request::{
    AttachReport, Buffering, DISK, DiskReport, DiskRequest, FaultyDiskReport, FileReport, FileSpec, NbdAddresses,
    OpenReport, Serving, TcpAddress, TlsPaths,
};
pub use service::DiskService;

/// The number of times that a change looks whether the last user of a disk has left, and the time between two looks.
const LEAVING_ROUNDS_MAX: u32 = 50;
const LEAVING_ROUND: Duration = Duration::from_millis(10);

/// An open disk, counted.
pub type CountedDisk = StatsDisk<Arc<dyn Disk>>;

/// An open disk. It stays open after its last user: only it knows the writes that wait for a flush.
struct OpenDisk {
    front: Arc<CountedDisk>,
    /// The disk of a tag of kind DISK; `None` if another service opened the tag as a disk.
    block: Option<Arc<BlockDisk>>,
    buffer: Option<DiskBuffer>,
    serving: Serving,
}

/// The buffers that hold writes back in DRAM, and the threads that write them to the pool.
struct DiskBuffer {
    buffered: Arc<Buffered<Arc<BlockDisk>>>,
    _syncers: Syncers<Arc<BlockDisk>>,
}

impl OpenDisk {
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.front) > 1
    }
}

/// Cycles of the processor, for the counts of stages.
fn cycles() -> u64 {
    static TSC: LazyLock<Option<Tsc>> = LazyLock::new(|| {
        let start = Instant::now();
        Tsc::calibrate(move || start.elapsed().as_nanos() as u64).ok()
    });
    TSC.as_ref().map_or(0, Ticks::now)
}

/// Closes the disk called `name`, which is not in use, if it is open.
fn close_idle(open: &mut BTreeMap<String, OpenDisk>, name: &str) -> Result<(), Failure> {
    if let Some(idle) = open.get(name) {
        idle.front.flush()?;
        open.remove(name);
    }
    Ok(())
}

/// A socket that serves disks.
struct DiskSocket {
    /// The connection that asked for the socket, and with which it ends; `None` for the owner's own socket.
    connection: Option<u64>,
    name: String,
    nbd_addresses: NbdAddresses,
    unix: Listening,
    tcp: Option<ListeningTcp>,
}

/// The open disks of one pool.
pub struct OpenDisks {
    pool: Arc<Pool>,
    registry: Arc<ServiceRegistry>,
    running: Weak<RunningServices>,
    /// This, for the sockets that it serves.
    itself: Weak<Self>,
    /// The pool's file, which must not lie on a node of its own.
    path: PathBuf,
    open: Mutex<BTreeMap<String, OpenDisk>>,
    /// Generations of disks that had no space to spare when they were asked last, and were not opened since.
    dry: Mutex<BTreeSet<u64>>,
    /// The options of the owner's own socket.
    usual: Mutex<Serving>,
    nodes: Mutex<BTreeMap<String, NodeHandle>>,
    files: Mutex<BTreeMap<String, FileSlot>>,
    /// Held to attach a disk.
    attaching: Mutex<()>,
    sockets: Mutex<Vec<DiskSocket>>,
}

impl OpenDisks {
    /// Returns the disks of `pool`, whose file is at `path`; none of them is open. `running` are the services beside this
    /// one, whose tags may be disks, too.
    pub fn new(
        pool: Arc<Pool>,
        path: &Path,
        registry: Arc<ServiceRegistry>,
        running: Weak<RunningServices>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            pool,
            registry,
            running,
            itself: itself.clone(),
            path: path.into(),
            open: Mutex::default(),
            dry: Mutex::default(),
            usual: Mutex::default(),
            nodes: Mutex::default(),
            files: Mutex::default(),
            attaching: Mutex::default(),
            sockets: Mutex::default(),
        })
    }

    /// Returns the disk called `name`, and opens it if it is not open. A disk in use must be served with the options
    /// `serving`.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::NotFound`] if no disk has the name, [`ferrite_pool::FailureKind::Busy`] if
    /// it is a file or in use with other options; else the failure of opening the tag.
    pub fn open(&self, name: &str, serving: &Serving) -> Result<Arc<CountedDisk>, Failure> {
        self.ensure_no_file(name)?;
        let opened = self.open_beside(name, serving)?;
        // A thread that made the file in between has found the disk in use, or has it alone.
        self.ensure_no_file(name)?;
        Ok(opened)
    }

    /// As [`OpenDisks::open`], for the file that shows the disk.
    fn open_beside(&self, name: &str, serving: &Serving) -> Result<Arc<CountedDisk>, Failure> {
        let wanted = disk_options(serving)?;
        // A service may have to connect to devices before its disk is open. That does not hold the lock.
        let _of_other_service = self.open_of_other_service(name, serving)?;
        let mut open = self.open.lock();
        match open.get(name) {
            Some(known) if known.serving == *serving => return Ok(Arc::clone(&known.front)),
            Some(known) if known.is_used() => {
                return Err(Failure::busy(format!(
                    "{name:?} is served with other options already: see `ferrite disk stat`"
                )));
            }
            _ => close_idle(&mut open, name)?,
        }
        let opened = self.open_new(name, wanted, serving)?;
        let front = Arc::clone(&opened.front);
        open.insert(name.into(), opened);
        Ok(front)
    }

    fn open_new(&self, name: &str, wanted: DiskOptions, serving: &Serving) -> Result<OpenDisk, Failure> {
        if let Some(disk) = self.open_of_other_service(name, serving)? {
            let front = Arc::new(StatsDisk::timed(disk, monotonic_ns));
            return Ok(OpenDisk { front, block: None, buffer: None, serving: serving.clone() });
        }
        let block = BlockDisk::open(Arc::clone(&self.pool), name, wanted)?;
        self.dry.lock().remove(&block.tag().generation);
        let buffer = serving.buffering.as_ref().map(|options| {
            let buffered = Buffered::in_front_of(Arc::clone(&block), BufferOptions::from(options))?;
            let syncers = Syncers::start(Arc::clone(&buffered))?;
            Ok(DiskBuffer { buffered, _syncers: syncers })
        });
        let buffer = buffer.transpose().map_err(|error: Error| Failure::from(error))?;
        let top: Arc<dyn Disk> = match &buffer {
            Some(buffer) => buffer.buffered.clone(),
            None => block.clone(),
        };
        let front = Arc::new(StatsDisk::timed(top, monotonic_ns));
        Ok(OpenDisk { front, block: Some(block), buffer, serving: serving.clone() })
    }

    /// Opens a tag of another kind, if its service opens tags as disks. Of `serving` only the refusal of writes applies.
    fn open_of_other_service(&self, name: &str, serving: &Serving) -> Result<Option<Arc<dyn Disk>>, Failure> {
        let is_own = self.pool.tag(name).is_ok_and(|tag| tag.kind == TagKind::DISK);
        let Some(running) = self.running.upgrade().filter(|_| !is_own) else { return Ok(None) };
        let disk = running.open_disk(&self.pool, name).transpose()?;
        Ok(disk.map(|disk| if serving.read_only { Arc::new(ReadOnlyDisk::new(disk)) } else { disk }))
    }

    /// Returns the names of all tags that can be opened as disks, by name.
    pub fn all_names(&self) -> Vec<String> {
        let mut names = disk_names(&self.pool);
        names.extend(self.running.upgrade().into_iter().flat_map(|running| running.disk_names()));
        names.sort_unstable();
        names
    }

    /// Does `change` while the disk called `name` is closed; refused while the disk is in use.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] while the disk is in use; else the failure of `change`.
    pub fn while_closed<T>(&self, name: &str, change: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut open = self.open.lock();
        // The session of a client that has just ended may still be leaving.
        for _ in 0..LEAVING_ROUNDS_MAX {
            if !open.get(name).is_some_and(OpenDisk::is_used) {
                break;
            }
            drop(open);
            std::thread::sleep(LEAVING_ROUND);
            open = self.open.lock();
        }
        if open.get(name).is_some_and(OpenDisk::is_used) {
            drop(open);
            let at = self.reached_at(name).join(", ");
            return Err(Failure::busy(format!("{name:?} is in use: {at}; end that first")));
        }
        close_idle(&mut open, name)?;
        change()
    }

    /// Returns the addresses and the node of the disk called `name`.
    pub fn reached_at(&self, name: &str) -> Vec<String> {
        self.at(name, |socket| socket.name.is_empty() || socket.name == name)
    }

    /// Returns the options for clients that name none.
    pub fn usual(&self) -> Serving {
        self.usual.lock().clone()
    }

    fn at(&self, name: &str, is_wanted: impl Fn(&DiskSocket) -> bool) -> Vec<String> {
        let sockets = self.sockets.lock();
        let served = sockets.iter().filter(|socket| is_wanted(socket));
        let uris =
            |socket: &DiskSocket| socket.nbd_addresses.uris(name, socket.tcp.as_ref().map(ListeningTcp::address));
        served.flat_map(uris).chain(self.node_link(name)).chain(self.file_path(name)).collect()
    }

    /// Returns true if a node, a file or a socket serves a disk.
    pub fn is_reached(&self) -> bool {
        self.is_attached() || self.has_files() || !self.sockets.lock().is_empty()
    }

    /// Returns the geometry of the disk called `name`, if it is open.
    fn open_geometry(&self, name: &str) -> Option<Geometry> {
        self.open.lock().get(name).map(|open| open.front.geometry())
    }

    /// Describes the use of the disk called `name`, if it is open.
    pub fn report(&self, name: &str) -> Option<OpenReport> {
        let served_at = self.at(name, |socket| socket.name == name);
        let all = self.open.lock();
        let open = all.get(name)?;
        let (front, block) = (&open.front, &open.block);
        let stats = front.stats();
        Some(OpenReport {
            in_use: open.is_used(),
            serving: open.serving.clone(),
            served_at,
            used_bytes: block.as_ref().map_or(front.geometry().size, |block| block.used_and_free_bytes().0),
            unsaved_bytes: open.buffer.as_ref().map(|buffer| buffer.buffered.unsaved_bytes()),
            stages: block.as_ref().and_then(|block| block.stages()).map(|stages| stages.totals()),
            volatile_cache: front.geometry().volatile_cache,
            reads: stats.reads,
            read_bytes: stats.read_bytes,
            writes: stats.writes,
            written_bytes: stats.written_bytes,
            flushes: stats.flushes,
            fua: stats.fua,
            trims: stats.trims,
            zeroings: stats.zeroings,
            errors: stats.errors,
        })
    }

    /// Serves disks at `nbd_addresses` until `connection` ends, or without it until the owner ends: the disk called
    /// `name`, or all disks if `name` is empty. Returns the TCP address that the disks got.
    ///
    /// # Errors
    /// As [`OpenDisks::open`]; the kind [`ferrite_pool::FailureKind::Failed`] if a socket cannot be bound or the TLS
    /// files cannot be used.
    pub fn listen(
        &self,
        nbd_addresses: &NbdAddresses,
        name: &str,
        serving: &Serving,
        connection: Option<u64>,
    ) -> Result<Option<SocketAddr>, Failure> {
        let only = match name {
            "" => {
                *self.usual.lock() = serving.clone();
                None
            }
            name => Some((name.to_owned(), self.open(name, serving)?)),
        };
        let tcp = nbd_addresses.tcp.as_ref().map(tcp_options).transpose()?;
        let exports = Arc::new(SocketExports {
            disks: self.itself.upgrade().expect("it is in use"),
            only,
            serving: serving.clone(),
        });
        let server = Server::new(exports, Options::default());
        let unix = server.listen_unix(&nbd_addresses.unix).map_err(Failure::failed)?;
        let tcp = tcp.map(|(address, options)| server.listen_tcp(address, options)).transpose();
        let tcp = tcp.map_err(Failure::failed)?;
        let address = tcp.as_ref().map(ListeningTcp::address);
        self.sockets.lock().push(DiskSocket {
            connection,
            name: name.into(),
            nbd_addresses: nbd_addresses.clone(),
            unix,
            tcp,
        });
        Ok(address)
    }

    /// Ends the sockets of `connection`.
    pub fn end_for(&self, connection: u64) {
        let ended: Vec<DiskSocket> =
            self.sockets.lock().extract_if(.., |socket| socket.connection == Some(connection)).collect();
        for socket in ended {
            socket.end();
        }
    }

    /// Grows the disk called `name`, and its node.
    ///
    /// # Errors
    /// The failure of the disk, or of its node.
    pub fn resize(&self, name: &str, size: u64) -> Result<(), Failure> {
        let Some(block) = self.open.lock().get(name).and_then(|open| open.block.clone()) else {
            let tag = self.pool.tag(name)?;
            let grow = || ferrite_block::resize(&self.pool, &tag, size).map(drop);
            // A service that is asked for space may open the disk for that.
            let grown = self.pool.with_spare(|| match self.while_closed(name, || Ok(grow())) {
                Ok(grown) => grown.map(Ok),
                Err(why) => Ok(Err(why)),
            });
            return grown?;
        };
        block.resize(size)?;
        self.node(name).map_or(Ok(()), |node| node.read().grow().map_err(Failure::failed))
    }

    /// Stops serving, even if disks are in use, and makes all data durable.
    ///
    /// # Errors
    /// The first failure of a disk that cannot be flushed; the other disks are flushed all the same.
    pub fn end_all(&self) -> Result<(), Failure> {
        let fronts: Vec<Arc<CountedDisk>> = self.open.lock().values().map(|open| Arc::clone(&open.front)).collect();
        let sockets = std::mem::take(&mut *self.sockets.lock());
        for socket in sockets {
            socket.end();
        }
        let nodes = std::mem::take(&mut *self.nodes.lock());
        // A failure of one disk does not keep the others from being flushed.
        let files = self.end_files();
        let ended = nodes.into_values().map(|node| node.write().end().map_err(Failure::failed));
        let flushed = fronts.iter().map(|front| front.flush().map_err(Failure::from));
        ended.chain(flushed).fold(files, Result::and)
    }
}

impl DiskSocket {
    /// Completes the requests at work, and ends both addresses, which belong to one server.
    fn end(self) {
        self.unix.stop();
        drop(self.tcp);
    }
}

/// The options of the block layer for `serving`.
fn disk_options(serving: &Serving) -> Result<DiskOptions, Failure> {
    let unknown = |what: &str, name: &str| {
        Failure::refused(format!("there is no {what} {name:?}: see `ferrite disk serve --help`"))
    };
    let named = |name: &String| Scheme::from_name(name).ok_or_else(|| unknown("scheme", name));
    let scheme = serving.scheme.as_ref().map(named).transpose()?.unwrap_or_default();
    scheme.ensure_available()?;
    Ok(DiskOptions {
        scheme,
        in_place: serving.in_place,
        read_only: serving.read_only,
        verify: serving.verify,
        stages: serving.stages.then_some(cycles),
    })
}

fn tcp_options(tcp: &TcpAddress) -> Result<(SocketAddr, TcpOptions), Failure> {
    let allow: Result<Vec<Network>, _> = tcp.allow.iter().map(|network| network.parse()).collect();
    let load = |TlsPaths { certificate, key, client_authority }: &TlsPaths| {
        Tls::load(&TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authority: client_authority.clone(),
        })
    };
    let tls = tcp.tls.as_ref().map(load).transpose().map_err(Failure::failed)?;
    Ok((tcp.address, TcpOptions { allow: allow.map_err(|error: NotNetwork| Failure::failed(error))?, tls }))
}

#[cfg(test)]
mod tests;
