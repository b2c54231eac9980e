//! `ferrite sim llc`.

mod show;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_pool::owner::Progress;
use ferrite_sim::cache::wear::{Levelling, Wear};
use ferrite_sim::cache::{Choice, End, Event, Model, Numbers, Seen, Shape, Study};
use ferrite_sim::record::{Program, Running};
use ferrite_sim::trace::{Filter, Filtered, First, Form, Packing, Reading, Source, Writer};

use super::output::{Output, is_same, may_be_written};
use super::{opened_accesses, shown, warn};
use crate::bar::Bar;
use crate::commands::print;
use crate::outcome::{Failure, Outcome};
use crate::paths::{in_line, quoted};
use crate::{size, stop};

/// The last level of one core, where none is named: bytes and ways.
const USUAL: (u64, u32) = (2 << 20, 16);

/// The same of several.
const USUAL_OF_CORES: (u64, u32) = (8 << 20, 16);

/// Bytes of a line, where they are not named.
pub const LINE: u32 = 64;

/// What each policy of the last-level cache writes back: misses, writebacks, energy, life of the memory
///
/// Runs a program under Debian's qemu-user, at about a twentieth of its speed, and simulates as it runs; or takes a
/// trace of any form that people have, told by its content, also in gzip, xz or zstd: valgrind's lackey, Dinero din,
/// ChampSim, drmemtrace's text, Ramulator's CPU traces, and what --save wrote. Every policy sees the same accesses in one
/// pass; the figures of a trace are the same on any number of threads, and a program may do other things each time that
/// it runs. Each is shown beside LRU, and beside the fewest writebacks that any policy could have. Ctrl-C prints what is
/// known so far. A million lines of memory that are written take about 30 MB with one policy and 15 MB with each more, six times
/// as much where each is in a page of its own, twenty times where it is alone in 256 KiB, and up to 130 MB more with --wear
/// security-refresh.
#[derive(Args)]
pub struct Llc {
    #[command(flatten)]
    what: What,
    /// A policy: lru, protect-N, partitioned-PxW (each partition protects one way if it has more) or
    /// partitioned-PxW-protect-N, worth; repeat it for several [default: lru, protect-0, protect, partitioned, worth]
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// The last level: size and ways, 64 at most, in a power of two of sets; more than 16 ways take about three times as
    /// long [default: 2M:16, with several cores 8M:16]
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
    /// Draw misses, writebacks, energy and lifetime beside LRU's
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Keep what the last level saw, for --trace with --filtered: 9 bytes an event, in zstd (compact-pc)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// What is simulated, up to the first level.
#[derive(Args)]
struct What {
    /// A program and its arguments, run under qemu-user and recorded as it runs; what it prints goes to standard error.
    /// Processes that it starts are not recorded
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
    /// A file instead, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    trace: Option<PathBuf>,
    /// Its form, where its content does not tell: lackey, din, champsim, drmemtrace, ramulator, compact, compact-pc
    #[arg(long, value_name = "FORM", requires = "trace", conflicts_with = "program")]
    format: Option<Form>,
    /// The trace has passed a first-level cache already
    #[arg(long, requires = "trace", conflicts_with_all = ["program", "l1", "instructions"])]
    filtered: bool,
    /// The first level of each core: size and ways
    #[arg(long, value_name = "SIZE:WAYS", default_value = "64K:2", value_parser = shape)]
    l1: (u64, u32),
    /// Cores of the trace, each with a first level of its own. Of a program every thread is a core
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
    /// Bytes of a line
    #[arg(long, value_name = "BYTES", default_value_t = LINE, value_parser = line)]
    line: u32,
    /// Fetches of instructions too, through another first level as large
    #[arg(long)]
    instructions: bool,
}

/// Where events come from.
struct Origin {
    source: Box<dyn Source>,
    /// The program, if it is one.
    running: Option<Running>,
    /// The form of the trace, if it is one.
    form: Option<Form>,
}

impl What {
    fn source(&self) -> Outcome<Origin> {
        let shape = Shape { bytes: self.l1.0, ways: self.l1.1, line_bytes: self.line };
        shape.sets().map_err(|error| Failure::Usage(error.to_string()))?;
        let first = First { shape, cores: self.cores, instructions: self.instructions };
        let Some(trace) = &self.trace else {
            if self.program.is_empty() {
                return Err(Failure::Usage("name a program to run with its arguments, or a trace with --trace".into()));
            }
            let program = Program { words: self.program.clone(), folder: None, quiet: false };
            let recording = program.start(first)?;
            let running = recording.program();
            stop::watch()?;
            return Ok(Origin { source: Box::new(recording), running: Some(running), form: None });
        };
        let line_bits = self.line.ilog2();
        let reading = Reading { form: self.format, line_bits, cores: self.cores };
        let (form, reader) = opened_accesses(trace, reading)?;
        let source: Box<dyn Source> = if self.filtered {
            Box::new(Filtered::new(reader, line_bits))
        } else {
            Box::new(Filter::new(reader, first)?)
        };
        Ok(Origin { source, running: None, form: Some(form) })
    }

    /// Waits for the program, and tells how it ended; whether it was recorded to its end.
    fn finish(&self, program: &Running, end: End) -> bool {
        let ended = program.finish(end).filter(|status| end == End::Whole && !status.success());
        if let Some(status) = ended {
            remark!("ferrite: {} ended with {status}", self.name());
        }
        if program.has_forked() {
            remark!(
                "ferrite: {} started other processes, which were not recorded: record what does the work by itself",
                self.name()
            );
        }
        let is_whole = end == End::Stopped || program.is_whole();
        // Ctrl-C reaches the program, too, which may be gone before it is stopped.
        if is_whole || stop::is_asked() {
            return is_whole;
        }
        if ended.is_some_and(|status| status.signal().is_some()) {
            remark!("ferrite: what {} did last is missing", self.name());
        } else {
            remark!(
                "ferrite: {} became another program (exec), and what it did then is missing: record that program by its \
                 own name",
                self.name()
            );
        }
        false
    }

