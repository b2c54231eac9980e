//! The subjects: our file system with a tier, and the kernel's file systems, all on the same kind of simulated SSD, whose
//! requests are counted and traced.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_devnode::Attached;
use ferrite_disk::{Clock, Disk, DiskStats, RamDisk, SsdDisk, SsdProfile, StatsDisk, Trace, TraceDisk, TraceFormat};
use ferrite_disk_address::HostClock;
use ferrite_fs::{TierPolicy, TierStats};
use ferrite_sim::ftl::{
    AgedFlash, DriveSpec, FillOrder, FlashFigures, FlashFill, FlashShape, FlashTiming, FtlScheme, VictimChoice,
};

use super::memory_limit::MemoryLimit;
use super::trace_gate::TraceGate;
use crate::ferrite::{OwnerProcess, under_run};
use crate::ftl::drives::Drives;
use crate::mount_node::{KernelFs, MountNode, MountRoot, NodeSource};
use crate::pool_tree::{OpenPool, PoolTree, ServedTree};
use crate::records::FileOrder;
use crate::worker::FolderWorker;
use crate::{Error, Result, program};

/// Our file system in reports.
pub const OURS: &str = "ferrite";
/// The same by programs that go through the kernel.
pub const MOUNT: &str = "ferrite mount";
/// Our file system as the first one, with the paper's rules.
pub const PAPER: &str = "the paper's rules";
/// The name of our file system in its pool.
const NAME: &str = "files";
/// Memory beyond the size of the page cache, for names, inodes and pages that are not yet written: without it, the kernel
/// kills programs.
const KERNEL_BYTES: u64 = 8 << 20;
/// The flash of the drive beyond what its users see, in per cent.
const SPARE_PERCENT: f64 = 10.0;
/// Blocks that a small drive has beyond those.
const EXTRA_BLOCKS_MIN: u32 = 8;

/// The SSD below a subject: an aged X25-E with its requests counted and traced.
pub struct TracedSsd {
    stats: Arc<StatsDisk<Arc<dyn Disk>>>,
    /// Whether requests are traced from now on.
    is_traced: Arc<AtomicBool>,
    /// Ends the trace.
    end: Box<dyn Fn() -> ferrite_memory::Result<()>>,
    worn: Drives,
}

impl TracedSsd {
    /// A drive of `bytes`, full of old content.
    fn new(bytes: u64) -> Result<Self> {
        let (worn, is_traced) = (Drives::of(bytes)?, Arc::new(AtomicBool::new(false)));
        let clock = HostClock::new();
        let trace = Trace {
            format: TraceFormat::FioIolog,
            name: "ssd".into(),
            clock_ns: move || clock.now_ns(),
            to: Box::new(TraceGate::new(worn.trace(), Arc::clone(&is_traced))),
        };
        let traced = Arc::new(TraceDisk::new(aged(bytes)?, trace));
        let ended = Arc::clone(&traced);
        let stats = Arc::new(StatsDisk::new(traced as Arc<dyn Disk>));
        Ok(Self { stats, is_traced, end: Box::new(move || ended.finish()), worn })
    }

    /// Ends the trace. Returns the figures of a drive of each scheme.
    fn finish(self) -> Result<Vec<FlashFigures>> {
        let finished = (self.end)();
        let figures = self.worn.end()?;
        finished?;
        Ok(figures)
    }
}

/// An X25-E of `bytes` in memory that was written at random before.
fn aged(bytes: u64) -> Result<SsdDisk<RamDisk>> {
    let profile = SsdProfile::x25e();
    let SsdProfile { page_bytes, block_bytes, read_ns, program_ns, erase_ns, .. } = profile;
    let like = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: block_bytes / page_bytes, page_bytes };
    let shape = FlashShape::of_bytes(bytes, SPARE_PERCENT, like)?;
    let shape = FlashShape { extra_blocks: shape.extra_blocks.max(EXTRA_BLOCKS_MIN), ..shape };
    let timing = FlashTiming { read_ns, program_ns, erase_ns };
    let spec = DriveSpec { scheme: FtlScheme::Page(VictimChoice::Greedy), shape, timing };
    let flash = AgedFlash::new(spec, FlashFill { percent: 100, order: FillOrder::Random }, 1)?;
    Ok(SsdDisk::aged(RamDisk::new(bytes), &profile, flash, HostClock::new(), 1))
}

