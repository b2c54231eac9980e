//! Who is measured: the ways into our file system, the bare copy, and the kernel's own file systems in memory.

use std::path::Path;
use std::sync::Arc;

use ferrite_fs::SUPER_THRESHOLD_BYTES;

use crate::Result;
use crate::entrant::Entrant;
use crate::node::{self, Ground, Node, Yard};
use crate::options::Options;
use crate::program;
use crate::scratch::Scratch;
use crate::tree::{Grove, Tree};

/// Ours, in process.
pub const LIBRARY: &str = "library";
/// Ours, by a program whose files are served in its own memory: durable on return.
pub const RUN: &str = "ferrite run";
/// Ours, mounted: durable on return.
pub const MOUNT: &str = "mount";
/// Ours, mounted `--cached`: durable at fsync.
pub const CACHED: &str = "mount --cached";
/// The same with a server that keeps nothing: what the kernel allows of such a mount.
pub const HOLLOW: &str = "hollow cached";
/// What everything is measured beside: promises nothing.
pub const TMPFS: &str = "tmpfs";
/// The same in huge pages.
pub const TMPFS_HUGE: &str = "tmpfs huge";
/// As little as a file system can be.
pub const RAMFS: &str = "ramfs";
/// What makes the same promise as ours, on a disk of memory.
pub const EXT4: &str = "ext4 fdatasync";
/// The kernel's own on disks of memory, whose writes it keeps back as under `--cached`: durable at fsync.
pub const EXT4_CACHED: &str = "ext4 cached";
pub const XFS_CACHED: &str = "xfs cached";
/// No file system: what the machine allows.
pub const BARE: &str = "bare copy";
/// The same, and behind each copy a size and another fence: what the machine allows where files grow.
pub const BARE_APPEND: &str = "bare append";
/// All of them.
pub const NAMES: [&str; 13] =
    [LIBRARY, BARE, BARE_APPEND, RUN, MOUNT, CACHED, HOLLOW, TMPFS, TMPFS_HUGE, RAMFS, EXT4, EXT4_CACHED, XFS_CACHED];

/// All of them.
pub struct Field {
    /// Ours first.
    pub entries: Vec<Entrant>,
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
        let library = Entrant::library(LIBRARY, library.open()?);
        let bare = Entrant::bare(BARE, &options.place, room, false)?;
        let bare_append = Entrant::bare(BARE_APPEND, &options.place, room - file_bytes, true)?;
        let scratch = Scratch::new(&options.place)?;
        let mut field =
            Self { entries: vec![library, bare, bare_append], notes: Vec::new(), _yard: None, _scratch: scratch };
        let missing = node::missing().or(options.ferrite.is_none().then(|| "there is no worker".into()));
        match (missing, &options.ferrite) {
            (None, Some(ferrite)) => {
                let yard = Yard::new()?;
                field.enter_run(&yard, (ferrite, &options.place), room)?;
                let trees = [(MOUNT, tree("mount", false)), (CACHED, tree("cached", true))];
                for (name, tree) in trees {
                    let node = yard.node(tree.name, Ground::Tree(tree), "")?;
                    field.enter(name, node, ferrite)?;
                }
                field.enter(HOLLOW, yard.node("hollow", Ground::Hollow, "")?, ferrite)?;
                field.enter_kernels(&yard, ferrite, room)?;
                field._yard = Some(yard);
            }
            (why, _) => field.notes.push(format!("mounts were left out: {}", why.unwrap_or_default())),
        }
        Ok(field)
    }

    fn enter_run(&mut self, yard: &Yard, (ferrite, place): (&Path, &Path), room: u64) -> Result<()> {
        let (grove, name) = (Grove::new(place, room + (64 << 20))?, "run");
        let super_threshold_bytes = Some(SUPER_THRESHOLD_BYTES);
        Tree { grove: Arc::clone(&grove), name, cached: false, super_threshold_bytes }.make()?;
        match Entrant::run(RUN, (grove.shut()?, name), ferrite, &yard.folder(name)?)? {
            Some(entrant) => self.entries.push(entrant),
            None => self.notes.push(format!("{RUN} was left out: {} is not all of it", ferrite.display())),
        }
        Ok(())
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
        let on_disk = [(EXT4, &node::EXT4), (EXT4_CACHED, &node::EXT4), (XFS_CACHED, &node::XFS)];
        for (number, (name, file_system)) in on_disk.into_iter().enumerate() {
            if program::find(file_system.mkfs).is_none() {
                self.notes.push(format!("{name} was left out: there is no {}", file_system.mkfs));
                continue;
            }
            let file = format!("disk{number}");
            self._scratch.file(&file, file_system.disk_bytes(room + room / 8))?;
            let node = yard.node(&file, Ground::File(self._scratch.path(&file)), "rw")?;
            self.enter(name, node.of(file_system), ferrite)?;
        }
        Ok(())
    }

    fn enter(&mut self, name: &'static str, node: Node, ferrite: &Path) -> Result<()> {
        self.entries.push(Entrant::mounted(name, node, ferrite, name == EXT4)?);
        Ok(())
    }

    /// Does something to each.
    pub fn each(&mut self, mut done: impl FnMut(&mut Entrant) -> Result<()>) -> Result<()> {
        self.entries.iter_mut().try_for_each(&mut done)
    }
}