    fn name(&self) -> String {
        let words = || self.program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        self.trace.as_ref().map_or_else(words, |trace| shown(trace))
    }
}

impl Llc {
    /// Does it.
    pub fn run(self) -> Outcome {
        let mut study = Study::new(self.model()?).map_err(|error| Failure::Usage(error.to_string()))?;
        self.outputs()?;
        let Origin { source, running, form } = self.what.source()?;
        let end = self.consume(&mut study, source)?;
        let is_whole = running.is_none_or(|running| self.what.finish(&running, end));
        self.what.trace.iter().for_each(|trace| warn(trace, study.is_cut()));
        let mut report = study.finish(&self.what.name());
        report.form = form.map(Form::name);
        report.stopped = match end {
            End::Whole if is_whole => None,
            End::Whole if !stop::is_asked() => Some("lost"),
            _ => Some("interrupted"),
        };
        let drawn = self.plot.as_ref().map_or(Ok(()), |path| show::plot(&report, path));
        print(self.json, &report, |report| show::table(report, &self.memory()))?;
        if report.events == 0 {
            remark!("ferrite: {} has nothing that the last level sees", report.trace);
        }
        if let Some(path) = &self.save {
            let again = self.again(path);
            remark!("{} is what the last level saw: simulate it again with {again}", in_line(path));
        }
        if report.stopped == Some("interrupted") {
            remark!("ferrite: interrupted: this is what was known after {} events", report.events);
        }
        if report.stopped.is_some() {
            return Err(Failure::Reported);
        }
        drawn
    }

    /// Refuses to write where something would be lost.
    fn outputs(&self) -> Outcome {
        for path in self.save.iter().chain(&self.plot) {
            may_be_written(path, self.what.trace.as_slice())?;
        }
        match (&self.save, &self.plot) {
            (Some(save), Some(plot)) if is_same(save, plot) => {
                Err(Failure::Usage(format!("--save and --plot both name {}: name two files", save.display())))
            }
            _ => Ok(()),
        }
    }

    fn consume(&self, study: &mut Study, source: Box<dyn Source>) -> Outcome<End> {
        let mut kept = self.save.as_deref().map(kept).transpose()?;
        let keep = |events: &[Event]| match &mut kept {
            Some(writer) => events.iter().try_for_each(|event| writer.event(*event)),
            None => Ok(()),
        };
        let (bar, started) = (Bar::new(), std::time::Instant::now());
        let mut watch = |seen: Seen| bar.show(&progress(seen, started.elapsed().as_secs_f64()));
        let end = study.consume(source, keep, &mut watch)?;
        kept.map_or(Ok(()), |writer| writer.finish()?.finish())?;
        Ok(end)
    }

    /// What simulates what was kept in the same cache. It tells no cores.
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
        self.llc.unwrap_or(if self.what.cores > 1 { USUAL_OF_CORES } else { USUAL })
    }

    fn model(&self) -> Outcome<Model> {
        let (bytes, ways) = self.last_level();
        let paper = Numbers::of(ways);
        let numbers = Numbers {
            ways,
            protected: self.protect.unwrap_or(paper.protected),
            partitions: self.partitions.unwrap_or(paper.partitions),
        };
        Ok(Model {
            llc: Shape { bytes, ways, line_bytes: self.what.line },
            choices: self.choices(&numbers).map_err(|error| Failure::Usage(error.to_string()))?,
            fetch_on_write_miss: self.fetch_on_write_miss,
            wear: self.memory(),
            threads: self.threads.map_or_else(processors, Into::into),
        })
    }

    fn choices(&self, numbers: &Numbers) -> ferrite_sim::Result<Vec<Choice>> {
        if self.policies.is_empty() {
            return Ok(numbers.usual());
        }
        let mut all = Vec::new();
        for name in &self.policies {
            let choice = numbers.choice(name)?;
            // The same one may have two names.
            if !all.contains(&choice) {
                all.push(choice);
            }
        }
        Ok(all)
    }

    fn memory(&self) -> Wear {
        Wear { levelling: self.wear, endurance: self.endurance, ..Wear::default() }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn kept(path: &Path) -> Outcome<Writer<Output>> {
    Ok(Writer::new(Output::begin(path)?, &path.display().to_string(), Packing::Signatures)?)
}

fn progress(seen: Seen, seconds: f64) -> Progress {
    let rate = seen.accesses as f64 / seconds.max(1e-3) / 1e6;
    let what = format!("{} accesses, {} events, {rate:.0} M accesses/s", seen.accesses, seen.events);
    Progress { what, done: 0, total: 0 }
}

fn shape(text: &str) -> Result<(u64, u32), String> {
    let told = || format!("{text:?} is no cache: write its size and ways, such as 2M:16");
    let (bytes, ways) = text.split_once(':').ok_or_else(told)?;
    Ok((size::parse(bytes)?, ways.parse().map_err(|_| told())?))
}

pub fn line(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two() && (8..=4096).contains(bytes));
    bytes.ok_or_else(|| format!("a line has a power of two of bytes from 8 to 4096, not {text:?}"))
}

fn levelling(name: &str) -> Result<Levelling, String> {
    let found = Levelling::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("there are {}", Levelling::ALL.map(Levelling::name).join(", ")))
}
