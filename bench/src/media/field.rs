//! The disks that stand beside ours, and what keeps them alive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ferrite_block::DiskOptions;
use ferrite_disk::{Disk, FileDisk, FileDiskOptions, HddDisk, HddProfile, RamDisk, SsdDisk, SsdProfile};
use ferrite_disk_address::HostClock;
use ferrite_memory::Guard;
use ferrite_nbd::client::{ConnectOptions, NbdDisk};

use crate::options::Options;
use crate::protection::stage::Stage;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::{Error, Result};

/// Ours: the default guard and scheme, whole sectors.
pub const OURS: &str = "ferrite";
/// The kernel's loop device on tmpfs.
pub const LOOP: &str = "loop on tmpfs";
/// The machine's own.
pub const OWN: &str = "this machine's disk";
/// The simulated ones.
pub const SSD: &str = "SSD (X25-E, simulated)";
pub const HDD: &str = "HDD (7200 rpm, simulated)";
const NBDKIT: &str = "nbdkit memory";
const QEMU: &str = "qemu-nbd tmpfs";
/// All of them.
pub const NAMES: [&str; 7] = [OURS, LOOP, NBDKIT, QEMU, OWN, SSD, HDD];

/// Where this machine's disk may have a file of ours.
const ON_DISK: &str = "/var/tmp";
/// The paper used 16 GB of 1 TB; a small disk takes the same part of the hard disk's stroke.
const STROKE: u64 = 64;

/// Every disk that this machine can have.
pub struct Field {
    /// Name and disk, ours first.
    pub entries: Vec<(String, Arc<dyn Disk>)>,
    /// A file on tmpfs that is filled.
    pub image: PathBuf,
    /// What is missing, for people.
    pub notes: Vec<String>,
    _servers: Vec<Server>,
    _scratches: Vec<Scratch>,
}

impl Field {
    /// Disks of `bytes`.
    pub fn new(options: &Options, bytes: u64) -> Result<Self> {
        let scratch = Scratch::new(&options.place)?;
        let image = filled(&scratch, "image", bytes)?;
        let mut field =
            Self { entries: Vec::new(), image, notes: Vec::new(), _servers: Vec::new(), _scratches: Vec::new() };
        let stage = Stage::build(&options.place, bytes)?;
        field.enter(OURS, stage.disk_on(Arc::new(stage.map(Guard::best())?), DiskOptions::default())?);
        field.serve(&scratch, bytes)?;
        field.own_disk(bytes)?;
        field.simulate(bytes);
        field._scratches.push(scratch);
        Ok(field)
    }

    fn simulate(&mut self, bytes: u64) {
        let (ssd, hdd) = (SsdProfile::x25e(), HddProfile::rpm_7200().with_capacity(STROKE * bytes));
        self.enter(SSD, Arc::new(SsdDisk::new(RamDisk::new(bytes), &ssd, HostClock::new(), 1)));
        self.enter(HDD, Arc::new(HddDisk::new(RamDisk::new(bytes), &hdd, HostClock::new(), 1)));
    }

    /// What is slower than memory: this machine's disk and the simulated ones, of `bytes`.
    pub fn slower(bytes: u64) -> Result<Self> {
        let (entries, image, notes) = (Vec::new(), PathBuf::new(), Vec::new());
        let mut field = Self { entries, image, notes, _servers: Vec::new(), _scratches: Vec::new() };
        field.own_disk(bytes)?;
        field.simulate(bytes);
        Ok(field)
    }

    fn enter(&mut self, name: &str, disk: Arc<dyn Disk>) {
        self.entries.push((name.into(), disk));
    }

    /// What others serve from memory.
    fn serve(&mut self, scratch: &Scratch, bytes: u64) -> Result<()> {
        let socket = scratch.path("nbdkit");
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket).args(["memory", &bytes.to_string()]);
        self.serve_by(NBDKIT, &mut nbdkit, &socket)?;
        let (socket, image) = (scratch.path("qemu"), filled(scratch, "served", bytes)?);
        let mut qemu = Command::new("qemu-nbd");
        qemu.args(["--format=raw", "--persistent", "--shared=0", "--cache=writeback", "--discard=unmap", "--socket"]);
        self.serve_by(QEMU, qemu.arg(&socket).arg(image), &socket)
    }

    fn serve_by(&mut self, name: &str, command: &mut Command, socket: &Path) -> Result<()> {
        let Some(server) = Server::start(name, command, socket)? else {
            self.notes.push(format!("{name} was left out: it is not installed"));
            return Ok(());
        };
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let disk = NbdDisk::connect(&uri, &ConnectOptions::default());
        let disk = disk.map_err(|why| Error::Server { who: name.into(), what: why.to_string() })?;
        self.enter(name, Arc::new(disk));
        self._servers.push(server);
        Ok(())
    }

    fn own_disk(&mut self, bytes: u64) -> Result<()> {
        let folder = Path::new(ON_DISK);
        if !lies_on_a_disk(folder) {
            self.notes.push(format!("{OWN} was left out: {ON_DISK} is not on one"));
            return Ok(());
        }
        let scratch = Scratch::new(folder)?;
        let file = filled(&scratch, "disk", bytes)?;
        self.enter(OWN, Arc::new(FileDisk::open(&file, &FileDiskOptions::default())?));
        self._scratches.push(scratch);
        Ok(())
    }
}

/// A file all of which is there.
fn filled(scratch: &Scratch, name: &str, bytes: u64) -> Result<PathBuf> {
    let mut file = scratch.file(name, bytes)?;
    let block = vec![0; 1 << 20];
    let written = (0..bytes).step_by(block.len()).try_for_each(|at| {
        let len = (bytes - at).min(block.len() as u64) as usize;
        std::io::Write::write_all(&mut file, &block[..len])
    });
    written.and_then(|()| file.sync_all()).map_err(Error::io(format!("filling {name}")))?;
    Ok(scratch.path(name))
}

/// Whether the mount that `folder` is on has a block device.
fn lies_on_a_disk(folder: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let under = fields.filter(|fields| fields.len() > 2 && folder.starts_with(fields[1]));
    under.max_by_key(|fields| fields[1].len()).is_some_and(|fields| fields[0].starts_with("/dev/"))
}
