//! The protected disk beside other media (pmbd.txt, figure 14): disks of memory that others serve, this machine's own
//! disk, and the hard disk and the SSD of the paper's testbed, simulated.

use std::path::PathBuf;
use std::sync::Arc;

use ferrite_memory::Guard;

use crate::Result;
use crate::applications::{AppPlan, AppSubject, WITH_BARRIERS};
use crate::copy_plan::{self, CopyPlan, CopySubject};
use crate::ferrite::OURS;
use crate::loads::AppSize;
use crate::mount_node::NodeSource;
use crate::nbd_server::{NBDKIT, QEMU};
use crate::options::Length;
use crate::protection::copy_load::CopyLoad;
use crate::protection::filled_disk::FilledDisk;
use crate::report::claim;
use crate::scratch::Scratch;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios, remark};

pub(crate) mod disks;

use disks::{DiskField, HDD, LOOP, OWN, SSD};

/// Bytes from one flush to the next.
const UNFLUSHED_BYTES: u64 = 256 << 10;

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    let (plan, applications) = (plan(options.length), applications(options.length));
    session.announce("starting servers")?;
    let bytes = plan.disk_bytes.max(applications.size.disk_bytes());
    let scratch = Scratch::new(&options.place)?;
    let mut field = DiskField::default();
    field.enter(OURS, FilledDisk::build(&options.place, bytes)?.whole(Guard::best())?);
    field.enter_served(session, &scratch, bytes)?;
    field.enter_own(session, bytes)?;
    field.enter_simulated(bytes);
    in_process(session, &field, CopyPlan { size: bytes / 2, ..plan })?;
    let image = scratch.filled("image", bytes)?;
    applications.run(session, OURS, |_| Ok(contestants(&field, image)))
}

/// The plan for disks, with few rounds because a hard disk answers a hundred requests a second.
fn plan(length: Length) -> CopyPlan {
    let plan = CopyPlan::of(length);
    let rounds = if length == Length::Full { 5 } else { plan.rounds.min(3) };
    CopyPlan { rounds, disk_bytes: plan.disk_bytes / 2, ..plan }
}

/// The applications. A quick run has those whose times differ most. The source tree is small, because a hard disk takes
/// 10 ms for each file.
fn applications(length: Length) -> AppPlan<'static> {
    let plan = AppPlan::of(length);
    let source_bytes = plan.size.source_bytes / 4;
    let loads = if length == Length::Quick { &["untar", "tar", "sfs", "tpcc"] } else { plan.loads };
    AppPlan { loads, size: AppSize { source_bytes, ..plan.size }, ..plan }
}

/// Measures reads and writes. Flushes are part of the time, because disks with a cache pay for writes there.
fn in_process(session: &mut BenchSession<'_>, field: &DiskField, plan: CopyPlan) -> Result<()> {
    let loads = copy_plan::loads(&[false, true], &[4 << 10, 256 << 10], &[1]).into_iter();
    let loads = loads.filter(|load| load.random == (load.bytes == 4 << 10));
    for load in session.wanted(loads, CopyLoad::name) {
        let every = UNFLUSHED_BYTES / load.bytes;
        let copiers = field.entries.iter().map(|(name, disk)| CopySubject::disk(*name, Arc::clone(disk), Some(every)));
        let copiers: Vec<CopySubject<'_>> = copiers.collect();
        let case = if load.writes { format!("{}, flushed every 256K", load.name()) } else { load.name() };
        plan.measure(session, &case, &load, &copiers)?;
    }
    Ok(())
}

/// Every disk through a /dev node of ours, and the kernel's loop device without one.
fn contestants(field: &DiskField, image: PathBuf) -> Vec<AppSubject> {
    let disks = field.entries.iter().map(|(name, disk)| AppSubject::disk(*name, Arc::clone(disk)));
    let mut all: Vec<AppSubject> = disks.collect();
    all.insert(1, AppSubject::on(LOOP, NodeSource::File(image), WITH_BARRIERS));
    all
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "media",
    about: "the protected disk beside disks of memory, this machine's disk, an SSD and a hard disk (PMBD, figure 14)",
    expected_ms: [291_000, 149_000, 41_000],
    run,
    verdict: &[
        line("tpcc, times as long as on ferrite", "tpcc"),
        figure("the simulated hard disk", HDD).paper("110"),
        figure("the simulated SSD", SSD).paper("5.7"),
        figure("this machine's disk", OWN),
        line("devel, times as long as on ferrite", "devel"),
        figure("the simulated hard disk", HDD).paper("1.8"),
        line("all applications, times as long as on ferrite", "*"),
        figure("the simulated hard disk", HDD).unit("s"),
        figure("the simulated SSD", SSD).unit("s"),
        figure("the kernel's loop device on tmpfs, which takes no second trip through the kernel,", LOOP).unit("s"),
        figure("nbdkit's memory", NBDKIT).unit("s"),
        figure("qemu-nbd on tmpfs", QEMU).unit("s"),
        remark("applications that mostly compute gain little, as in the paper"),
    ],
    paper: &[
        claim("figure 14", 110.0, "time of tpcc on the hard disk beside PMBD"),
        claim("figure 14", 5.7, "time of tpcc on the SSD beside PMBD"),
        claim("figure 14", 1.8, "time of devel on the hard disk beside PMBD"),
    ],
    charts: &[
        ratios("Reads and writes beside ours, by medium", "*").unit("MB/s"),
        ratios("Time of applications on ext4, by medium (figure 14)", "*").unit("s"),
    ],
};

#[cfg(test)]
mod tests;
