//! The disks of a pool that are open, each once, and where they are reached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use ferrite_block::{BlockDisk, BufferOptions, Buffered, DiskOptions, Syncers};
use ferrite_medium::{Disk, Error, Scheme, StatsDisk, Ticks, Tsc};
use ferrite_pool::Pool;
use ferrite_serve::attach::{self, Attached};
use ferrite_serve::nbd::{Listening, ListeningTcp, Network, NotNetwork, Options, Server, TcpOptions, Tls, TlsFiles};
use parking_lot::Mutex;

use crate::host;
use crate::request::{AttachReport, Door, OpenReport, Serving, TcpDoor};

/// An open disk, counted.
pub type Front = StatsDisk<Arc<dyn Disk>>;

/// It stays open when its last user goes: where writes wait for a flush it alone knows of them.
struct Open {
    front: Arc<Front>,
    block: Arc<BlockDisk>,
    buffer: Option<Buffer>,
    serving: Serving,
}

/// What holds writes back in DRAM, and the threads that write them on.
struct Buffer {
    buffered: Arc<Buffered<Arc<BlockDisk>>>,
    _syncers: Syncers<Arc<BlockDisk>>,
}

impl Open {
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

/// Closes the disk called `name`, which nobody uses, if it is open.
fn close_idle(open: &mut BTreeMap<String, Open>, name: &str) -> Result<(), String> {
    if let Some(idle) = open.get(name) {
        idle.front.flush().map_err(|error| error.to_string())?;
        open.remove(name);
    }
    Ok(())
}

/// A socket that serves disks for somebody.
struct Socket {
    /// The connection it is served for, and ends with; none where it is the owner's own.
    connection: Option<u64>,
    name: String,
    door: Door,
    unix: Listening,
    tcp: Option<ListeningTcp>,
}

/// The open disks of one pool.
pub struct Served {
    pool: Arc<Pool>,
    /// The pool's file, which must not lie on a node of its own.
    path: PathBuf,
    open: Mutex<BTreeMap<String, Open>>,
    /// Generations of those that nobody has opened since they were asked for space and had none.
    dry: Mutex<BTreeSet<u64>>,
    /// How the owner's own socket serves all of them.
    usual: Mutex<Serving>,
    nodes: Mutex<BTreeMap<String, Attached>>,
    sockets: Mutex<Vec<Socket>>,
}

impl Served {
    /// None yet, of `pool`, which lies at `path`.
    pub fn new(pool: Arc<Pool>, path: &Path) -> Self {
        let (open, dry, usual) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { pool, path: path.into(), open, dry, usual, nodes: Mutex::default(), sockets: Mutex::default() }
    }

    /// The disk called `name`, opened if it is not; `serving` must be how it is served already if it is.
    pub fn open(&self, name: &str, serving: &Serving) -> Result<Arc<Front>, String> {
        let wanted = self.settle_options(serving)?;
        let mut open = self.open.lock();
        match open.get(name) {
            Some(known) if known.serving == *serving => return Ok(Arc::clone(&known.front)),
            Some(known) if known.is_used() => {
                return Err(format!("{name:?} is served with other options already: see `ferrite disk stat`"));
            }
            _ => close_idle(&mut open, name)?,
        }
        let opened = self.open_new(name, wanted, serving)?;
        let front = Arc::clone(&opened.front);
        open.insert(name.into(), opened);
        Ok(front)
    }

    fn open_new(&self, name: &str, wanted: DiskOptions, serving: &Serving) -> Result<Open, String> {
        let block = BlockDisk::open(Arc::clone(&self.pool), name, wanted).map_err(|error| error.to_string())?;
        self.dry.lock().remove(&block.tag().generation);
        let buffer = serving.buffering.as_ref().map(|options| {
            let buffered = Buffered::in_front_of(Arc::clone(&block), BufferOptions::from(options))?;
            let syncers = Syncers::start(Arc::clone(&buffered))?;
            Ok(Buffer { buffered, _syncers: syncers })
        });
        let buffer = buffer.transpose().map_err(|error: Error| error.to_string())?;
        let top: Arc<dyn Disk> = match &buffer {
            Some(buffer) => buffer.buffered.clone(),
            None => block.clone(),
        };
        Ok(Open { front: Arc::new(StatsDisk::new(top)), block, buffer, serving: serving.clone() })
    }

    fn settle_options(&self, serving: &Serving) -> Result<DiskOptions, String> {
        let unknown = |what: &str, name: &str| format!("there is no {what} {name:?}: see `ferrite disk serve --help`");
        let named = |name: &String| Scheme::from_name(name).ok_or_else(|| unknown("scheme", name));
        let scheme = serving.scheme.as_ref().map(named).transpose()?.unwrap_or_default();
        scheme.ensure_available().map_err(|error| error.to_string())?;
        Ok(DiskOptions {
            scheme,
            in_place: serving.in_place,
            read_only: serving.read_only,
            verify: serving.verify,
            stages: serving.stages.then_some(cycles),
        })
    }

