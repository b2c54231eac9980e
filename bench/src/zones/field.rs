//! Who is measured: the ways into our file system, and the kernel's own in memory.

use std::ffi::OsStr;
use std::path::Path;

use ferrite_fs::SUPER_THRESHOLD_BYTES;

use crate::Result;
use crate::node::{self, Ground, Node, Yard};
use crate::options::Options;
use crate::records::{LibraryFolder, Order, obey};
use crate::scratch::Scratch;
use crate::tree::{Grove, Tree};
use crate::worker::Worker;

/// Ours, in process.
pub const LIBRARY: &str = "library";
/// Ours, mounted: durable on return.
pub const MOUNT: &str = "mount";
/// Ours, mounted `--cached`: durable at fsync.
pub const CACHED: &str = "mount --cached";
/// What everything is measured beside: promises nothing.
pub const TMPFS: &str = "tmpfs";
/// The same in huge pages.
pub const TMPFS_HUGE: &str = "tmpfs huge";
/// As little as a file system can be.
pub const RAMFS: &str = "ramfs";
/// What makes the same promise as ours, on a disk of memory.
pub const EXT4: &str = "ext4 fdatasync";
/// All of them.
pub const NAMES: [&str; 7] = [LIBRARY, MOUNT, CACHED, TMPFS, TMPFS_HUGE, RAMFS, EXT4];

/// A worker is run as it is.
const NO_WAY: &[&OsStr] = &[];

/// One of them.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    hand: Hand,
}

/// How it is worked on.
enum Hand {
    Here(LibraryFolder),
    // The worker ends before the node is unmounted.
    There(Box<(Worker, Node)>),
}

impl Entry {
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

/// All of them.
pub struct Field {
    /// Ours first.
    pub entries: Vec<Entry>,
    /// What is missing, for people.
    pub notes: Vec<String>,
    _yard: Option<Yard>,
    _scratch: Scratch,
}

impl Field {
    /// Each with room for `file_bytes`, and `window_bytes` that come and go.
    pub fn new(options: &Options, file_bytes: u64, window_bytes: u64) -> Result<Self> {
        let room = file_bytes + 2 * window_bytes + (48 << 20);
        let grove = Grove::new(&options.place, 3 * room + (64 << 20))?;
        let tree = |name, cached| Tree {
            grove: grove.clone(),
            name,
            cached,
            super_threshold_bytes: Some(SUPER_THRESHOLD_BYTES),
        };
        let library = tree("library", false);
        library.make()?;
        let library = Entry { name: LIBRARY, hand: Hand::Here(LibraryFolder { fs: library.open()? }) };
        let scratch = Scratch::new(&options.place)?;
        let mut field = Self { entries: vec![library], notes: Vec::new(), _yard: None, _scratch: scratch };
        let missing = node::missing().or(options.ferrite.is_none().then(|| "there is no worker".into()));
        match (missing, &options.ferrite) {
            (None, Some(ferrite)) => {
                let yard = Yard::new()?;
                let trees = [(MOUNT, tree("mount", false)), (CACHED, tree("cached", true))];
                for (name, tree) in trees {
                    let node = yard.node(tree.name, Ground::Tree(tree), "")?;
                    field.enter(name, node, ferrite)?;
                }
                field.enter_kernels(&yard, ferrite, room)?;
                field._yard = Some(yard);
            }
            (why, _) => field.notes.push(format!("mounts were left out: {}", why.unwrap_or_default())),
        }
        Ok(field)
    }

    fn enter_kernels(&mut self, yard: &Yard, ferrite: &Path, room: u64) -> Result<()> {
        let memory = [
            (TMPFS, "tmpfs", "size=100%,huge=never"),
            (TMPFS_HUGE, "tmpfs", "size=100%,huge=always"),
            (RAMFS, "ramfs", "rw"),
        ];
        for (number, (name, kind, mount_options)) in memory.into_iter().enumerate() {
            let node = yard.node(&format!("memory{number}"), Ground::PageCache(kind), mount_options)?;
            self.enter(name, node, ferrite)?;
        }
        let image = self._scratch.path("ext4");
        self._scratch.file("ext4", room + room / 8)?;
        self.enter(EXT4, yard.node("ext4", Ground::File(image), "barrier")?, ferrite)
    }

    fn enter(&mut self, name: &'static str, node: Node, ferrite: &Path) -> Result<()> {
        node.format()?;
        let worker = Worker::start((NO_WAY, ferrite), node.path(), name == EXT4)?;
        self.entries.push(Entry { name, hand: Hand::There(Box::new((worker, node))) });
        Ok(())
    }

    /// Does something to each.
    pub fn each(&mut self, mut done: impl FnMut(&mut Entry) -> Result<()>) -> Result<()> {
        self.entries.iter_mut().try_for_each(&mut done)
    }
}
