//! The disks that stand beside ours.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ferrite_disk::{Disk, FileDisk, FileDiskOptions, HddDisk, HddProfile, RamDisk, SsdDisk, SsdProfile};
use ferrite_disk_address::HostClock;

use crate::field::Field;
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::{Result, nbd_server};

/// The kernel's loop device on tmpfs.
pub const LOOP: &str = "loop on tmpfs";
/// The disk of this machine that has `/var/tmp`.
pub const OWN: &str = "this machine's disk";
/// The simulated SSD.
pub const SSD: &str = "SSD (X25-E, simulated)";
/// The simulated hard disk.
pub const HDD: &str = "HDD (7200 rpm, simulated)";

/// Where this machine's disk may have files of ours.
const ON_DISK: &str = "/var/tmp";
/// The paper used 16 GB of 1 TB; a small disk takes the same part of the hard disk's stroke.
const STROKE: u64 = 64;

/// The disks of an experiment.
pub type DiskField = Field<Arc<dyn Disk>>;

impl DiskField {
    /// Adds the disks of `bytes` that other servers keep in memory.
    pub fn enter_served(&mut self, session: &mut BenchSession<'_>, scratch: &Scratch, bytes: u64) -> Result<()> {
        for server in nbd_server::peers(session, scratch, bytes)? {
            self.enter(server.name, Arc::new(server.disk()?));
            self.keep(server);
        }
        Ok(())
    }

    /// Adds the simulated SSD and hard disk, of `bytes`.
    pub fn enter_simulated(&mut self, bytes: u64) {
        let (ssd, hdd) = (SsdProfile::x25e(), HddProfile::rpm_7200().with_capacity(STROKE * bytes));
        self.enter(SSD, Arc::new(SsdDisk::new(RamDisk::new(bytes), &ssd, HostClock::new(), 1)));
        self.enter(HDD, Arc::new(HddDisk::new(RamDisk::new(bytes), &hdd, HostClock::new(), 1)));
    }

    /// Adds a file of `bytes` on this machine's disk.
    pub fn enter_own(&mut self, session: &mut BenchSession<'_>, bytes: u64) -> Result<()> {
        let folder = Path::new(ON_DISK);
        if !lies_on_a_disk(folder) {
            session.left_out(OWN, format!("{ON_DISK} is not on one"));
            return Ok(());
        }
        let scratch = Scratch::new(folder)?;
        let file = scratch.filled("disk", bytes)?;
        self.enter(OWN, Arc::new(FileDisk::open(&file, &FileDiskOptions::default())?));
        self.keep(scratch);
        Ok(())
    }
}

/// A folder on this machine's disk, or where `/var/tmp` lies.
pub fn own_folder() -> Result<Scratch> {
    Scratch::new(Path::new(ON_DISK))
}

/// Whether the mount that `folder` is on has a block device.
fn lies_on_a_disk(folder: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let under = fields.filter(|fields| fields.len() > 2 && folder.starts_with(fields[1]));
    under.max_by_key(|fields| fields[1].len()).is_some_and(|fields| fields[0].starts_with("/dev/"))
}

#[cfg(test)]
mod tests;
