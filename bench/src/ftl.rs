//! What file systems do to a flash drive (nvm-storage-hierarchy.txt, figures 3.11 and 3.12): loads run on each of them
//! over our block device, whose trace is replayed on a page-level and on a FAST drive; and how fast that goes.

use std::sync::Arc;

use ferrite_block::BlockDisk;
use ferrite_disk::{Clock, Trace, TraceDisk, TraceFormat};
use ferrite_disk_address::HostClock;
use ferrite_memory::Guard;
use ferrite_sim::ftl::{FlashFigures, FlashShape, FtlScheme, VictimChoice};

use crate::ferrite::OURS;
use crate::mount_node::{self, BTRFS, EXT4, KernelFs, MountRoot, NodeSource, XFS};
use crate::options::Length;
use crate::pool_tree::{OpenPool, PoolTree};
use crate::protection::filled_disk::FilledDisk;
use crate::report::{claim, rows};
use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, remark, values};
use crate::{Result, program};

pub(crate) mod drives;
mod loads;
mod speed;

use drives::Drives;
use loads::{LOADS, WearLoad};

/// The file systems with their mount options: reads write no times, and btrfs is mounted as in the paper.
const FILE_SYSTEMS: [(&KernelFs, &str); 3] = [(&EXT4, "noatime"), (&XFS, "noatime"), (&BTRFS, "noatime,nodatacow")];
/// Our file system has a part of the disk's size as memory.
const MEMORY_PARTS: u64 = 8;
/// Bytes of that memory at least.
const MEMORY_MIN: u64 = 32 << 20;
/// Both schemes of the paper, with their names in the report.
const SCHEMES: [(&str, FtlScheme); 2] =
    [("page-level", FtlScheme::Page(VictimChoice::Greedy)), ("FAST", FtlScheme::Fast { log_blocks: None })];
/// The paper's drive: 4 KB pages, 256 KB blocks, 10 % of over-provision.
const LIKE: FlashShape = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: 64, page_bytes: 4096 };
const OVER_PROVISION_PERCENT: f64 = 10.0;
/// Milliseconds that a load is expected to take on one file system.
const LOAD_MS: u64 = 4000;

/// A figure of a drive.
struct Measured {
    name: &'static str,
    unit: &'static str,
    of: fn(&FlashFigures) -> f64,
}

/// The figures of 3.11 and 3.12, then with other denominators that papers use.
const MEASURED: [Measured; 4] = [
    Measured { name: "erases", unit: "erase", of: |figures| figures.erases as f64 },
    Measured { name: "copied per erase", unit: "pages", of: |figures| figures.copied_per_erase },
    Measured { name: "copied per merge", unit: "pages", of: |figures| figures.copied_per_merge },
    Measured { name: "copied per reclaimed block", unit: "pages", of: |figures| figures.copied_per_reclaimed_block },
];

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let loads = session.wanted(&LOADS, |load| load.name);
    speed::measure(session)?;
    file_systems(session, &loads)
}

/// Runs every load on every file system.
fn file_systems(session: &mut BenchSession<'_>, loads: &[&WearLoad]) -> Result<()> {
    if loads.is_empty() {
        return Ok(());
    }
    if let Some(why) = mount_node::missing() {
        session.left_out("every file system", why);
        return Ok(());
    }
    let bytes = disk_bytes(session.options.length);
    let place = session.options.place.display().to_string();
    session.announce(&format!(
        "making a disk: {} MiB of {place}, and no more later",
        FilledDisk::file_bytes(bytes) >> 20
    ))?;
    let stage = FilledDisk::build(&session.options.place, bytes)?;
    let disk = stage.whole(Guard::best())?;
    let (installed, missing): (Vec<_>, Vec<_>) =
        FILE_SYSTEMS.into_iter().partition(|(one, _)| program::find(one.mkfs).is_some());
    missing.iter().for_each(|(one, _)| session.left_out(one.name, format!("there is no {}", one.mkfs)));
    for load in loads {
        if program::find(load.needs).is_none() {
            session.left_out(load.name, format!("there is no {}", load.needs));
            continue;
        }
        let mut figures = Vec::new();
        for (file_system, mount_options) in &installed {
            figures.push((file_system.name, traced(session, &disk, load, Some((*file_system, *mount_options)))?));
            session.step(load.name, LOAD_MS)?;
        }
        figures.push((OURS, traced(session, &disk, load, None)?));
        session.step(load.name, LOAD_MS)?;
        add_rows(session, load, &figures);
    }
    Ok(())
}

/// Bytes of the disk; xfs needs at least 300 MiB.
fn disk_bytes(length: Length) -> u64 {
    length.pick([1 << 30, 512 << 20, 320 << 20])
}

