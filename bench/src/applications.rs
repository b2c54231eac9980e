//! The loads of table II on several disks in turn, each with a file system of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ferrite_disk::Disk;

use crate::loads::{KINDS, Kind, Kit, Load, Size};
use crate::node::{self, FileSystem, Ground, Node, Yard};
use crate::options::{Length, Options};
use crate::report::{Measure, rows};
use crate::rounds::{self, Subject};
use crate::session::Session;
use crate::{Result, program};

/// Milliseconds that one run of a load is reckoned to take.
const RUN_MS: u64 = 1200;
const UNIT: &str = "s";

/// A disk, or what else has a file system, that loads run on.
pub struct Contestant {
    /// Its name in the report.
    pub name: String,
    /// What it is.
    pub ground: Ground,
    /// How its file system is mounted.
    pub mount_options: &'static str,
    file_system: &'static FileSystem,
}

/// With write barriers, as everybody mounts.
pub const WITH_BARRIERS: &str = "barrier";
/// Without: the file system never flushes.
pub const WITHOUT_BARRIERS: &str = "nobarrier";

impl Contestant {
    /// A disk of this process.
    pub fn disk(name: impl Into<String>, disk: Arc<dyn Disk>) -> Self {
        Self::on(name, Ground::Disk(disk), WITH_BARRIERS)
    }

    /// What is on `ground`; ext4, if it is a disk.
    pub fn on(name: impl Into<String>, ground: Ground, mount_options: &'static str) -> Self {
        Self { name: name.into(), ground, mount_options, file_system: &node::EXT4 }
    }

    /// The same with another file system on the disk.
    pub fn of(self, file_system: &'static FileSystem) -> Self {
        Self { file_system, ..self }
    }

    /// The same without barriers.
    pub fn without_barriers(self) -> Self {
        Self { mount_options: WITHOUT_BARRIERS, ..self }
    }
}

/// What is run, and how often.
pub struct Plan<'a> {
    /// The paper's figure, for the chart's title.
    pub title: &'a str,
    /// Names of loads, those that matter most first.
    pub loads: &'a [&'a str],
    /// What is run of them.
    pub size: Size,
    /// Runs that count.
    pub rounds: usize,
}

impl<'a> Plan<'a> {
    /// All loads as often as the paper ran them; to see that it works, two of them once.
    pub fn of(length: Length, title: &'a str) -> Self {
        const ALL: [&str; 8] = ["untar", "tar", "devel", "sfs", "tpcc", "tpch", "glimpseindex", "clamav"];
        let (loads, rounds) = match length {
            Length::Full => (&ALL[..], 3),
            Length::Quick => (&ALL[..5], 3),
            Length::Smoke => (&ALL[..2], 1),
        };
        Self { title, loads, size: Size::of(length), rounds }
    }

    fn kinds(&self, options: &Options) -> Vec<&'static Kind> {
        let wanted = |name: &&&str| options.wants(name);
        let named = |name: &&str| KINDS.iter().find(|kind| kind.name == *name);
        self.loads.iter().filter(wanted).filter_map(named).collect()
    }

    /// Milliseconds it takes with `contestants`, about.
    pub fn total_ms(&self, contestants: usize) -> u64 {
        if node::missing().is_some() {
            return 0;
        }
        (self.loads.len() * contestants * (self.rounds + 1)) as u64 * RUN_MS
    }
}

impl Plan<'_> {
    /// Runs it on the disks that `field` makes, of at least the bytes it is told; each value stands beside that of the
    /// contestant `beside`. What was left out and why, for people.
    pub fn run(
        &self,
        session: &mut Session<'_>,
        beside: &str,
        field: impl FnOnce(u64) -> Result<Vec<Contestant>>,
    ) -> Result<Vec<String>> {
        let kinds = self.kinds(session.options);
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(why) = node::missing() {
            return Ok(vec![format!("applications were left out: {why}")]);
        }
        session.tell("making disks")?;
        let yard = Yard::new()?;
        let nodes = enter(&yard, field(self.size.disk_bytes())?)?;
        let kit = Kit::new(&session.options.place, self.size)?;
        let (mut notes, mut ran) = (Vec::new(), Vec::new());
        for kind in kinds {
            session.tell(&format!("preparing {}", kind.name))?;
            match kind.make(&kit)? {
                Some(load) => {
                    self.race(session, &*load, &nodes, (kind.name, beside))?;
                    ran.push(kind.name.to_owned());
                }
                None => notes.push(format!("{} was left out: it needs {}", kind.name, kind.needs)),
            }
        }
        session.chart(self.title, Measure::Ratio, ran);
        Ok(notes)
    }

    fn race(
        &self,
        session: &mut Session<'_>,
        load: &dyn Load,
        nodes: &[(String, Node)],
        (case, beside): (&str, &str),
    ) -> Result<()> {
        for (name, node) in nodes {
            session.tell(&format!("preparing {case} on {name}"))?;
            prepare(load, node)?;
        }
        let mut subjects: Vec<Subject<'_>> =
            nodes.iter().map(|(name, node)| Subject::new(name.clone(), move |_| run_once(load, node))).collect();
        let steps = &mut session.steps;
        let series = rounds::run(&mut subjects, self.rounds, &mut || steps.step(case, RUN_MS))?;
        let base = series.iter().find(|one| one.name == beside).unwrap_or(&series[0]);
        session.report.rows.extend(rows(case, UNIT, &series, base));
        Ok(())
    }
}

fn enter(yard: &Yard, field: Vec<Contestant>) -> Result<Vec<(String, Node)>> {
    let enter = |(number, one): (usize, Contestant)| {
        let node = yard.node(&format!("disk{number}"), one.ground, one.mount_options)?;
        Ok((one.name, node.of(one.file_system)))
    };
    field.into_iter().enumerate().map(enter).collect()
}

fn run_once(load: &dyn Load, node: &Node) -> Result<f64> {
    node.refresh()?;
    let home = home(node);
    let seconds = load.run(&home)?;
    load.reset(&home)?;
    Ok(seconds)
}

fn home(node: &Node) -> PathBuf {
    node.path().join("load")
}

fn prepare(load: &dyn Load, node: &Node) -> Result<()> {
    node.format()?;
    let home: &Path = &home(node);
    program::run(Command::new("mkdir").arg(home))?;
    load.prepare(home)
}