    /// Does `change` while the disk called `name` is not open; refuses if somebody uses it.
    pub fn while_closed<T>(&self, name: &str, change: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let mut open = self.open.lock();
        if open.get(name).is_some_and(Open::is_used) {
            drop(open);
            return Err(format!("{name:?} is in use: {}; end that first", self.reached_at(name).join(", ")));
        }
        close_idle(&mut open, name)?;
        change()
    }

    /// Where the disk called `name` is reached.
    pub fn reached_at(&self, name: &str) -> Vec<String> {
        self.at(name, |socket| socket.name.is_empty() || socket.name == name)
    }

    /// How disks are served to who does not say how.
    pub fn usual(&self) -> Serving {
        self.usual.lock().clone()
    }

    fn at(&self, name: &str, is_wanted: impl Fn(&Socket) -> bool) -> Vec<String> {
        let sockets = self.sockets.lock();
        let served = sockets.iter().filter(|socket| is_wanted(socket));
        let uris = |socket: &Socket| socket.door.uris(name, socket.tcp.as_ref().map(ListeningTcp::address));
        let nodes = self.nodes.lock();
        let node = nodes.get(name).filter(|node| node.is_there()).map(|node| node.link().display().to_string());
        served.flat_map(uris).chain(node).collect()
    }

    /// Whether any can be reached, by a node or a socket.
    pub fn is_reached(&self) -> bool {
        self.nodes.lock().values().any(Attached::is_there) || !self.sockets.lock().is_empty()
    }

    /// What the disk called `name` does, if it is open.
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
            used_bytes: block.used_and_free_bytes().0,
            unsaved_bytes: open.buffer.as_ref().map(|buffer| buffer.buffered.unsaved_bytes()),
            stages: block.stages().map(|stages| stages.totals()),
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

    /// Serves disks at `door`, as long as `connection` stands or to the end: the one called `name`, or all where that
    /// is empty. The TCP address it got, where it has one.
    pub fn listen(
        self: &Arc<Self>,
        door: &Door,
        name: &str,
        serving: &Serving,
        connection: Option<u64>,
    ) -> Result<Option<SocketAddr>, String> {
        let only = match name {
            "" => {
                *self.usual.lock() = serving.clone();
                None
            }
            name => Some((name.to_owned(), self.open(name, serving)?)),
        };
        let tcp = door.tcp.as_ref().map(tcp_options).transpose()?;
        let exports = Arc::new(View { served: Arc::clone(self), only, serving: serving.clone() });
        let server = Server::new(exports, Options::default());
        let unix = server.listen_unix(&door.unix).map_err(|error| error.to_string())?;
        let tcp = tcp.map(|(address, options)| server.listen_tcp(address, options)).transpose();
        let tcp = tcp.map_err(|error| error.to_string())?;
        let address = tcp.as_ref().map(ListeningTcp::address);
        self.sockets.lock().push(Socket { connection, name: name.into(), door: door.clone(), unix, tcp });
        Ok(address)
    }

    /// Ends what was served for as long as `connection` stood.
    pub fn end_for(&self, connection: u64) {
        let ended: Vec<Socket> =
            self.sockets.lock().extract_if(.., |socket| socket.connection == Some(connection)).collect();
        for socket in ended {
            socket.end();
        }
    }

    /// Makes the disk called `name` a node.
    pub fn attach(&self, name: &str, serving: &Serving) -> Result<AttachReport, String> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(name).filter(|node| node.is_there()) {
            return Ok(report(node));
        }
        // Where somebody else took it away, the rest of it goes as well.
        if let Some(mut gone) = nodes.remove(name) {
            gone.detach().map_err(|error| error.to_string())?;
        }
        let front = self.open(name, serving)?;
        let directory = host::attach_directory(self.pool.superblock().uuid);
        let node = self.attach_at_free_link(&front, attach::Options::new(name, directory))?;
        let lies_on = attach::lies_on(&self.path, node.device()).map_err(|error| error.to_string())?;
        if lies_on {
            return Err(format!("the pool {} lies on {name:?} itself", self.path.display()));
        }
        Ok(report(nodes.entry(name.into()).or_insert(node)))
    }

    /// Refuses a file on a disk that is attached here: who writes to it while the pool stands still waits for ever.
    pub fn refuse_own(&self, file: &Path) -> Result<(), String> {
        for (name, node) in &*self.nodes.lock() {
            if attach::lies_on(&ferrite_pool::led_to(file), node.device()).map_err(|error| error.to_string())? {
                let file = file.display();
                return Err(format!("{file} lies on the disk {name:?} itself: name a place outside of the pool"));
            }
        }
        Ok(())
    }

