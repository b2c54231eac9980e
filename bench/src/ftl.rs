//! What file systems do to a flash drive (nvm-storage-hierarchy.txt, figures 3.11 and 3.12): loads run on each of them
//! over our block device, whose trace is replayed on a page-level and on a FAST drive; and how fast that goes.

use std::sync::Arc;

use ferrite_block::{BlockDisk, DiskOptions};
use ferrite_disk::{Clock, Trace, TraceDisk, TraceFormat};
use ferrite_disk_address::HostClock;
use ferrite_memory::Guard;
use ferrite_sim::ftl::{FlashFigures, FlashShape, FtlScheme, VictimChoice};

use crate::node::{self, BTRFS, EXT4, FileSystem, Ground, XFS, Yard};
use crate::options::{Length, OnProgress, Options};
use crate::protection::stage::Stage;
use crate::report::{Claim, Measure, Report, rows};
use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::session::{Session, Subject};
use crate::{Result, program};

mod drives;
mod loads;
mod speed;
mod verdict;

use drives::Drives;
use loads::{LOADS, Load};

/// Each with its mount options: the time of a read is no reason to write, and btrfs is mounted as in the paper.
const FILE_SYSTEMS: [(&FileSystem, &str); 3] = [(&EXT4, "noatime"), (&XFS, "noatime"), (&BTRFS, "noatime,nodatacow")];
/// Both schemes of the paper, by their names in the report.
const SCHEMES: [(&str, FtlScheme); 2] =
    [("page-level", FtlScheme::Page(VictimChoice::Greedy)), ("FAST", FtlScheme::Fast { log_blocks: None })];
/// The paper's: 4 KB pages, 256 KB blocks, 10 %.
const LIKE: FlashShape = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: 64, page_bytes: 4096 };
const OVER_PROVISION_PERCENT: f64 = 10.0;
/// Milliseconds that a load is reckoned to take on one file system.
const LOAD_MS: u64 = 4000;

/// What is measured of a drive, for a chart: figure 3.11 or 3.12.
struct Measured {
    name: &'static str,
    unit: &'static str,
    of: fn(&FlashFigures) -> f64,
}

const ERASES: Measured = Measured { name: "erases", unit: "erase", of: |figures| figures.erases as f64 };
const COST: Measured = Measured { name: "copied per erase", unit: "pages", of: |figures| figures.copied_per_erase };
/// Other denominators that papers use.
const OTHER_COSTS: [Measured; 2] = [
    Measured { name: "copied per merge", unit: "pages", of: |figures| figures.copied_per_merge },
    Measured { name: "copied per reclaimed block", unit: "pages", of: |figures| figures.copied_per_reclaimed_block },
];

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let loads: Vec<&Load> = LOADS.iter().filter(|load| options.wants(load.name)).collect();
    let total_ms = (loads.len() * FILE_SYSTEMS.len()) as u64 * LOAD_MS + speed::total_ms(options);
    let mut session = Session::new(&Subject { experiment: "ftl", paper: &PAPER, total_ms }, options, on_progress);
    speed::measure(&mut session)?;
    let notes = file_systems(&mut session, &loads)?;
    let verdict = verdict::of(&session.report, notes);
    Ok(session.end(verdict))
}

/// Every load on every file system; what was left out and why.
fn file_systems(session: &mut Session<'_>, loads: &[&Load]) -> Result<Vec<String>> {
    if loads.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(why) = node::missing() {
        return Ok(vec![format!("file systems were left out: {why}")]);
    }
    let bytes = disk_bytes(session.options.length);
    let place = session.options.place.display().to_string();
    session.tell(&format!("making a disk: {} MiB of {place}, and no more later", Stage::file_bytes(bytes) >> 20))?;
    let stage = Stage::build(&session.options.place, bytes)?;
    let disk = stage.disk_on(Arc::new(stage.map(Guard::best())?), DiskOptions::default())?;
    let (mut notes, mut ran) = (Vec::new(), Vec::new());
    let (there, missing): (Vec<_>, Vec<_>) =
        FILE_SYSTEMS.into_iter().partition(|(one, _)| program::find(one.mkfs).is_some());
    notes.extend(missing.iter().map(|(one, _)| format!("{} was left out: there is no {}", one.name, one.mkfs)));
    for load in loads {
        if program::find(load.needs).is_none() {
            notes.push(format!("{} was left out: there is no {}", load.name, load.needs));
            continue;
        }
        let mut found = Vec::new();
        for mounted in &there {
            found.push((mounted.0.name, traced(session, &disk, load, *mounted)?));
            session.steps.step(load.name, LOAD_MS)?;
        }
        tell(session, load, &found);
        ran.push(load.name);
    }
    charts(session, &ran);
    Ok(notes)
}

/// xfs takes no less than 300 MiB.
fn disk_bytes(length: Length) -> u64 {
    match length {
        Length::Full => 1 << 30,
        Length::Quick => 512 << 20,
        Length::Smoke => 320 << 20,
    }
}

/// What one load on one file system does to a drive of each scheme, from making the file system to unmounting it.
fn traced(
    session: &mut Session<'_>,
    disk: &Arc<BlockDisk>,
    load: &Load,
    (file_system, mount_options): (&'static FileSystem, &'static str),
) -> Result<Vec<FlashFigures>> {
    let name = file_system.name;
    session.tell(&format!("{} on {name}", load.name))?;
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
        let yard = Yard::new()?;
        let node = yard.node(name, Ground::Disk(under_trace.clone()), mount_options)?.of(file_system);
        node.format()?;
        load.run(node.path(), &scratch, session.options.length)?;
        node.unmount()?;
    }
    let finished = under_trace.finish();
    // What stopped a drive is the cause of a trace that could not be written.
    let figures = drives.end()?;
    finished?;
    Ok(figures)
}

/// The rows of one load: each file system beside the first that has any of what is measured.
fn tell(session: &mut Session<'_>, load: &Load, found: &[(&str, Vec<FlashFigures>)]) {
    let mut add = |case: String, unit, value: &dyn Fn(&[FlashFigures]) -> f64| {
        let of =
            |(name, figures): &(&str, Vec<FlashFigures>)| Series { name: (*name).into(), values: vec![value(figures)] };
        let series: Vec<Series> = found.iter().map(of).collect();
        if let Some(beside) = series.iter().find(|one| one.values[0] > 0.0) {
            session.report.rows.extend(rows(&case, unit, &series, beside));
        }
    };
    add(format!("{}: written", load.name), "pages", &|figures| figures[0].host_writes as f64);
    for (at, (scheme, _)) in SCHEMES.iter().enumerate() {
        for measured in [ERASES, COST].iter().chain(&OTHER_COSTS) {
            add(case(load.name, scheme, measured), measured.unit, &|figures| (measured.of)(&figures[at]));
        }
    }
}

fn case(load: &str, scheme: &str, measured: &Measured) -> String {
    format!("{load}, {scheme}: {}", measured.name)
}

fn charts(session: &mut Session<'_>, loads: &[&str]) {
    for (figure, measured) in [("Figure 3.11", ERASES), ("Figure 3.12", COST)] {
        for (scheme, _) in SCHEMES {
            let title = format!("{figure}: {} of a {scheme} drive", measured.name);
            session.chart(&title, Measure::Value, loads.iter().map(|load| case(load, scheme, &measured)).collect());
        }
    }
}

/// The figures are drawn without numbers; this one the text gives, of the paper's own file system.
const PAPER: [Claim; 1] = [Claim {
    place: "3.3.3, figure 3.11",
    what: "pages written by NVMFS under Filebench beside the other file systems, and so fewer erases",
    ratio: 0.5,
}];
