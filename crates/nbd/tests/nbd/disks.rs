//! Disks and exports for the tests.

use std::sync::{Arc, Condvar, Mutex};

use ferrite_disk::{Access, Disk, Geometry, RamDisk, Run, Zeroing};
use ferrite_memory::{Error, Result, Span};
use ferrite_nbd::{Exports, Options, Refusal, Server};

/// Size of the disks of these tests, in bytes.
pub const SIZE: u64 = 64 << 20;
/// A sector that [`Probe`] cannot read.
pub const BAD: Span = Span::new(1 << 20, 512);
/// An offset, in bytes, at which [`Probe`] panics when it is trimmed.
pub const MINE: u64 = 2 << 20;
/// An offset, in bytes, at which a trim of [`Probe`] waits for [`Probe::open_gate`].
pub const GATE: u64 = 3 << 20;

/// A RAM disk that records the requests that reach it, and fails at certain places.
pub struct Probe {
    ram: RamDisk,
    seen: Mutex<Vec<String>>,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Default)]
struct Gate {
    waiting: usize,
    open: bool,
}

impl Probe {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            ram: RamDisk::new(SIZE),
            seen: Mutex::default(),
            gate: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    /// Returns the requests that reached the disk since the last call, without reads of data and extents.
    pub fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn note(&self, what: String) {
        self.seen.lock().unwrap().push(what);
    }

    pub fn wait_at_gate(&self) {
        let mut gate = self.gate.lock().unwrap();
        while gate.waiting == 0 {
            gate = self.moved.wait(gate).unwrap();
        }
    }

    pub fn open_gate(&self) {
        self.gate.lock().unwrap().open = true;
        self.moved.notify_all();
    }

    fn pass_gate(&self) {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting += 1;
        self.moved.notify_all();
        while !gate.open {
            gate = self.moved.wait(gate).unwrap();
        }
    }
}

impl Disk for Probe {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.ram.geometry() }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        if at < BAD.at + BAD.len && at + into.len() as u64 > BAD.at {
            into.fill(0xee);
            return Err(Error::Damaged(BAD.at));
        }
        self.ram.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.note(format!("write {at}+{} {access:?}", from.len()));
        self.ram.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.note("flush".into());
        Ok(())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        match span.at {
            MINE => panic!("a disk that panics, which this test provokes"),
            GATE => self.pass_gate(),
            _ => {}
        }
        self.note(format!("trim {}+{} {access:?}", span.at, span.len));
        self.ram.trim(span, access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        if how.fast && how.keep_space {
            return Err(Error::Unsupported("this would be slow".into()));
        }
        self.note(format!("zero {}+{} {:?} keep {} fast {}", span.at, span.len, how.access, how.keep_space, how.fast));
        self.ram.write_zeroes(span, how)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.ram.extents(span)
    }
}

/// Exports: `disk0` with a description, then the others; `locked` is refused.
pub struct Named(pub Vec<(&'static str, Arc<dyn Disk>)>);

impl Exports for Named {
    fn list(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn open(&self, name: &str) -> std::result::Result<Arc<dyn Disk>, Refusal> {
        if name == "locked" {
            return Err(Refusal::Denied("somebody else holds it".into()));
        }
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, disk)| Arc::clone(disk)).ok_or(Refusal::Unknown)
    }

    fn description(&self, name: &str) -> Option<String> {
        (name == "disk0").then(|| "the first disk".into())
    }
}

/// Creates a server of one disk.
pub fn server(disk: Arc<dyn Disk>) -> Server {
    server_with(disk, Options::default())
}

/// Creates a server of one disk, with options.
pub fn server_with(disk: Arc<dyn Disk>, options: Options) -> Server {
    Server::new(Arc::new(Named(vec![("disk0", disk)])), options)
}