/// The sizes of a subject.
#[derive(Clone, Copy, Debug)]
pub struct SubjectSize {
    /// Bytes of our pool, and of the others' page cache.
    pub memory_bytes: u64,
    /// Bytes of the SSD.
    pub ssd_bytes: u64,
}

/// How programs reach which file system.
#[derive(Clone, Copy)]
pub enum SubjectKind {
    /// Ours, under `ferrite run` if there is the whole program.
    Run,
    /// The same with the paper's rules.
    Paper,
    /// Ours, through the kernel.
    Mount,
    /// A file system of the kernel.
    Kernel(&'static KernelFs),
}

impl SubjectKind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => OURS,
            Self::Paper => PAPER,
            Self::Mount => MOUNT,
            Self::Kernel(kernel) => kernel.name,
        }
    }
}

/// The file system of a subject.
enum SubjectFs {
    /// A file system of the kernel.
    Kernel(MountNode),
    /// Ours, served by this process.
    Here { served: ServedTree, point: PathBuf },
    /// Ours, served by a process of its own that opens the SSD's node.
    Process { _owner: OwnerProcess, ferrite: PathBuf, point: PathBuf, _node: Box<Attached> },
}

/// A mounted file system, and the worker on it.
pub struct TierSubject {
    // The worker ends before the file system is unmounted, which ends before the SSD.
    worker: RefCell<FolderWorker>,
    fs: SubjectFs,
    limit: Option<MemoryLimit>,
    /// The program that runs others with direct access to our files.
    run: Option<PathBuf>,
    ssd: TracedSsd,
    _mount_root: MountRoot,
}

impl TierSubject {
    /// A new file system on an SSD of its own.
    pub fn new(kind: SubjectKind, size: SubjectSize, ferrite: &Path, place: &Path) -> Result<Self> {
        let (mount_root, ssd) = (MountRoot::new()?, TracedSsd::new(size.ssd_bytes)?);
        let (fs, limit) = match kind {
            SubjectKind::Kernel(kernel) => {
                let options = if kernel.name == "btrfs" { "noatime,nodatacow" } else { "noatime" };
                let node = mount_root.node("node", NodeSource::Disk(ssd.stats.clone()), options)?.of(kernel);
                node.format()?;
                (SubjectFs::Kernel(node), MemoryLimit::new(size.memory_bytes + KERNEL_BYTES)?)
            }
            // Only the pool holds content of ours: the page cache of the mount gets nothing.
            _ => (ours(&mount_root, &ssd, size, ferrite, place)?, MemoryLimit::new(KERNEL_BYTES)?),
        };
        if matches!(kind, SubjectKind::Paper) {
            fs.use_the_papers_rules()?;
        }
        let is_run = !matches!(kind, SubjectKind::Mount) && matches!(fs, SubjectFs::Process { .. });
        let run = is_run.then(|| ferrite.to_owned());
        let command = limited(limit.as_ref(), &under(run.as_deref(), &Command::new(ferrite)));
        let worker = RefCell::new(FolderWorker::start(command, fs.point(), false)?);
        Ok(Self { worker, fs, limit, run, ssd, _mount_root: mount_root })
    }

    /// The folder of the file system.
    pub fn point(&self) -> &Path {
        self.fs.point()
    }

    /// A command that runs `program` under the subject's limit of memory.
    pub fn command(&self, program: &Command) -> Command {
        limited(self.limit.as_ref(), &under(self.run.as_deref(), program))
    }

    /// Returns true if the page cache of the load is limited.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Has the worker carry out `order`.
    pub fn order(&self, order: &FileOrder) -> Result<f64> {
        self.worker.borrow_mut().order(order)
    }

    /// Makes what was written durable by the file system's own rule: ours has done that.
    pub fn persist(&self) -> Result<()> {
        if matches!(self.fs, SubjectFs::Kernel(_)) { self.sync() } else { Ok(()) }
    }

    /// Writes all content to the SSD.
    pub fn drain(&self) -> Result<()> {
        match &self.fs {
            SubjectFs::Kernel(_) => self.sync(),
            SubjectFs::Here { served, .. } => served.drain(),
            SubjectFs::Process { ferrite, point, .. } => {
                program::run(Command::new(ferrite).args(["fs", "tier", "drain"]).arg(point))
            }
        }
    }

