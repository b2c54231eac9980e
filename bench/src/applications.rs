//! The loads of table II on several disks in turn, each with a file system of its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use ferrite_disk::Disk;

use crate::loads::{AppLoad, AppSize, LOADS, LoadKit};
use crate::mount_node::{self, KernelFs, MountNode, MountRoot, NodeSource};
use crate::options::Length;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};
use crate::{Result, program};

/// Milliseconds that one run of a load is expected to take.
const RUN_MS: u64 = 1200;

/// A file system that loads run on.
pub struct AppSubject {
    /// The name in the report.
    pub name: String,
    /// The disk or other source of the file system.
    pub source: NodeSource,
    /// The mount options.
    pub mount_options: &'static str,
    file_system: &'static KernelFs,
}

/// The mount option for write barriers, which is the default.
pub const WITH_BARRIERS: &str = "barrier";
/// The mount option for a file system that never flushes.
pub const WITHOUT_BARRIERS: &str = "nobarrier";

impl AppSubject {
    /// ext4 on a disk of this process.
    pub fn disk(name: impl Into<String>, disk: Arc<dyn Disk>) -> Self {
        Self::on(name, NodeSource::Disk(disk), WITH_BARRIERS)
    }

    /// The file system on `ground`: ext4 if `ground` is a disk.
    pub fn on(name: impl Into<String>, source: NodeSource, mount_options: &'static str) -> Self {
        Self { name: name.into(), source, mount_options, file_system: &mount_node::EXT4 }
    }

    /// The subject with another file system on its disk.
    pub fn of(self, file_system: &'static KernelFs) -> Self {
        Self { file_system, ..self }
    }

    /// The subject mounted without barriers.
    pub fn without_barriers(self) -> Self {
        Self { mount_options: WITHOUT_BARRIERS, ..self }
    }
}

/// The loads of an experiment, and how often each runs.
pub struct AppPlan<'a> {
    /// Names of loads, those that matter most first.
    pub loads: &'a [&'a str],
    /// The sizes of the loads.
    pub size: AppSize,
    /// Rounds that are counted.
    pub rounds: usize,
}

impl<'a> AppPlan<'a> {
    /// All loads as often as the paper ran them; a smoke run has two of them once.
    pub fn of(length: Length) -> Self {
        const ALL: [&str; 8] = ["untar", "tar", "devel", "sfs", "tpcc", "tpch", "glimpseindex", "clamav"];
        let (loads, rounds) = (length.pick([&ALL[..], &ALL[..5], &ALL[..2]]), length.pick([3, 3, 1]));
        Self { loads, size: AppSize::of(length), rounds }
    }

    /// Runs the loads on the disks that `field` makes, each of at least the bytes that it is given. Every value stands
    /// beside the value of the subject `beside`.
    pub fn run(
        &self,
        session: &mut BenchSession<'_>,
        beside: &str,
        field: impl FnOnce(u64) -> Result<Vec<AppSubject>>,
    ) -> Result<()> {
        let named = |name: &&str| LOADS.iter().find(|load| load.name == *name);
        let loads = session.wanted(self.loads.iter().filter_map(named), |load| load.name);
        if loads.is_empty() {
            return Ok(());
        }
        if let Some(why) = mount_node::missing() {
            session.left_out("every application", why);
            return Ok(());
        }
        session.announce("making disks")?;
        let mount_root = MountRoot::new()?;
        let nodes = enter(&mount_root, field(self.size.disk_bytes())?)?;
        let kit = LoadKit::new(&session.options.place, self.size)?;
        for load in loads {
            session.announce(&format!("preparing {}", load.name))?;
            if !load.is_available(&kit)? {
                session.left_out(load.name, format!("it needs {}", load.needs));
                continue;
            }
            for (name, node) in &nodes {
                session.announce(&format!("preparing {} on {name}", load.name))?;
                node.format()?;
                program::run(Command::new("mkdir").arg(home(node)))?;
                load.prepare(&kit, &home(node))?;
            }
            let mut subjects: Vec<BenchSubject<'_>> = Vec::new();
            for (name, node) in &nodes {
                subjects.push(BenchSubject::new(name.clone(), |_| run_once(load, &kit, node)));
            }
            let race = Race { case: load.name, unit: "s", rounds: self.rounds, slice_ms: RUN_MS, beside };
            session.race(&race, subjects)?;
        }
        Ok(())
    }
}

fn enter(mount_root: &MountRoot, field: Vec<AppSubject>) -> Result<Vec<(String, MountNode)>> {
    let enter = |(number, one): (usize, AppSubject)| {
        let node = mount_root.node(&format!("disk{number}"), one.source, one.mount_options)?;
        Ok((one.name, node.of(one.file_system)))
    };
    field.into_iter().enumerate().map(enter).collect()
}

fn run_once(load: &AppLoad, kit: &LoadKit, node: &MountNode) -> Result<f64> {
    node.refresh()?;
    let home = home(node);
    let seconds = load.run(kit, &home)?;
    load.reset(&home)?;
    Ok(seconds)
}

fn home(node: &MountNode) -> PathBuf {
    node.path().join("load")
}
