//! `ferrite sim llc`.

mod advice;
mod show;
mod subject;

use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_owner::paths::{in_line, quoted};
use ferrite_pool::Progress;
use ferrite_sim::Error;
use ferrite_sim::cache::wear::{Levelling, WearModel};
use ferrite_sim::cache::{
    CacheEvent, CacheModel, CacheShape, PolicyChoice, PolicyDefaults, Study, StudyEnd, StudyProgress, StudyReport,
};
use ferrite_sim::trace::{AccessFormat, EventSource, PackedWriter, Packing};

use super::output::{Figures, Output, is_same, may_be_written};
use super::warn;
use crate::bar::Bar;
use crate::outcome::{Failure, Outcome};
use crate::{size, stop};

use subject::{Origin, Subject};

/// The default last level of one core: bytes and ways.
const USUAL: (u64, u32) = (2 << 20, 16);

/// The default last level of several cores: bytes and ways.
const USUAL_OF_CORES: (u64, u32) = (8 << 20, 16);

/// The default size of a line in bytes.
pub const LINE: u32 = 64;

/// What each policy of the last-level cache writes back: misses, writebacks, energy, life of the memory
///
/// Runs a program under Debian's qemu-user, at about a twentieth of its speed, and simulates as it runs; or takes a
/// trace of any form that people have, told by its content, also in gzip, xz or zstd: valgrind's lackey, Dinero din,
/// ChampSim, drmemtrace's text, Ramulator's CPU traces, and what --save wrote. Every policy sees the same accesses in
/// one pass; the figures of a trace are the same on any number of threads, and a program may do other things each time
/// that it runs. Each is shown beside LRU, and beside the fewest writebacks that any policy could have. Ctrl-C prints
/// what is known so far. While a program runs no progress is shown: the terminal is its own. If it fails, so does this
/// command, with its status, after the figures. A million lines of memory that are written take about 30 MB with one
/// policy and 15 MB with each more, six times as much where each is in a page of its own, twenty times where it is
/// alone in 256 KiB, and up to 130 MB more with --wear security-refresh.
#[derive(Args)]
pub struct Llc {
    #[command(flatten)]
    what: Subject,
    /// A policy: lru, protect-N, partitioned-PxW (each partition protects one way if it has more) or
    /// partitioned-PxW-protect-N, worth; repeat it for several [default: lru, protect-0, protect, partitioned, worth]
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// The last level: size and ways, 64 at most, in a power of two of sets; more than 16 ways take about three times
    /// as long [default: 2M:16, with several cores 8M:16]
    #[arg(long, value_name = "SIZE:WAYS", value_parser = shape)]
    llc: Option<(u64, u32)>,
    /// Partitions of a partitioned cache
    #[arg(long, value_name = "N", value_parser = size::whole::<u32>)]
    partitions: Option<u32>,
    /// Ways of a set that `protect` protects, up to all of them, which is LRU; `partitioned` divides that number by its
    /// partitions, and protects at least one way in each, unless N is 0, and leaves at least one [default: a quarter]
    #[arg(long, value_name = "N", value_parser = size::whole::<u32>)]
    protect: Option<u32>,
    /// How the memory levels its wear: none, start-gap, randomized-start-gap, security-refresh
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = levelling)]
    wear: Levelling,
    /// Writes that a line of memory endures
    #[arg(long, value_name = "WRITES", default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    endurance: u64,
    /// Count the energy of a read of memory for writes that miss, too
    #[arg(long)]
    fetch_on_write_miss: bool,
    /// Threads to simulate with [default: all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the figures to a file: then what the program prints goes to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw misses, writebacks, energy and lifetime beside LRU's
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Keep what the last level saw, for --trace with --filtered: 9 bytes an event, in zstd (compact-pc)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Llc {
    /// Runs the simulation.
    pub fn run(self) -> Outcome {
        let mut study = Study::new(self.model()?).map_err(|error| Failure::Usage(error.to_string()))?;
        self.refuse_idle_numbers()?;
        self.outputs()?;
        let figures = Figures::begin(self.json, self.output.as_deref())?;
        let Origin { source, running, form } = self.what.source(self.output.is_some(), self.llc.is_some())?;
        self.tell_cores();
        // A progress bar would mix with the program's output.
        let bar = running.is_none().then(Bar::new);
        let (end, cut) = self.consume(&mut study, source, bar)?;
        let program = running.map(|running| self.what.finish(&running, end));
        self.what.trace.iter().for_each(|trace| warn(trace, study.is_cut()));
        let mut report = study.finish(&self.what.name());
        report.form = form.map(AccessFormat::name);
        report.stopped = match end {
            _ if cut.is_some() => Some("cut"),
            StudyEnd::Whole if program.as_ref().is_none_or(|program| program.is_whole) => None,
            StudyEnd::Whole if !stop::is_asked() => Some("lost"),
            _ => Some("interrupted"),
        };
        let drawn = self.plot.as_ref().map_or(Ok(()), |path| show::plot(&report, path));
        let (bytes, ways) = self.last_level();
        figures.print(&report, |report| show::table(report, &self.memory(), bytes, ways))?;
        self.tell_more(&report);
        if let Some(cut) = cut {
            return Err(format!("{cut}: the figures are of what was read").into());
        }
        if let Some(status) = program.and_then(|program| program.failure) {
            return Err(Failure::Program(status));
        }
        if report.stopped.is_some() {
            return Err(Failure::Reported);
        }
        drawn
    }

    /// Prints remarks that complement the figures.
    fn tell_more(&self, report: &StudyReport) {
        if report.events == 0 {
            remark!("ferrite: {} has nothing that the last level sees", report.trace);
        }
        if let Some(advice) = advice::advice(report, self.shape(), self.what.first_level()) {
            remark!("ferrite: {advice}");
        }
        if let Some(path) = &self.save {
            let again = self.again(path);
            remark!("{} is what the last level saw: simulate it again with {again}", in_line(path));
        }
        if report.stopped == Some("interrupted") {
            remark!("ferrite: interrupted: this is what was known after {} events", report.events);
        }
    }

    /// Prints that several cores have a larger last level.
    fn tell_cores(&self) {
        let (bytes, ways) = self.last_level();
        if self.llc.is_none() && (bytes, ways) != USUAL {
            let (cores, bytes) = (self.what.cores(), size::written(bytes));
            remark!("ferrite: with {cores} cores the last level is {bytes}:{ways}: --llc names another");
        }
    }

    /// Refuses numbers that no selected policy uses.
    fn refuse_idle_numbers(&self) -> Outcome {
        let is_named = |name: &str| self.policies.is_empty() || self.policies.iter().any(|policy| policy == name);
        if self.partitions.is_some() && !is_named("partitioned") {
            return Err(Failure::Usage("--partitions is for --policy partitioned".into()));
        }
        if self.protect.is_some() && !is_named("protect") && !is_named("partitioned") {
            return Err(Failure::Usage("--protect is for --policy protect and --policy partitioned".into()));
        }
        Ok(())
    }

    /// Refuses to overwrite a file that would be lost.
    fn outputs(&self) -> Outcome {
        let named = [("--save", &self.save), ("--plot", &self.plot), ("--output", &self.output)];
        let named: Vec<(&str, &Path)> =
            named.iter().filter_map(|(name, path)| Some((*name, path.as_deref()?))).collect();
        for (at, (name, path)) in named.iter().enumerate() {
            may_be_written(path, self.what.trace.as_slice())?;
            if let Some((other, _)) = named[..at].iter().find(|(_, other)| is_same(other, path)) {
                let what = format!("{other} and {name} both name {}: name two files", path.display());
                return Err(Failure::Usage(what));
            }
        }
        Ok(())
    }

    /// Simulates all events of `source`. Returns how the source ended, and the error if the trace is truncated.
    fn consume(
        &self,
        study: &mut Study,
        source: Box<dyn EventSource>,
        bar: Option<Bar>,
    ) -> Outcome<(StudyEnd, Option<Error>)> {
        let mut kept = self.save.as_deref().map(kept).transpose()?;
        let keep = |events: &[CacheEvent]| match &mut kept {
            Some(writer) => events.iter().try_for_each(|event| writer.event(*event)),
            None => Ok(()),
        };
        let (mut accesses, started) = (0, std::time::Instant::now());
        let mut watch = |seen: StudyProgress| {
            accesses = seen.accesses;
            let shown = |bar: &Bar| bar.show(&progress(seen, started.elapsed().as_secs_f64()));
            bar.as_ref().map_or_else(|| !stop::is_asked(), shown)
        };
        let ended = match study.consume(source, keep, &mut watch) {
            Ok(end) => (end, None),
            Err(cut @ Error::Truncated { .. }) if accesses > 0 => (StudyEnd::Whole, Some(cut)),
            Err(error) => return Err(error.into()),
        };
        kept.map_or(Ok(()), |writer| writer.finish()?.finish())?;
        Ok(ended)
    }

    /// Returns the options that simulate the saved accesses in the same cache. They do not include the number of cores.
    fn again(&self, kept: &Path) -> String {
        let mut words = format!("--trace {} --filtered", quoted(kept));
        let (bytes, ways) = self.last_level();
        if (bytes, ways) != USUAL {
            words += &format!(" --llc {}:{ways}", size::written(bytes));
        }
        if self.what.line != LINE {
            words += &format!(" --line {}", self.what.line);
        }
        words
    }

    fn last_level(&self) -> (u64, u32) {
        self.llc.unwrap_or(if self.what.cores() > 1 { USUAL_OF_CORES } else { USUAL })
    }

    fn shape(&self) -> CacheShape {
        let (bytes, ways) = self.last_level();
        CacheShape { bytes, ways, line_bytes: self.what.line }
    }

    fn model(&self) -> Outcome<CacheModel> {
        let llc = self.shape();
        let ways = llc.ways;
        let paper = PolicyDefaults::of(ways);
        let numbers = PolicyDefaults {
            ways,
            protected: self.protect.unwrap_or(paper.protected),
            partitions: self.partitions.unwrap_or(paper.partitions),
        };
        Ok(CacheModel {
            llc,
            choices: self.choices(&numbers).map_err(|error| Failure::Usage(error.to_string()))?,
            fetch_on_write_miss: self.fetch_on_write_miss,
            wear: self.memory(),
            threads: self.threads.map_or_else(processors, Into::into),
        })
    }

    fn choices(&self, numbers: &PolicyDefaults) -> ferrite_sim::Result<Vec<PolicyChoice>> {
        if self.policies.is_empty() {
            return Ok(numbers.usual());
        }
        let mut all = Vec::new();
        for name in &self.policies {
            let choice = numbers.choice(name)?;
            // Two names may mean the same policy.
            if !all.contains(&choice) {
                all.push(choice);
            }
        }
        Ok(all)
    }

    fn memory(&self) -> WearModel {
        WearModel { levelling: self.wear, endurance: self.endurance, ..WearModel::default() }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn kept(path: &Path) -> Outcome<PackedWriter<Output>> {
    Ok(PackedWriter::new(Output::begin(path)?, &path.display().to_string(), Packing::Signatures)?)
}

fn progress(seen: StudyProgress, seconds: f64) -> Progress {
    let rate = seen.accesses as f64 / seconds.max(1e-3) / 1e6;
    let what = format!("{} accesses, {} events, {rate:.0} M accesses/s", seen.accesses, seen.events);
    Progress { what, done: 0, total: 0 }
}

fn shape(text: &str) -> Result<(u64, u32), String> {
    let describe = || format!("{text:?} is no cache: write its size and ways, such as 2M:16");
    let (bytes, ways) = text.split_once(':').ok_or_else(describe)?;
    Ok((size::parse(bytes)?, ways.parse().map_err(|_| describe())?))
}

pub fn line(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two() && (8..=4096).contains(bytes));
    bytes.ok_or_else(|| format!("a line has a power of two of bytes from 8 to 4096, not {text:?}"))
}

fn levelling(name: &str) -> Result<Levelling, String> {
    let found = Levelling::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("there are {}", Levelling::ALL.map(Levelling::name).join(", ")))
}