/// Runs one load on one file system of the kernel, or on ours, traced from mkfs to unmounting. Returns the figures of a drive of each scheme.
fn traced(
    session: &mut BenchSession<'_>,
    disk: &Arc<BlockDisk>,
    load: &WearLoad,
    kernel: Option<(&'static KernelFs, &'static str)>,
) -> Result<Vec<FlashFigures>> {
    let name = kernel.map_or(OURS, |(file_system, _)| file_system.name);
    session.announce(&format!("{} on {name}", load.name))?;
    let scratch = Scratch::new(&session.options.place)?;
    let drives = Drives::of(disk_bytes(session.options.length))?;
    let clock = HostClock::new();
    let trace = Trace {
        format: TraceFormat::FioIolog,
        name: name.into(),
        clock_ns: move || clock.now_ns(),
        to: Box::new(drives.trace()),
    };
    let under_trace = Arc::new(TraceDisk::new(Arc::clone(disk), trace));
    {
        let mount_root = MountRoot::new()?;
        let node = match kernel {
            Some((file_system, mount_options)) => {
                mount_root.node(name, NodeSource::Disk(under_trace.clone()), mount_options)?.of(file_system)
            }
            None => {
                let bytes = (disk_bytes(session.options.length) / MEMORY_PARTS).max(MEMORY_MIN);
                let pool = OpenPool::of_small_pages(&session.options.place, bytes)?;
                let tree = PoolTree { ssd: Some(under_trace.clone()), ..PoolTree::new(&pool, OURS) };
                mount_root.node(name, NodeSource::Tree(tree), "")?
            }
        };
        node.format()?;
        load.run(node.path(), &scratch, session.options.length)?;
        node.drain()?;
        node.unmount()?;
    }
    let finished = under_trace.finish();
    // A drive that stopped is the cause of a trace that could not be written.
    let figures = drives.end()?;
    finished?;
    Ok(figures)
}

/// Adds the rows of one load: each file system beside the first whose figure is not 0.
fn add_rows(session: &mut BenchSession<'_>, load: &WearLoad, figures_by_name: &[(&str, Vec<FlashFigures>)]) {
    let mut add = |case: String, unit, value: &dyn Fn(&[FlashFigures]) -> f64| {
        let of =
            |(name, figures): &(&str, Vec<FlashFigures>)| Series { name: (*name).into(), values: vec![value(figures)] };
        let series: Vec<Series> = figures_by_name.iter().map(of).collect();
        if let Some(beside) = series.iter().find(|one| one.values[0] > 0.0) {
            session.report.rows.extend(rows(&case, unit, &series, beside));
        }
    };
    add(format!("{}: written", load.name), "pages", &|figures| figures[0].host_writes as f64);
    for (at, (scheme, _)) in SCHEMES.iter().enumerate() {
        for measured in &MEASURED {
            add(format!("{}, {scheme}: {}", load.name, measured.name), measured.unit, &|figures| {
                (measured.of)(&figures[at])
            });
        }
    }
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ftl",
    about: "erases and copies of a flash drive under file systems, page-level and FAST (nvm-storage-hierarchy, figures 3.11 and 3.12)",
    expected_ms: [58_000, 54_000, 50_000],
    run,
    verdict: &[
        line("erases beside ext4", "*, "),
        figure("xfs, page-level", "xfs").case("page-level: erases").beside("ext4"),
        figure("xfs, FAST", "xfs").case("FAST: erases").beside("ext4"),
        figure("btrfs, page-level", "btrfs").case("page-level: erases").beside("ext4"),
        figure("btrfs, FAST", "btrfs").case("FAST: erases").beside("ext4"),
        figure("ferrite with a tier, page-level", OURS).case("page-level: erases").beside("ext4"),
        figure("ferrite with a tier, FAST", OURS).case("FAST: erases").beside("ext4"),
        remark("the paper draws its figures without numbers"),
        line("pages copied for each erase", "*, "),
        figure("page-level", "*").case("page-level: copied per erase").value(""),
        figure("FAST", "*").case("FAST: copied per erase").value(""),
        line("million random writes simulated a second, of 5 wanted", speed::CASE),
        figure("page-level", "page-level").value(""),
        figure("FAST", "FAST").value(""),
    ],
    paper: &[claim(
        "3.3.3, figure 3.11",
        0.5,
        "pages written by NVMFS under Filebench beside the other file systems, and so fewer erases",
    )],
    charts: &[
        values("Figure 3.11: erases of a page-level drive", "*, page-level: erases"),
        values("Figure 3.11: erases of a FAST drive", "*, FAST: erases"),
        values("Figure 3.12: copied per erase of a page-level drive", "*, page-level: copied per erase"),
        values("Figure 3.12: copied per erase of a FAST drive", "*, FAST: copied per erase"),
    ],
};

#[cfg(test)]
mod tests;