    /// Returns what the tier did since it was mounted; `None` without a tier.
    pub fn tier_stats(&self) -> Result<Option<TierStats>> {
        match &self.fs {
            SubjectFs::Kernel(_) => Ok(None),
            SubjectFs::Here { served, .. } => Ok(served.tier_stats()),
            SubjectFs::Process { ferrite, point, .. } => {
                let text = program::output(Command::new(ferrite).args(["fs", "tier", "stat", "--json"]).arg(point))?;
                let stats = serde_json::from_str(&text);
                stats.map(Some).map_err(|why| Error::server(OURS, format!("its stats are not understood: {why}")))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        program::run(Command::new("sync").arg("--file-system").arg(self.point()))
    }

    /// Traces the requests to the SSD from now on.
    pub fn trace(&self) {
        self.ssd.is_traced.store(true, Ordering::Relaxed);
    }

    /// Returns the counts of the SSD so far.
    pub fn stats(&self) -> DiskStats {
        self.ssd.stats.stats()
    }

    /// Unmounts the file system. Returns the figures of a drive of each scheme under all that was written.
    pub fn finish(self) -> Result<Vec<FlashFigures>> {
        let Self { worker, fs, limit, ssd, _mount_root, .. } = self;
        drop((worker, fs, limit));
        ssd.finish()
    }
}

impl SubjectFs {
    fn point(&self) -> &Path {
        match self {
            Self::Kernel(node) => node.path(),
            Self::Here { point, .. } | Self::Process { point, .. } => point,
        }
    }

    fn use_the_papers_rules(&self) -> Result<()> {
        match self {
            Self::Kernel(_) => Ok(()),
            Self::Here { served, .. } => served.set_policy(TierPolicy::Paper),
            Self::Process { ferrite, point, .. } => {
                program::run(Command::new(ferrite).args(["fs", "tier", "set", "--policy", "paper"]).arg(point))
            }
        }
    }
}

/// Returns `program`, run by `ferrite run` if that is given.
fn under(ferrite: Option<&Path>, program: &Command) -> Command {
    let mut command = ferrite.map_or_else(|| Command::new(program.get_program()), under_run);
    if ferrite.is_some() {
        command.arg(program.get_program());
    }
    command.args(program.get_args());
    command
}

/// Returns `program`, under the limit of memory if the subject has a limit.
fn limited(limit: Option<&MemoryLimit>, program: &Command) -> Command {
    let enter = |limit: &MemoryLimit| limit.command(program.get_program());
    let mut command = limit.map_or_else(|| Command::new(program.get_program()), enter);
    command.args(program.get_args());
    command
}

/// Our file system, mounted by a process of its own if `ferrite` is the whole program.
fn ours(mount_root: &MountRoot, ssd: &TracedSsd, size: SubjectSize, ferrite: &Path, place: &Path) -> Result<SubjectFs> {
    let point = mount_root.folder(OURS)?;
    let pool = OpenPool::of_small_pages(place, size.memory_bytes)?;
    PoolTree::new(&pool, NAME).make()?;
    let closed = pool.close()?;
    let node = Box::new(mount_root.attach("ssd", ssd.stats.clone())?);
    let mut add = Command::new(ferrite);
    add.args(["fs", "tier", "add"]).arg(closed.path()).arg(NAME).arg("--ssd").arg(node.device());
    program::run(add.args(["--lose", &size.ssd_bytes.to_string()]))?;
    if let Some(owner) = OwnerProcess::start(Command::new(ferrite), ferrite, Arc::clone(&closed), NAME, &point)? {
        return Ok(SubjectFs::Process { _owner: owner, ferrite: ferrite.into(), point, _node: node });
    }
    drop(node);
    let tree = PoolTree { ssd: Some(ssd.stats.clone()), ..PoolTree::new(&closed.open()?, NAME) };
    let served = ServedTree::new(tree, &point);
    served.make()?;
    served.mount()?;
    Ok(SubjectFs::Here { served, point })
}

impl Drop for SubjectFs {
    fn drop(&mut self) {
        if let Self::Here { served, point } = self {
            let unmounted = served.unmount();
            let _ = unmounted.and_then(|()| std::fs::remove_dir(&*point).map_err(Error::io("removing a folder")));
        }
    }
}
