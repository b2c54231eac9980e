//! Where databases put their files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ferrite_block::DiskOptions;
use ferrite_disk::{Disk, HddDisk, HddProfile, RamDisk, SsdDisk, SsdProfile};
use ferrite_disk_address::HostClock;
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::{Format, Pool};

use super::{DISK, HDD, OWN, RUN, SSD, STRICT};
use crate::node::{self, Ground, Node, Yard};
use crate::options::Options;
use crate::owner::Owner;
use crate::protection::stage::Stage;
use crate::scratch::Scratch;
use crate::tree::{Grove, Tree};
use crate::{Result, program};

/// Bytes of each disk: PostgreSQL's cluster, its log, and some.
pub(super) const DISK_BYTES: u64 = 512 << 20;
const POOL_BYTES: u64 = 128 << 20;
const STROKE: u64 = 64;
/// Where this machine's disk may have files of ours.
const ON_DISK: &str = "/var/tmp";

/// Every place there is.
pub struct Field {
    /// On tmpfs.
    pub memory: Scratch,
    /// Name and folder of each place where a sync waits for something: our file system under the name of the strict one,
    /// another one on our disk, this machine's disk, simulated ones.
    pub places: Vec<(&'static str, PathBuf)>,
    /// A pool on tmpfs.
    pub pool: PathBuf,
    /// For programs that `ferrite run` runs: that program, and a folder of a file system that it serves.
    pub run: Option<(PathBuf, PathBuf)>,
    /// What is missing, for people.
    pub notes: Vec<String>,
    nodes: Vec<Node>,
    owner: Option<Owner>,
    _yard: Option<Yard>,
    _own: Option<Scratch>,
}

impl Field {
    /// All of it, with fresh file systems.
    pub fn new(options: &Options) -> Result<Self> {
        let memory = Scratch::new(&options.place)?;
        let pool = memory.path("pool");
        let mapped = Mapped::map(memory.file("pool", POOL_BYTES)?, &MapOptions::default())?;
        Pool::create(&mapped, &Format { uuid: *b"bench of db-log.", boot_id: [0; 16] })?;
        drop(mapped);
        let mut field = Self {
            memory,
            places: Vec::new(),
            pool,
            run: None,
            notes: Vec::new(),
            nodes: Vec::new(),
            owner: None,
            _yard: None,
            _own: None,
        };
        field.mount(options)?;
        let own = Scratch::new(Path::new(ON_DISK))?;
        field.places.push((OWN, own.path("home")));
        std::fs::create_dir(own.path("home")).map_err(crate::Error::io("making a folder on the disk"))?;
        field._own = Some(own);
        Ok(field)
    }

    fn mount(&mut self, options: &Options) -> Result<()> {
        if let Some(why) = node::missing() {
            self.notes.push(format!("file systems on Ferrite and simulated disks were left out: {why}"));
            return Ok(());
        }
        let yard = Yard::new()?;
        let grove = Grove::new(&options.place, DISK_BYTES)?;
        let tree = Tree { grove, name: "databases", cached: false, super_threshold_bytes: None };
        let stage = Stage::build(&options.place, DISK_BYTES)?;
        let ours = stage.disk_on(Arc::new(stage.map(Guard::best())?), DiskOptions::default())?;
        let (ssd, hdd) = (SsdProfile::x25e(), HddProfile::rpm_7200().with_capacity(STROKE * DISK_BYTES));
        let disks: [(&'static str, Arc<dyn Disk>); 3] = [
            (DISK, ours),
            (SSD, Arc::new(SsdDisk::new(RamDisk::new(DISK_BYTES), &ssd, HostClock::new(), 1))),
            (HDD, Arc::new(HddDisk::new(RamDisk::new(DISK_BYTES), &hdd, HostClock::new(), 1))),
        ];
        let disks = disks.map(|(name, disk)| (name, Ground::Disk(disk), "barrier"));
        for (number, (name, ground, how)) in [(STRICT, Ground::Tree(tree), "")].into_iter().chain(disks).enumerate() {
            let node = yard.node(&format!("log{number}"), ground, how)?;
            node.format()?;
            let home = node.path().join("home");
            program::run(Command::new("mkdir").arg(&home))?;
            self.places.push((name, home));
            self.nodes.push(node);
        }
        self.serve(&yard, options)?;
        self._yard = Some(yard);
        Ok(())
    }

    /// Has a process serve a file system for `ferrite run`.
    fn serve(&mut self, yard: &Yard, options: &Options) -> Result<()> {
        let Some(ferrite) = &options.ferrite else { return Ok(()) };
        let (grove, name) = (Grove::new(&options.place, DISK_BYTES)?, "run");
        Tree { grove: Arc::clone(&grove), name, cached: false, super_threshold_bytes: None }.make()?;
        let point = yard.folder(name)?;
        match Owner::start(ferrite, grove.shut()?, name, &point)? {
            Some(owner) => {
                let home = point.join("home");
                program::run(Command::new("mkdir").arg(&home))?;
                (self.owner, self.run) = (Some(owner), Some((ferrite.clone(), home)));
            }
            None => self.notes.push(format!("{RUN} was left out: {} is not all of it", ferrite.display())),
        }
        Ok(())
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        // Before the folder that they are mounted in.
        self.owner = None;
        self.nodes.clear();
    }
}
