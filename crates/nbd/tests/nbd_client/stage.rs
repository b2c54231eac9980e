//! Disks, servers and sockets for the tests.

use std::sync::Arc;

use ferrite_disk::{Disk, RamDisk};
use ferrite_nbd::client::{ConnectOptions, NbdDisk};
use ferrite_nbd::{Exports, Listening, Options, Refusal, Server};
use tempfile::{TempDir, tempdir};

/// Size of the disks of these tests, in bytes.
pub const SIZE: u64 = 16 << 20;

/// Exports with one disk, `disk0`.
pub struct One(pub Arc<dyn Disk>);

impl Exports for One {
    fn list(&self) -> Vec<String> {
        vec!["disk0".into()]
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Refusal> {
        if name == "disk0" { Ok(Arc::clone(&self.0)) } else { Err(Refusal::Unknown) }
    }
}

/// A served disk.
pub struct Stage {
    pub dir: TempDir,
    pub listening: Option<Listening>,
}

impl Stage {
    pub fn new() -> Self {
        Self::of(Arc::new(RamDisk::new(SIZE)))
    }

    pub fn of(disk: Arc<dyn Disk>) -> Self {
        let dir = tempdir().unwrap();
        let server = Server::new(Arc::new(One(disk)), Options::default());
        let listening = server.listen_unix(&dir.path().join("socket")).unwrap();
        Self { dir, listening: Some(listening) }
    }

    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.dir.path().join("socket").display())
    }

    pub fn connect(&self) -> NbdDisk {
        NbdDisk::connect(&self.uri("disk0"), &ConnectOptions::default()).unwrap()
    }
}
