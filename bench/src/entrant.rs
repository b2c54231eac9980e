//! Who takes part where files are worked on: a file system in process, or one that is mounted, by its worker; and who
//! copies without one.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use ferrite_fs::{FileSystem, SUPER_THRESHOLD_BYTES};
use ferrite_pool::layout::CHUNK;

use crate::Result;
use crate::node::Node;
use crate::owner::Owner;
use crate::records::{BareFolder, LibraryFolder, Order, obey};
use crate::tree::Shut;
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
    Bare(BareFolder),
    Here(LibraryFolder),
    // The worker ends before the node is unmounted.
    There(Box<(Worker, Node)>),
    Run(Box<(Worker, Owner)>),
}

impl Entrant {
    /// A file system of ours, in process.
    pub fn library(name: &'static str, fs: Arc<FileSystem>) -> Self {
        Self { name, hand: Hand::Here(LibraryFolder { fs }) }
    }

    /// No file system: copies and fences on at least `bytes` of memory like a pool's in `place`; or with new files alone,
    /// that have sizes.
    pub fn bare(name: &'static str, place: &Path, bytes: u64, has_sizes: bool) -> Result<Self> {
        Ok(Self { name, hand: Hand::Bare(BareFolder::new(place, bytes, has_sizes)?) })
    }

    /// `node`, made anew and mounted, by a worker of `ferrite`'s; it `syncs` where each write is to be durable.
    pub fn mounted(name: &'static str, node: Node, ferrite: &Path, syncs: bool) -> Result<Self> {
        node.format()?;
        let worker = Worker::start((NO_WAY, ferrite), node.path(), syncs)?;
        Ok(Self { name, hand: Hand::There(Box::new((worker, node))) })
    }

    /// The file system `name` of `pool`, mounted on `point` by a process of `ferrite`'s, by a worker that `ferrite run`
    /// runs; `None` where that program is not the whole one.
    pub fn run(
        name: &'static str,
        (pool, tree): (Arc<Shut>, &'static str),
        ferrite: &Path,
        point: &Path,
    ) -> Result<Option<Self>> {
        let Some(owner) = Owner::start(ferrite, pool, tree, point)? else { return Ok(None) };
        let way = [ferrite.as_os_str(), OsStr::new("run"), OsStr::new("--")];
        let worker = Worker::start((&way, ferrite), point, false)?;
        Ok(Some(Self { name, hand: Hand::Run(Box::new((worker, owner))) }))
    }

    /// Whether `order` is one for it.
    pub fn takes(&self, order: &Order) -> bool {
        match &self.hand {
            Hand::Bare(folder) => folder.takes(order),
            _ => true,
        }
    }

    /// Has `order` done.
    pub fn order(&mut self, order: &Order) -> Result<f64> {
        match &mut self.hand {
            Hand::Bare(folder) => folder.order(order),
            Hand::Here(folder) => obey(folder, order),
            Hand::There(there) => there.0.order(order),
            Hand::Run(there) => {
                let value = there.0.order(order)?;
                if let Order::Prepare { files, file_bytes } = *order
                    && file_bytes >= SUPER_THRESHOLD_BYTES
                {
                    there.1.wait_for_superpages(files * (file_bytes / CHUNK * CHUNK))?;
                }
                Ok(value)
            }
        }
    }

    /// Has what waits in the background done, so that it falls into nobody's time.
    pub fn settle(&self) -> Result<()> {
        match &self.hand {
            Hand::Here(folder) => folder.settle(),
            Hand::There(there) => there.1.settle(),
            // Its owner does it.
            Hand::Run(_) => Ok(()),
            Hand::Bare(_) => Ok(()),
        }
    }
}
