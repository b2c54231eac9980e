//! Memory's file systems beside disk file systems on the protected disk (pmbd.txt, figure 13): the paper's eight loads on
//! our own file system, mounted, on ext2, ext3, ext4 and XFS on our disk, and on tmpfs and ramfs, where nothing is durable.

use std::path::Path;

use ferrite_memory::Guard;

use crate::Result;
use crate::applications::{AppPlan, AppSubject};
use crate::mount_node::{EXT2, EXT3, EXT4, KernelFs, NodeSource, XFS};
use crate::options::Length;
use crate::pool_tree::{OpenPool, PoolTree};
use crate::protection::filled_disk::FilledDisk;
use crate::report::claim;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios};

/// Our file system, mounted by default options: durable when a write returns.
const MOUNT: &str = "ferrite";
/// Our file system, mounted `--cached`: durable at fsync, like the disk file systems.
const CACHED: &str = "ferrite --cached";
/// The subject that all are compared with.
const TMPFS: &str = "tmpfs";
const RAMFS: &str = "ramfs";
/// The disk file systems on our disk.
const ON_DISK: [(&str, &KernelFs); 4] =
    [("ext2 on disk", &EXT2), ("ext3 on disk", &EXT3), ("ext4 on disk", &EXT4), ("xfs on disk", &XFS)];

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    for plan in plans(options.length) {
        plan.run(session, TMPFS, |bytes| field(&options.place, bytes))?;
    }
    session.notes.dedup();
    Ok(())
}

/// A quick run has five loads, and the database, whose time is fixed, in one round only.
fn plans(length: Length) -> Vec<AppPlan<'static>> {
    let plan = || AppPlan::of(length);
    match length {
        Length::Quick => vec![
            AppPlan { loads: &["untar", "tar", "devel", "sfs"], ..plan() },
            AppPlan { loads: &["tpcc"], rounds: 1, ..plan() },
        ],
        _ => vec![plan()],
    }
}

/// The file systems, each with room for `bytes` of files.
fn field(place: &Path, bytes: u64) -> Result<Vec<AppSubject>> {
    let open_pool = OpenPool::new(place, 2 * bytes + bytes / 4)?;
    let ours = |name: &'static str, cached| {
        AppSubject::on(name, NodeSource::Tree(PoolTree { cached, ..PoolTree::new(&open_pool, name) }), "")
    };
    let mut all = vec![
        AppSubject::on(TMPFS, NodeSource::PageCache("tmpfs"), "size=100%"),
        AppSubject::on(RAMFS, NodeSource::PageCache("ramfs"), "rw"),
        ours(MOUNT, false),
        ours(CACHED, true),
    ];
    for (name, file_system) in ON_DISK {
        let stage = FilledDisk::build(place, file_system.disk_bytes(bytes))?;
        all.push(AppSubject::on(name, NodeSource::Disk(stage.whole(Guard::best())?), "rw").of(file_system));
    }
    Ok(all)
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "alternatives",
    about: "applications on our file system, on disk file systems on our disk, and on memory's (PMBD, figure 13)",
    expected_ms: [307_000, 173_000, 38_000],
    run,
    verdict: &[
        line("time of applications beside tmpfs, which keeps nothing", "*"),
        figure(MOUNT, MOUNT),
        figure(CACHED, CACHED),
        figure(RAMFS, RAMFS),
        figure("ext2 on disk", "ext2 on disk").paper("1.1 to 3, on PMBD"),
        figure("ext3 on disk", "ext3 on disk"),
        figure("ext4 on disk", "ext4 on disk"),
        figure("xfs on disk", "xfs on disk"),
    ],
    paper: &[
        claim("figure 13", 1.19, "time of tpch, the best disk file system on PMBD beside memory's"),
        claim("figure 13", 1.16, "time of clamav, the same"),
        claim("figure 13", 1.10, "time of glimpseindex, the same"),
        claim("figure 13", 3.0, "time of untar, the same: about three times"),
    ],
    charts: &[ratios("Time of applications, by file system (figure 13)", "*").unit("s")],
};

#[cfg(test)]
mod tests;
