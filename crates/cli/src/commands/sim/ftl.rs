//! `ferrite sim ftl`.

mod advice;
mod drive;
mod show;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use ferrite_pool::Progress;
use ferrite_sim::block_trace::{self, BlockFormat, BlockReadAhead, BlockTraceReader, ReaderOptions};
use ferrite_sim::ftl::{
    AnyLayer, DriveSpec, FlashDrive, FlashFigures, FlashTiming, Footprint, FtlScheme, ReplayProgress, TraceReplay,
    VictimChoice,
};
use ferrite_sim::{Error, TraceInput};
use serde::Serialize;

use super::output::{may_be_written, stream};
use super::{shown, warn};
use crate::bar::Bar;
use crate::commands::print;
use crate::outcome::{Failure, Outcome};
use crate::{size, stop};

use advice::Begun;
use drive::DriveArguments;

/// What a flash translation layer does with a block trace: erases, copies, merges, wear, latency
///
/// Reads plain traces (lines of `W|R|T page count`), DiskSim's and MQSim's ASCII, SPC, MSR Cambridge's CSV, blkparse's
/// text, fio's iolog, and so what `disk export --trace` writes; as they are or compressed with gzip, xz or zstd,
/// detected by content. A request that touches a page in part counts the whole page. After every run it is checked that
/// the newest version of each page is where the layer says. Ctrl-C prints the figures so far. Without --size a file is
/// read twice: the drive holds what it touches. 24 GiB take about 130 MiB of memory for each scheme.
#[derive(Args)]
pub struct Ftl {
    /// A trace; - is standard input. Repeat it to compare several, each on new drives
    #[arg(long = "trace", value_name = "FILE", required = true)]
    traces: Vec<PathBuf>,
    /// Their format, if their content does not show it: plain, disksim, spc, msr, blkparse, iolog
    #[arg(long)]
    format: Option<BlockFormat>,
    /// The translation layer: a map of pages, or FAST (a map of blocks, one sequential and many random log blocks).
    /// Repeat it for both in one pass [default: page]
    #[arg(long = "scheme", value_name = "SCHEME", value_enum)]
    schemes: Vec<SchemeName>,
    #[command(flatten)]
    drive: DriveArguments,
    /// Write every page once before the trace begins, uncounted: a drive that has been in use
    #[arg(long)]
    prefill: bool,
    /// How the page-level scheme chooses what it collects: by most invalid pages, by age and gain, in order of filling
    #[arg(long, value_parser = choice, value_name = "greedy|cost-benefit|fifo")]
    victim: Option<VictimChoice>,
    /// FAST's random log blocks [default: all extra blocks but two]
    #[arg(long, value_name = "N", value_parser = size::whole::<u32>)]
    log_blocks: Option<u32>,
    /// What reading a page, programming one and erasing a block take, in microseconds
    #[arg(long, value_name = "READ:PROGRAM:ERASE", default_value = "25:200:2000", value_parser = timing)]
    timing: FlashTiming,
    /// Only this device's requests, of a trace of several
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = device)]
    device: Option<u32>,
    /// Take addresses beyond the drive modulo its size; a request of more pages than the drive has is refused
    #[arg(long)]
    wrap: bool,
    /// Draw erases, and pages copied for each, of every trace and scheme: figures 3.11 and 3.12 of the paper
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print JSON: of several traces or schemes {"runs": [...]}
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemeName {
    Page,
    Fast,
}

/// The result of one scheme on one trace.
#[derive(Serialize)]
struct Run {
    trace: String,
    scheme: &'static str,
    #[serde(flatten)]
    figures: FlashFigures,
    /// Bytes of the drive that its host can use.
    drive_bytes: u64,
    /// Why the replay stopped before the trace's end, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'static str>,
    /// The last line of the trace that was replayed, if the replay stopped before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_after_line: Option<u64>,
}

/// The printed report. One run alone is printed without a list.
#[derive(Serialize)]
#[serde(untagged)]
enum Report {
    One(Box<Run>),
    Several { runs: Vec<Run> },
}

