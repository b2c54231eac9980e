//! The drives of one simulation on their own clock: SSDs and a hard disk.

use std::sync::Arc;

use ferrite_disk::{
    Clock, Disk, DiskStats, FaultDisk, FaultPlan, Faults, HddDisk, HddProfile, SsdDisk, SsdProfile, StatsDisk,
    VirtualClock,
};

use crate::pattern_disk::PatternDisk;

/// A simulated SSD that can fail, with its requests counted.
pub struct CountedSsd {
    drive: Arc<SsdDisk<PatternDisk>>,
    /// Changes how it fails.
    pub faults: Faults,
    /// The SSD for its users.
    pub disk: Arc<StatsDisk<FaultDisk<Arc<SsdDisk<PatternDisk>>>>>,
}

/// The drives.
pub struct DriveSet {
    /// The clock of all of them.
    pub clock: Arc<VirtualClock>,
    /// The SSDs.
    pub ssds: Vec<CountedSsd>,
    /// The hard disk, with its requests counted.
    pub hdd: Arc<StatsDisk<Arc<HddDisk<PatternDisk>>>>,
}

/// The counts of all drives.
#[derive(Clone, Default)]
pub struct DriveStats {
    /// Of the SSDs.
    pub ssds: Vec<DiskStats>,
    /// Of the hard disk.
    pub hdd: DiskStats,
}

/// The part of its hard disk that the file fills, in thousandths. The paper's SSDs of 240 GB each are 60 % of a file of
/// 800 GB, and its disk has 2 TB.
pub const FILE_PERMILLE: u64 = 400;

impl CountedSsd {
    fn new(bytes: u64, clock: &Arc<VirtualClock>, seed: u64) -> Self {
        let drive = Arc::new(SsdDisk::new(PatternDisk::new(bytes), &SsdProfile::sata(), Arc::clone(clock), seed));
        let failing = FaultDisk::new(Arc::clone(&drive), FaultPlan::default());
        Self { drive, faults: failing.faults().clone(), disk: Arc::new(StatsDisk::new(failing)) }
    }
}

impl DriveSet {
    /// New drives: `ssds` SSDs of `ssd_bytes` each, and a hard disk whose outer part is a file of `file_bytes`.
    pub fn new(file_bytes: u64, ssds: u64, ssd_bytes: u64) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let profile = HddProfile::rpm_7200().with_capacity(file_bytes * 1000 / FILE_PERMILLE);
        let hdd = HddDisk::new(PatternDisk::new(file_bytes), &profile, Arc::clone(&clock), 1);
        let hdd = Arc::new(StatsDisk::new(Arc::new(hdd)));
        let ssds = (0..ssds).map(|number| CountedSsd::new(ssd_bytes, &clock, 2 + number)).collect();
        Self { clock, ssds, hdd }
    }

    /// Advances the clock to the end of a request, or to `until_ns` if none ends before.
    pub fn advance(&self, until_ns: u64) {
        loop {
            let ssds = self.ssds.iter().filter_map(|ssd| ssd.drive.next_event_ns());
            let next_ns = ssds.chain(self.hdd.inner().next_event_ns()).min().unwrap_or(u64::MAX);
            // An event that is due already is the end of a request (SD6).
            if next_ns <= self.now_ns() || self.now_ns() >= until_ns {
                return;
            }
            self.clock.advance_to(next_ns.min(until_ns));
        }
    }

    /// Returns the time of the clock.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> DriveStats {
        DriveStats { ssds: self.ssds.iter().map(|ssd| ssd.disk.stats()).collect(), hdd: self.hdd.stats() }
    }

    /// Returns SSD `number` as a disk.
    pub fn ssd(&self, number: usize) -> Arc<dyn Disk> {
        self.ssds[number].disk.clone()
    }
}
