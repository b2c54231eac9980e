//! Who takes part where files are worked on: a file system in process, or one that is mounted, by its worker.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use ferrite_fs::FileSystem;

use crate::Result;
use crate::node::Node;
use crate::records::{LibraryFolder, Order, obey};
use crate::worker::Worker;

/// A worker is run as it is.
const NO_WAY: &[&OsStr] = &[];

/// One of those who take part.
pub struct Entrant {
    /// Its name in the report.
    pub name: &'static str,
    hand: Hand,
}

/// How it is worked on.
enum Hand {
    Here(LibraryFolder),
    // The worker ends before the node is unmounted.
    There(Box<(Worker, Node)>),
}

impl Entrant {
    /// A file system of ours, in process.
    pub fn library(name: &'static str, fs: Arc<FileSystem>) -> Self {
        Self { name, hand: Hand::Here(LibraryFolder { fs }) }
    }

    /// `node`, made anew and mounted, by a worker of `ferrite`'s; it `syncs` where each write is to be durable.
    pub fn mounted(name: &'static str, node: Node, ferrite: &Path, syncs: bool) -> Result<Self> {
        node.format()?;
        let worker = Worker::start((NO_WAY, ferrite), node.path(), syncs)?;
        Ok(Self { name, hand: Hand::There(Box::new((worker, node))) })
    }

    /// Has `order` done.
    pub fn order(&mut self, order: &Order) -> Result<f64> {
        match &mut self.hand {
            Hand::Here(folder) => obey(folder, order),
            Hand::There(there) => there.0.order(order),
        }
    }

    /// Has what waits in the background done, so that it falls into nobody's time.
    pub fn settle(&self) -> Result<()> {
        match &self.hand {
            Hand::Here(folder) => folder.settle(),
            Hand::There(there) => there.1.settle(),
        }
    }
}