impl Ftl {
    /// Runs the simulation.
    pub fn run(self) -> Outcome {
        let like = self.drive.like()?;
        let schemes = self.schemes()?;
        let is_read_once = self.outputs()?;
        let options = ReaderOptions { page_bytes: like.page_bytes, format: self.format, device: self.device };
        // If a trace can be read twice, the command refuses an invalid one before it simulates anything.
        for trace in self.traces.iter().filter(|trace| stream(trace).is_none()) {
            BlockTraceReader::new(TraceInput::open(trace)?, options)?;
        }
        stop::watch()?;
        let footprint = if self.drive.is_named() || is_read_once { None } else { Some(self.footprint(options)?) };
        self.refuse_idle(footprint)?;
        let shape = self.drive.shape(footprint)?;
        let specs: Vec<DriveSpec> =
            schemes.into_iter().map(|scheme| DriveSpec { scheme, shape, timing: self.timing }).collect();
        let refused = |why: Error| {
            Failure::Usage(format!("{why}; --size and --over-provision or --blocks say how many blocks there are"))
        };
        specs.iter().try_for_each(|spec| spec.build().map(drop)).map_err(refused)?;
        if is_read_once && !self.drive.is_named() {
            remark!(
                "ferrite: a pipe is read once: the drive has {}, and --size names another",
                size::show(shape.host_bytes())
            );
        }
        let mut runs = Vec::new();
        let ended = self.replay_all(options, &specs, &mut runs);
        if runs.is_empty() {
            return ended;
        }
        let is_wrong = ended.is_err() && runs.last().is_none_or(|run| run.stopped_after_line.is_none());
        let drawn = self.plot.as_ref().filter(|_| !is_wrong).map_or(Ok(()), |path| show::plot(&runs, path));
        let advice = advice::advice(&runs, &Begun { shape, footprint, is_prefilled: self.prefill });
        let is_one = self.traces.len() * specs.len() == 1;
        let report = if is_one { Report::One(Box::new(runs.remove(0))) } else { Report::Several { runs } };
        print(self.json, &report, |report| show::table(report, shape, footprint.is_some()))?;
        advice.iter().for_each(|advice| remark!("ferrite: {advice}"));
        ended.and(drawn)
    }

    /// Reads all traces, and returns their common footprint.
    fn footprint(&self, options: ReaderOptions) -> Outcome<Footprint> {
        let mut all = Footprint::default();
        for path in &self.traces {
            let (bar, name) = (Bar::new(), shown(path));
            let describe = |found: Footprint| format!("looking how much {name} touches: {} requests", found.requests);
            let mut goes_on = |found| bar.show(&Progress { what: describe(found), done: 0, total: 0 });
            all = all.and(Footprint::of(&mut BlockReadAhead::open(path, options)?, &mut goes_on)?);
            if stop::is_asked() {
                return Err(
                    format!("stopped while it was looked how much {name} touches: nothing was simulated").into()
                );
            }
        }
        Ok(all)
    }

    fn refuse_idle(&self, footprint: Option<Footprint>) -> Outcome {
        if self.wrap && footprint.is_some() {
            let why = "without --size or --blocks the drive holds all that the traces touch";
            return Err(Failure::Usage(format!("--wrap changes nothing: {why}")));
        }
        Ok(())
    }

    fn replay_all(&self, options: ReaderOptions, specs: &[DriveSpec], runs: &mut Vec<Run>) -> Outcome {
        for (at, path) in self.traces.iter().enumerate() {
            self.replay(path, options, specs, runs).inspect_err(|_| {
                for left in &self.traces[at + 1..] {
                    remark!("ferrite: {} was not replayed", shown(left));
                }
            })?;
        }
        Ok(())
    }

    /// Replays a trace on a new drive of each scheme, and adds the results to `runs`. Returns an error if the replay
    /// did not reach the end.
    fn replay(&self, path: &Path, options: ReaderOptions, specs: &[DriveSpec], runs: &mut Vec<Run>) -> Outcome {
        let mut drives = specs.iter().map(|spec| self.drive(*spec)).collect::<Outcome<Vec<_>>>()?;
        let (mut trace, name) = (BlockReadAhead::open(path, options)?, shown(path));
        let (ReplayProgress { requests, line, is_whole, .. }, cut) =
            self.run_through(&mut trace, &mut drives, &name)?;
        warn(path, trace.is_cut());
        let stopped = if cut.is_some() { Some("cut") } else { (!is_whole).then_some("interrupted") };
        for (drive, spec) in drives.iter().zip(specs) {
            let (scheme, figures, drive_bytes) = (spec.scheme.name(), drive.figures()?, spec.shape.host_bytes());
            let stopped_after_line = stopped.map(|_| line);
            runs.push(Run { trace: name.clone(), scheme, figures, drive_bytes, stopped, stopped_after_line });
        }
        if let Some(cut) = cut {
            return Err(format!("{cut}: the figures are of what was read").into());
        }
        if !is_whole {
            return Err(format!("stopped after line {line} of {name}: the figures are of what was read").into());
        }
        if requests == 0 {
            let which = if self.device.is_some() { "of that device " } else { "" };
            remark!("ferrite: {name} has no requests {which}that are replayed");
        }
        Ok(())
    }

