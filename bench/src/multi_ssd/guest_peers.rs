//! The kernel's caches over RAID-1 beside ours, all used by the same guest: a QEMU machine with Debian's kernel.
//!
//! ```text
//! guest    load -> bcache | dm-cache -> RAID-1, disk        load
//!                     virtio                               virtio
//! here     NBD <- two SSDs and a hard disk, simulated      NBD <- our cache <- two SSDs and a hard disk, simulated
//! ```
//!
//! QEMU emulates the guest's processor, so a request costs hundreds of microseconds there. A request to the hard disk takes
//! milliseconds: hits and bytes are exact, and the disk bounds the throughput.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_cache::{Cache, CacheSettings};
use ferrite_disk::{Clock, Disk, DiskStats, HddDisk, HddProfile, RamDisk, SsdDisk, SsdProfile, StatsDisk};
use ferrite_disk_address::HostClock;
use ferrite_memory::{Memory, Scheme};

use super::MEASURES;
use super::cache_kind::{CacheKind, MultiCase, MultiFigures, SimSizes};
use super::drive_set::{DriveStats, FILE_PERMILLE};
use super::guest_load::GuestLoad;
use crate::cache_stage::{CacheStage, NAME};
use crate::child_process::{ChildProcess, ProcessEnding};
use crate::nbd_server::NbdServer;
use crate::options::Length;
use crate::program;
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::{Error, Result};

/// The subject that the others are compared with.
pub const BASELINE: &str = "bcache on RAID-1";
/// Each subject, with its name for the guest.
const SUBJECTS: [(&str, &str); 3] = [("ferrite", "ferrite"), (BASELINE, "bcache"), ("dm-cache on RAID-1", "dm-cache")];
const SIZES: SimSizes =
    SimSizes { file_bytes: 64 << 20, leb_bytes: 128 << 10, buffer_bytes: 2 << 20, warm_windows: [2, 2] };
/// Bytes of the hard disk behind the file, for the metadata of the kernel's caches.
const SPARE_BYTES: u64 = 1 << 20;
/// Milliseconds that a window is expected to take.
const WINDOW_MS: u64 = 60_000;
/// The names of the measures in reports.
const NAMES: [&str; 6] = ["rate", "hits", "SSD bytes", "LEBs of SSD 0", "LEBs of SSD 1", "disk requests"];
/// The name that the whole part has in reports.
const WHAT: &str = "guest";
const SYSTEM: &str = include_str!("guest_system.sh");
const INIT: &str = include_str!("guest_init.sh");

/// Simulated drives with content, on the clock of this machine.
struct GuestDrives {
    clock: Arc<dyn Clock>,
    ssds: Vec<Arc<StatsDisk<Arc<SsdDisk<RamDisk>>>>>,
    hdd: Arc<StatsDisk<Arc<HddDisk<RamDisk>>>>,
}

impl GuestDrives {
    fn new(ssd_bytes: u64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(HostClock::new());
        let profile = HddProfile::rpm_7200().with_capacity(SIZES.file_bytes * 1000 / FILE_PERMILLE);
        let hdd = HddDisk::new(RamDisk::new(SIZES.file_bytes + SPARE_BYTES), &profile, Arc::clone(&clock), 1);
        let ssd = |seed| SsdDisk::new(RamDisk::new(ssd_bytes), &SsdProfile::sata(), Arc::clone(&clock), seed);
        let ssds = [2, 3].map(|seed| Arc::new(StatsDisk::new(Arc::new(ssd(seed)))));
        Self { ssds: ssds.into(), hdd: Arc::new(StatsDisk::new(Arc::new(hdd))), clock }
    }

    fn disks(&self) -> Vec<Arc<dyn Disk>> {
        let ssds = self.ssds.iter().map(|ssd| Arc::clone(ssd) as Arc<dyn Disk>);
        std::iter::once(self.hdd.clone() as Arc<dyn Disk>).chain(ssds).collect()
    }

    fn stats(&self) -> DriveStats {
        DriveStats { ssds: self.ssds.iter().map(|ssd| ssd.stats()).collect::<Vec<DiskStats>>(), hdd: self.hdd.stats() }
    }
}

/// Our cache before drives, with the thread that works for it. Dropped, it is stopped.
struct WorkedCache {
    cache: Arc<Cache>,
    worker: Option<std::thread::JoinHandle<()>>,
}

impl WorkedCache {
    fn new(drives: &GuestDrives) -> Result<Self> {
        let settings = CacheSettings { bypass_bytes: 0, ..CacheKind::Ferrite.settings() };
        let stage = CacheStage {
            ssds: drives.disks().split_off(1),
            disk: drives.hdd.clone(),
            clock: Arc::clone(&drives.clock),
            leb_bytes: SIZES.leb_bytes,
            buffer_bytes: SIZES.buffer_bytes,
            settings,
            scheme: Scheme::Nt,
        };
        let memory: Arc<dyn Memory> = Arc::new(stage.memory()?);
        stage.create(&memory)?;
        let cache = stage.open(&memory)?;
        let works = Arc::clone(&cache);
        // If the pool fails, requests fail too.
        let work = move || while works.step().is_ok_and(|pause| works.rest(pause)) {};
        let worker = std::thread::spawn(work);
        Ok(Self { cache, worker: Some(worker) })
    }
}

impl Drop for WorkedCache {
    fn drop(&mut self) {
        self.cache.stop();
        self.worker.take().map(std::thread::JoinHandle::join);
    }
}

/// The kernel and the first file system of the guest.
struct GuestSystem(Scratch);