    /// Where a disk of another pool has the link, as `disk0` of two pools, the pool's name goes into it, and where that
    /// is not enough its identity.
    fn attach_at_free_link(&self, front: &Arc<Front>, options: attach::Options) -> Result<Attached, String> {
        let pool = self.path.file_name().unwrap_or_default().to_string_lossy();
        let uuid = ferrite_pool::show_uuid(&self.pool.superblock().uuid);
        let named = |before: &str| options.link.with_file_name(format!("{before}-{}", options.name));
        let mut first = None;
        for link in [options.link.clone(), named(&pool), named(&uuid)] {
            match Attached::new(front.clone(), attach::Options { link, ..options.clone() }) {
                Err(taken @ attach::Error::LinkTaken { .. }) => _ = first.get_or_insert(taken),
                other => return other.map_err(|error| error.to_string()),
            }
        }
        Err(first.map(|taken| taken.to_string()).unwrap_or_default())
    }

    /// Takes the node of the disk called `name` away.
    pub fn detach(&self, name: &str) -> Result<(), String> {
        let mut nodes = self.nodes.lock();
        let node = nodes.get_mut(name).ok_or_else(|| format!("{name:?} is not attached"))?;
        node.detach().map_err(|error| error.to_string())?;
        nodes.remove(name);
        Ok(())
    }

    /// Refuses while programs use the node of the disk called `name`, where it has one.
    pub fn ensure_node_unused(&self, name: &str) -> Result<(), String> {
        let nodes = self.nodes.lock();
        let unused = nodes.get(name).map_or(Ok(()), Attached::ensure_unused);
        unused.map_err(|error| format!("{name:?} is not overwritten: {error}"))
    }

    /// The mounts, swap and devices that have the node of the disk called `name`, where it has one.
    fn claims(&self, name: &str) -> Vec<String> {
        self.nodes.lock().get(name).map(Attached::claims).unwrap_or_default()
    }

    /// Grows the disk called `name`, and its node if it has one.
    pub fn resize(&self, name: &str, size: u64) -> Result<(), String> {
        let Some(block) = self.open.lock().get(name).map(|open| Arc::clone(&open.block)) else {
            let tag = self.pool.tag(name).map_err(|error| error.to_string())?;
            let grow = || ferrite_block::resize(&self.pool, &tag, size).map(drop);
            // Who is asked for space may be opened for that.
            let grown = self.pool.with_spare(|| match self.while_closed(name, || Ok(grow())) {
                Ok(grown) => grown.map(Ok),
                Err(why) => Ok(Err(why)),
            });
            return grown.map_err(|error| error.to_string())?;
        };
        block.resize(size).map_err(|error| error.to_string())?;
        let nodes = self.nodes.lock();
        nodes.get(name).map_or(Ok(()), |node| node.grow().map_err(|error| error.to_string()))
    }

    /// The nodes that cannot be taken away now, and why. The others are gone.
    pub fn detach_all(&self) -> Vec<String> {
        let names: Vec<String> = self.nodes.lock().keys().cloned().collect();
        names.iter().filter_map(|name| self.detach(name).err()).collect()
    }

    /// Stops serving, whatever is still in use, and makes everything durable.
    pub fn end(&self) -> Result<(), String> {
        let fronts: Vec<Arc<Front>> = self.open.lock().values().map(|open| Arc::clone(&open.front)).collect();
        let sockets = std::mem::take(&mut *self.sockets.lock());
        for socket in sockets {
            socket.end();
        }
        self.nodes.lock().clear();
        // What one of them refuses is no reason to lose what the others hold back.
        let flushed = fronts.iter().map(|front| front.flush().map_err(|error| error.to_string()));
        flushed.fold(Ok(()), Result::and)
    }
}

impl Socket {
    /// Lets what is under way finish, and serves no more. The two are doors of one server.
    fn end(self) {
        self.unix.stop();
        drop(self.tcp);
    }
}

fn tcp_options(door: &TcpDoor) -> Result<(SocketAddr, TcpOptions), String> {
    let allow: Result<Vec<Network>, _> = door.allow.iter().map(|network| network.parse()).collect();
    let load = |(certificate, key, client_authority): &(PathBuf, PathBuf, Option<PathBuf>)| {
        Tls::load(&TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authority: client_authority.clone(),
        })
    };
    let tls = door.tls.as_ref().map(load).transpose().map_err(|error| error.to_string())?;
    Ok((door.address, TcpOptions { allow: allow.map_err(|error: NotNetwork| error.to_string())?, tls }))
}

fn report(node: &Attached) -> AttachReport {
    let (device, link) = (node.device().into(), node.link().into());
    AttachReport { device, link, way: node.way().name().into(), notes: node.notes().to_vec() }
}

mod unopened;
mod view;

use view::View;
pub use view::disk_names;

#[cfg(test)]
mod tests;