    /// Replays a trace up to its end or its damage. Returns where the replay stopped, and the error of a truncated
    /// trace.
    fn run_through(
        &self,
        trace: &mut BlockReadAhead,
        drives: &mut [FlashDrive<AnyLayer>],
        name: &str,
    ) -> Outcome<(ReplayProgress, Option<Error>)> {
        let (bar, began, mut seen) = (Bar::new(), Instant::now(), ReplayProgress::default());
        let mut watch = |done| {
            seen = done;
            bar.show(&progress(name, done, began))
        };
        match (TraceReplay { wraps: self.wrap }).run(trace, drives, &mut watch) {
            Ok(done) => Ok((done, None)),
            Err(cut @ Error::Truncated { .. }) if seen.requests > 0 => Ok((seen, Some(cut))),
            Err(error) => Err(error.into()),
        }
    }

    fn drive(&self, spec: DriveSpec) -> Outcome<FlashDrive<AnyLayer>> {
        let mut drive = spec.build()?;
        let (bar, pages, scheme) = (Bar::new(), drive.shape().host_pages().into(), spec.scheme.name());
        let progress = |done: u32| Progress { what: format!("prefilling {scheme}"), done: done.into(), total: pages };
        if self.prefill && !drive.prefill_while(&mut |done| bar.show(&progress(done)))? {
            return Err(format!("stopped while {scheme} was prefilled: the trace was not begun").into());
        }
        Ok(drive)
    }

    /// Refuses to read a pipe twice, and to overwrite a file that would be lost. Returns true if a trace is a pipe.
    fn outputs(&self) -> Outcome<bool> {
        let mut streams: Vec<(u64, u64)> = Vec::new();
        for trace in &self.traces {
            let stream = stream(trace);
            if stream.is_some_and(|stream| streams.contains(&stream)) {
                return Err(Failure::Usage(format!("{} can be read once: name it once", shown(trace))));
            }
            streams.extend(stream);
        }
        self.plot.as_ref().map_or(Ok(()), |plot| may_be_written(plot, &self.traces))?;
        Ok(!streams.is_empty())
    }

    /// Returns each requested scheme once, in the order of the command line.
    fn schemes(&self) -> Outcome<Vec<FtlScheme>> {
        let mut names: Vec<SchemeName> = Vec::new();
        for name in &self.schemes {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        if names.is_empty() {
            names.push(SchemeName::Page);
        }
        if self.log_blocks.is_some() && !names.contains(&SchemeName::Fast) {
            return Err(Failure::Usage("--log-blocks is for --scheme fast".into()));
        }
        if self.victim.is_some() && !names.contains(&SchemeName::Page) {
            return Err(Failure::Usage("--victim is for --scheme page".into()));
        }
        let scheme = |name| match name {
            SchemeName::Page => FtlScheme::Page(self.victim.unwrap_or_default()),
            SchemeName::Fast => FtlScheme::Fast { log_blocks: self.log_blocks },
        };
        Ok(names.into_iter().map(scheme).collect())
    }
}

fn progress(trace: &str, done: ReplayProgress, began: Instant) -> Progress {
    let rate = done.pages as f64 / began.elapsed().as_secs_f64().max(1e-9);
    let what = format!("{trace}: {:.1} million pages, {:.1} million a second", done.pages as f64 / 1e6, rate / 1e6);
    Progress { what, done: 0, total: 0 }
}

/// Parses a device as traces name it.
pub fn device(text: &str) -> Result<u32, String> {
    block_trace::device(text).ok_or_else(|| "a number, or two as 8,0".into())
}

fn choice(text: &str) -> Result<VictimChoice, String> {
    let found = VictimChoice::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| "greedy, cost-benefit or fifo".into())
}

fn timing(text: &str) -> Result<FlashTiming, String> {
    let describe = || format!("{text:?} is not three numbers: write READ:PROGRAM:ERASE, as 25:200:2000");
    let us: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
    let ns = |us: f64| (us * 1000.0).round() as u64;
    match us.as_deref() {
        Some([read, program, erase]) if [read, program, erase].into_iter().all(|us| (0.0..1e9).contains(us)) => {
            Ok(FlashTiming { read_ns: ns(*read), program_ns: ns(*program), erase_ns: ns(*erase) })
        }
        _ => Err(describe()),
    }
}

#[cfg(test)]
mod tests;
