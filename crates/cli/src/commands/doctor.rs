//! `ferrite doctor`.

mod machine;
mod measure;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ferrite_memory::Backing;
use ferrite_owner::paths::in_line;
use ferrite_owner::{SurvivalAnswer, SurvivalReport, SurvivalState};
use serde::Serialize;

use super::print;
use crate::duration;
use crate::host;
use crate::outcome::{Failure, Outcome};
use crate::stop;
use machine::{Limit, MachineFeature};
use measure::{DurableWrites, ScratchPool};

/// The folder whose pools are memory on nearly every Linux.
const MEMORY_FOLDER: &str = "/dev/shm";

/// The cases in which Ferrite is the wrong choice, on every machine.
const NOT_FOR: [&str; 4] = [
    "a program that never calls fsync: the kernel's page cache already answers from memory",
    "data larger than the pool, unless a file system has an SSD tier (`ferrite fs tier`) or a disk is a guest (`ferrite guest`)",
    "a member of a consensus group on a pool in memory: after a reboot it has forgotten votes that others count on",
    "power loss on a machine without persistent memory: a flush must wait for the disk, with Ferrite or without",
];

/// Report what this machine has, what a pool would survive in a folder, and what it would gain
///
/// Measures durable writes of 4 KiB in the folder by write and fsync, then in a pool there, then in a pool in memory.
/// Needs 128 MiB of space in the folder for that time, and leaves nothing there.
#[derive(Args)]
pub struct Doctor {
    /// The folder in which the pool would be [default: the folder of the pool that `ferrite up` makes]
    dir: Option<PathBuf>,
    /// The time that each kind of write is measured, such as 500ms or 10s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    time: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The findings about a machine and a folder.
#[derive(Debug, Serialize)]
struct DoctorReport {
    /// The properties that a pool uses, each present or missing.
    machine: Vec<MachineFeature>,
    /// The limits that a pool runs into.
    limits: Vec<Limit>,
    /// The folder.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    dir: PathBuf,
    /// The storage of a pool in the folder: dax, hugetlb, shm or file.
    backing: &'static str,
    /// The failures that a pool in the folder survives.
    survives: SurvivalReport,
    /// The measured ways to write durably.
    writes: Vec<DurableWrites>,
    /// The changes that would make a pool faster or safer.
    advice: Vec<String>,
    /// The cases in which Ferrite does not help.
    not_for: Vec<String>,
}

impl Doctor {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let dir = self.dir.map_or_else(default_dir, Ok)?;
        let dir = dir.canonicalize().map_err(|error| format!("looking at {}: {error}", in_line(&dir)))?;
        if !dir.is_dir() {
            let name = in_line(&dir);
            return Err(Failure::Usage(format!("{name} is not a folder: name the folder in which a pool would be")));
        }
        stop::watch()?;
        let report = examine(&dir, self.time)?;
        print(self.json, &report, DoctorReport::show)
    }
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map(Duration::from_nanos)
}

/// Returns the folder of the default pool, or the nearest folder above it that exists.
fn default_dir() -> Outcome<PathBuf> {
    let pool = host::default_pool()?;
    Ok(pool.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).into())
}

/// Examines this machine and the folder `dir`, and measures each way to write for `time`.
fn examine(dir: &Path, time: Duration) -> Outcome<DoctorReport> {
    let pool = ScratchPool::create(dir)?;
    let (backing, survives) = (pool.backing(), pool.survives());
    let mut writes = vec![measure::fsync(dir, time)?, pool.measure(time)?];
    drop(pool);
    let memory = Path::new(MEMORY_FOLDER);
    if backing == Backing::File && memory.is_dir() {
        writes.push(ScratchPool::create(memory)?.measure(time)?);
    }
    let machine = machine::features();
    let advice = advice(backing, &survives);
    let (limits, not_for) = (machine::limits(dir), NOT_FOR.map(Into::into).into());
    Ok(DoctorReport { machine, limits, dir: dir.into(), backing: backing.name(), survives, writes, advice, not_for })
}

/// Returns the changes of place that would make a pool faster or safer.
fn advice(backing: Backing, survives: &SurvivalReport) -> Vec<String> {
    let place = match backing {
        Backing::File => Some(
            "faster: a pool in /dev/shm that an image keeps (`ferrite up --pool /dev/shm/pool --keep IMAGE`); a crash of the \
             machine takes what was written since the last save",
        ),
        Backing::Shm | Backing::Hugetlb | Backing::Anon => Some(
            "safer: a pool in a file on a disk keeps what was flushed (`ferrite up --pool FILE`); on persistent memory \
             with DAX it keeps every completed write",
        ),
        Backing::Dax => None,
    };
    place.into_iter().chain(survives.advice()).map(Into::into).collect()
}

/// Returns `answer` about a failure as a line.
fn survival_line(failure: &str, answer: &SurvivalAnswer) -> String {
    let state = match answer.state {
        SurvivalState::Yes => "yes",
        SurvivalState::No => "no",
        SurvivalState::NotKnown => "not known",
    };
    format!("  {failure:<14} {state:<10} {}\n", answer.why)
}

impl DoctorReport {
    fn show(&self) -> String {
        let mut text = String::from("This machine\n");
        text.extend(self.machine.iter().map(MachineFeature::show));
        text += "\nLimits\n";
        text.extend(self.limits.iter().map(Limit::show));
        text += &format!("\nA pool in {} ({}) survives\n", in_line(&self.dir), self.backing);
        text += &survival_line("process crash", &self.survives.process_crash);
        text += &survival_line("kernel crash", &self.survives.kernel_crash);
        text += &survival_line("power loss", &self.survives.power_loss);
        text += if self.survives.when_flushed { "  each for flushed data\n" } else { "" };
        text += "\nDurable writes of 4 KiB, one after the other      median       p99   a second\n";
        text.extend(self.writes.iter().map(DurableWrites::show));
        text += "\nAdvice\n";
        let missing = self.machine.iter().filter_map(|feature| feature.advice.as_deref());
        text.extend(missing.chain(self.advice.iter().map(String::as_str)).map(|line| format!("  {line}\n")));
        text += "\nFerrite does not help\n";
        text.extend(self.not_for.iter().map(|line| format!("  {line}\n")));
        text
    }
}