impl GuestSystem {
    /// Makes them of packages that apt-get downloads.
    fn build(place: &Path, ferrite: &Path) -> Result<Self> {
        let scratch = Scratch::new(place)?;
        let init = scratch.path("init");
        std::fs::write(&init, INIT).map_err(Error::io("writing the guest's first process"))?;
        program::shell(&[("AT", &scratch.path("")), ("FERRITE", ferrite), ("INIT", &init)], SYSTEM)?;
        Ok(Self(scratch))
    }

    /// Boots a guest on disks that `servers` serve.
    fn boot(&self, subject: &str, load: &GuestLoad, servers: &[NbdServer]) -> Result<ChildProcess> {
        let mut qemu = program::command("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-machine", "q35", "-m", "512M"]);
        for (number, server) in servers.iter().enumerate() {
            let from = format!("file=nbd+unix:///disk?socket={}", server.socket.display());
            qemu.args(["-drive", &format!("if=none,id=d{number},format=raw,cache=none,{from}")]);
            qemu.args(["-device", &format!("virtio-blk-pci,drive=d{number}")]);
        }
        let load = load.arguments().map(|number| number.to_string()).join(",");
        qemu.arg("-kernel").arg(self.0.path("kernel")).arg("-initrd").arg(self.0.path("initramfs"));
        qemu.args(["-append", &format!("console=ttyS0 quiet panic=-1 SUBJECT={subject} LOAD={load}")]);
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial"]);
        qemu.arg(format!("file:{}", self.console().display())).args(["-serial", "stdio"]);
        ChildProcess::start_reporting("qemu-system-x86_64", &mut qemu, ProcessEnding::Kill)
    }

    fn console(&self) -> PathBuf {
        self.0.path("console")
    }

    fn failed(&self, subject: &str) -> Error {
        let text = std::fs::read(self.console()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last: Vec<&str> = text.lines().rev().take(5).collect();
        Error::server(format!("{subject} in a guest"), last.into_iter().rev().collect::<Vec<_>>().join("; "))
    }
}

/// Returns the reads, the writes and the nanoseconds that a line of the load names.
fn window(line: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> =
        line.trim().strip_prefix("window ")?.split(' ').filter_map(|one| one.parse().ok()).collect();
    numbers.try_into().ok()
}

/// Runs one subject, and returns the figures of the last window.
fn run(session: &mut BenchSession<'_>, system: &GuestSystem, case: &MultiCase, subject: &str) -> Result<MultiFigures> {
    let drives = GuestDrives::new(case.ssd_bytes(&SIZES));
    let cache = if subject == "ferrite" { Some(WorkedCache::new(&drives)?) } else { None };
    let disks = match &cache {
        Some(worked) => vec![worked.cache.disk(NAME)? as Arc<dyn Disk>],
        None => drives.disks(),
    };
    let socket = |number: usize| system.0.path(&format!("{number}.sock"));
    let servers = disks.into_iter().enumerate().map(|(number, disk)| NbdServer::here(WHAT, disk, &socket(number)));
    let servers = servers.collect::<Result<Vec<_>>>()?;
    let windows = SIZES.warm_windows[0] as u64 + 1;
    let theta_percent = (case.theta * 100.0) as u64;
    let load = GuestLoad { blocks: SIZES.blocks(), reads_permille: case.reads_permille, theta_percent, windows };
    let mut guest = system.boot(subject, &load, &servers)?;
    let (mut before, mut figures, mut seen) = (drives.stats(), None, 0);
    while seen < windows {
        let line = guest.read_line()?;
        if line.is_empty() || line.trim() == "end" {
            return Err(system.failed(subject));
        }
        if let Some([reads, writes, ns]) = window(&line) {
            let after = drives.stats();
            figures = Some(MultiFigures::between(&before, &after, [reads, writes], ns));
            (before, seen) = (after, seen + 1);
            session.step(&name(case), WINDOW_MS)?;
        }
    }
    figures.ok_or_else(|| system.failed(subject))
}

fn name(case: &MultiCase) -> String {
    format!("{WHAT}, {}", case.name())
}

/// Measures the cases that the options ask for, in a full run.
pub fn measure(session: &mut BenchSession<'_>) -> Result<()> {
    let cases = [900, 500].map(|reads_permille| MultiCase { reads_permille, theta: 0.5, flash_percent: 60 });
    let cases = session.wanted(cases, name);
    if session.options.length != Length::Full || cases.is_empty() {
        return Ok(());
    }
    let lacking = ["qemu-system-x86_64", "apt-get", "dpkg-deb"].into_iter().find(|name| program::find(name).is_none());
    let (None, Some(ferrite)) = (lacking, session.options.ferrite.clone()) else {
        session.left_out("the caches of the kernel", format!("there is no {}", lacking.unwrap_or("ferrite program")));
        return Ok(());
    };
    session.announce("the guest's packages")?;
    let system = match GuestSystem::build(&session.options.place, &ferrite) {
        Ok(system) => system,
        Err(why) => {
            session.left_out("the caches of the kernel", why);
            return Ok(());
        }
    };
    for case in cases {
        let run = |(_, subject): (&str, &str)| run(session, &system, &case, subject);
        let figures = SUBJECTS.into_iter().map(run).collect::<Result<Vec<_>>>()?;
        let subjects: Vec<&str> = SUBJECTS.iter().map(|(name, _)| *name).collect();
        for (measure, what) in MEASURES.iter().zip(NAMES) {
            let rows = measure.rows(&format!("{}, {what}", name(&case)), &subjects, &figures, BASELINE);
            session.report.rows.extend(rows);
        }
    }
    Ok(())
}
