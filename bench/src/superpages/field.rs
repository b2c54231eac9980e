//! The file systems that stand beside each other.

use std::sync::Arc;

use ferrite_fs::{FileSystem, SUPER_THRESHOLD_BYTES};

use crate::Result;
use crate::entrant::Entrant;
use crate::node::{self, EXT2, Ground, Yard};
use crate::options::Options;
use crate::scratch::Scratch;
use crate::tree::{Grove, Tree};

/// Large files in superpages, mapped as such.
pub const SUPER: &str = "superpages";
/// Files in pages of 4 KiB of memory that is mapped in pages of 2 MiB.
pub const BETWEEN: &str = "normal pages, huge mapping";
/// Files in pages of 4 KiB, mapped as such.
pub const NORMAL: &str = "normal pages";
/// The kernel's.
pub const TMPFS: &str = "tmpfs";
pub const RAMFS: &str = "ramfs";
pub const RAMDISK: &str = "ext2 on a RAM disk";
/// All of them.
pub const NAMES: [&str; 6] = [SUPER, BETWEEN, NORMAL, TMPFS, RAMFS, RAMDISK];
/// What a file's space is beside.
pub const DATA: &str = "its bytes";

/// Those who take part, and what keeps them alive.
pub struct Field {
    /// Ours first.
    pub entrants: Vec<Entrant>,
    /// Ours, open in this process.
    pub trees: Vec<(&'static str, Arc<FileSystem>)>,
    /// Bytes of the pages that map each of ours.
    pub pages: Vec<(&'static str, u64)>,
    /// What is missing, for people.
    pub notes: Vec<String>,
    _yard: Option<Yard>,
    _scratch: Scratch,
}

impl Field {
    /// Each with room for `bytes`.
    pub fn new(options: &Options, bytes: u64) -> Result<Self> {
        let scratch = Scratch::new(&options.place)?;
        let (entrants, trees, pages, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut field = Self { entrants, trees, pages, notes, _yard: None, _scratch: scratch };
        let room = bytes + bytes / 8;
        let huge = Grove::new(&options.place, 2 * room)?;
        field.enter(SUPER, &huge, Some(SUPER_THRESHOLD_BYTES))?;
        field.enter(BETWEEN, &huge, None)?;
        field.enter(NORMAL, &Grove::of_small_pages(&options.place, room)?, None)?;
        field.enter_kernels(options, room)?;
        Ok(field)
    }

    fn enter(&mut self, name: &'static str, grove: &Arc<Grove>, super_threshold_bytes: Option<u64>) -> Result<()> {
        let tree = Tree { grove: Arc::clone(grove), name, cached: false, super_threshold_bytes };
        tree.make()?;
        let fs = tree.open()?;
        self.trees.push((name, Arc::clone(&fs)));
        self.pages.push((name, grove.page_bytes()));
        self.entrants.push(Entrant::library(name, fs));
        Ok(())
    }

    fn enter_kernels(&mut self, options: &Options, room: u64) -> Result<()> {
        let missing = node::missing().or(options.ferrite.is_none().then(|| "there is no worker".into()));
        let (None, Some(ferrite)) = (&missing, &options.ferrite) else {
            self.notes.push(format!("the kernel's file systems were left out: {}", missing.unwrap_or_default()));
            return Ok(());
        };
        let yard = Yard::new()?;
        let tmpfs = yard.node("tmpfs", Ground::PageCache("tmpfs"), "size=100%,huge=never")?;
        self.entrants.push(Entrant::mounted(TMPFS, tmpfs, ferrite, false)?);
        let ramfs = yard.node("ramfs", Ground::PageCache("ramfs"), "rw")?;
        self.entrants.push(Entrant::mounted(RAMFS, ramfs, ferrite, false)?);
        self._scratch.file("ext2", room)?;
        let disk = yard.node("ext2", Ground::File(self._scratch.path("ext2")), "rw")?.of(&EXT2);
        self.entrants.push(Entrant::mounted(RAMDISK, disk, ferrite, false)?);
        self._yard = Some(yard);
        Ok(())
    }
}
