//! Memory's file systems beside disk file systems on the protected disk (pmbd.txt, figure 13): the paper's eight loads on
//! our own file system, as it is mounted, on ext2, ext3, ext4 and XFS on our disk, and on tmpfs and ramfs, which promise
//! nothing.

use std::path::Path;
use std::sync::Arc;

use ferrite_block::DiskOptions;
use ferrite_fs::SUPER_THRESHOLD_BYTES;
use ferrite_memory::Guard;

use crate::Result;
use crate::applications::{Contestant, Plan};
use crate::node::{EXT2, EXT3, EXT4, FileSystem, Ground, XFS};
use crate::options::{Length, OnProgress, Options};
use crate::protection::stage::Stage;
use crate::report::{Claim, Report};
use crate::session::{Session, Subject};
use crate::tree::{Grove, Tree};
use crate::verdict::{self, range};

/// Ours, as `ferrite up` mounts it: durable when a write returns.
const MOUNT: &str = "ferrite";
/// Ours, `--cached`: durable at fsync, as the disk file systems are.
const CACHED: &str = "ferrite --cached";
/// What all stand beside.
const TMPFS: &str = "tmpfs";
const RAMFS: &str = "ramfs";
/// On our disk.
const ON_DISK: [(&str, &FileSystem); 4] =
    [("ext2 on disk", &EXT2), ("ext3 on disk", &EXT3), ("ext4 on disk", &EXT4), ("xfs on disk", &XFS)];
const TITLE: &str = "Time of applications, by file system (figure 13)";

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let plans = plans(options.length);
    let total_ms = plans.iter().map(|plan| plan.total_ms(4 + ON_DISK.len())).sum();
    let mut session =
        Session::new(&Subject { experiment: "alternatives", paper: &PAPER, total_ms }, options, on_progress);
    let mut notes = Vec::new();
    for plan in plans {
        notes.extend(plan.run(&mut session, TMPFS, |bytes| field(&options.place, bytes))?);
    }
    notes.dedup();
    let verdict = verdict_of(&session.report, notes);
    Ok(session.end(verdict))
}

/// Where time is short, five; and the database, which takes as long on every disk, once.
fn plans(length: Length) -> Vec<Plan<'static>> {
    let plan = || Plan::of(length, TITLE);
    match length {
        Length::Quick => {
            vec![
                Plan { loads: &["untar", "tar", "devel", "sfs"], ..plan() },
                Plan { loads: &["tpcc"], rounds: 1, ..plan() },
            ]
        }
        _ => vec![plan()],
    }
}

/// Each with room for `bytes` of files.
fn field(place: &Path, bytes: u64) -> Result<Vec<Contestant>> {
    let grove = Grove::new(place, 2 * bytes + bytes / 4)?;
    let ours = |name: &'static str, cached| {
        let super_threshold_bytes = Some(SUPER_THRESHOLD_BYTES);
        let tree = Tree { grove: Arc::clone(&grove), name, cached, super_threshold_bytes };
        Contestant::on(name, Ground::Tree(tree), "")
    };
    let mut all = vec![
        Contestant::on(TMPFS, Ground::PageCache("tmpfs"), "size=100%"),
        Contestant::on(RAMFS, Ground::PageCache("ramfs"), "rw"),
        ours(MOUNT, false),
        ours(CACHED, true),
    ];
    for (name, file_system) in ON_DISK {
        let stage = Stage::build(place, file_system.disk_bytes(bytes))?;
        let disk = stage.disk_on(Arc::new(stage.map(Guard::best())?), DiskOptions::default())?;
        all.push(Contestant::on(name, Ground::Disk(disk), "rw").of(file_system));
    }
    Ok(all)
}

fn verdict_of(report: &Report, notes: Vec<String>) -> String {
    let told = |who: &'static str| {
        let ratios = range(report, |row| row.subject == who)?;
        Some(format!("{who} {ratios}"))
    };
    let subjects = [MOUNT, CACHED, RAMFS].into_iter().chain(ON_DISK.map(|(name, _)| name));
    let told: Vec<String> = subjects.filter_map(told).collect();
    let mut parts = Vec::new();
    if !told.is_empty() {
        parts.push(format!(
            "applications take, beside tmpfs, which keeps nothing: {} times as long (paper, ext2 on PMBD: 1.1 to 3)",
            told.join(", ")
        ));
    }
    verdict::join(report, parts, notes)
}

const PAPER: [Claim; 4] = [
    Claim { place: "figure 13", what: "time of tpch, the best disk file system on PMBD beside memory's", ratio: 1.19 },
    Claim { place: "figure 13", what: "time of clamav, the same", ratio: 1.16 },
    Claim { place: "figure 13", what: "time of glimpseindex, the same", ratio: 1.10 },
    Claim { place: "figure 13", what: "time of untar, the same: about three times", ratio: 3.0 },
];
