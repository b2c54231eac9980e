//! `ferrite sim ftl`.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use ferrite_pool::owner::Progress;
use ferrite_sim::Input;
use ferrite_sim::block_trace::{self, Ahead, Format, Reader, ReaderOptions};
use ferrite_sim::ftl::{Choice, Figures, Replay, Replayed, Scheme, Shape, Spec, Timing};
use serde::Serialize;

use super::warn;
use crate::bar::Bar;
use crate::commands::print;
use crate::flash_drive::show;
use crate::outcome::{Failure, Outcome};
use crate::{size, stop};

/// What a flash translation layer does with a block trace: erases, copies, merges, wear, latency
///
/// Reads plain traces (lines of `W|R|T page count`), DiskSim's and MQSim's ASCII, SPC, MSR Cambridge's CSV, blkparse's
/// text, fio's iolog, and what a traced disk of Ferrite's writes; as they are or compressed with gzip, xz or zstd, told
/// by content. A request that touches a page in part counts the whole page. After every run it is checked that the newest
/// version of each page is where the layer says. Ctrl-C tells what is known so far. 24 GiB take about 130 MiB of memory.
#[derive(Args)]
#[command(after_help = "Example:\n  ferrite sim ftl --scheme fast --trace hm_0.csv.gz --wrap --prefill --json")]
pub struct Ftl {
    /// The trace; - is standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Its format, where its content does not tell: plain, disksim, spc, msr, blkparse, iolog
    #[arg(long)]
    format: Option<Format>,
    /// The translation layer: a map of pages, or FAST (a map of blocks, one sequential and many random log blocks)
    #[arg(long, value_enum, default_value_t)]
    scheme: SchemeName,
    #[command(flatten)]
    shape: ShapeArguments,
    /// Write every page once before the trace begins, uncounted: a drive that has been in use
    #[arg(long)]
    prefill: bool,
    /// How the page-level scheme chooses what it collects: by most invalid pages, by age and gain, in order of filling
    #[arg(long, value_parser = choice, value_name = "greedy|cost-benefit|fifo")]
    victim: Option<Choice>,
    /// FAST's random log blocks [default: all extra blocks but two]
    #[arg(long, value_name = "N")]
    log_blocks: Option<u32>,
    /// What reading a page, programming one and erasing a block take, in microseconds
    #[arg(long, value_name = "READ:PROGRAM:ERASE", default_value = "25:200:2000", value_parser = timing)]
    timing: Timing,
    /// Only this device's requests, of a trace of several
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = device)]
    device: Option<u32>,
    /// Take addresses beyond the drive modulo its size; a request of more pages than the drive has is refused
    #[arg(long)]
    wrap: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum SchemeName {
    #[default]
    Page,
    Fast,
}

#[derive(Args)]
struct ShapeArguments {
    /// Bytes that the host sees
    #[arg(long, default_value = "24G", value_parser = size::parse)]
    size: u64,
    /// Blocks beyond those, in per cent
    #[arg(long, default_value_t = 10.0, value_name = "PERCENT")]
    over_provision: f64,
    /// Both in blocks, instead
    #[arg(long, value_name = "LOGICAL+EXTRA", value_parser = blocks, conflicts_with_all = ["size", "over_provision"])]
    blocks: Option<Blocks>,
    /// Bytes of a page
    #[arg(long, default_value = "4K", value_parser = size::parse)]
    page: u64,
    /// Bytes of a block
    #[arg(long, default_value = "256K", value_parser = size::parse)]
    block: u64,
}

#[derive(Clone, Copy)]
struct Blocks {
    logical: u32,
    extra: u32,
}

impl ShapeArguments {
    fn shape(&self) -> Outcome<Shape> {
        let page_bytes = u32::try_from(self.page).map_err(|_| Failure::Usage("--page is too large".into()))?;
        if !self.block.is_multiple_of(self.page) {
            return Err(Failure::Usage("--block is not a multiple of --page".into()));
        }
        let block_pages =
            u32::try_from(self.block / self.page).map_err(|_| Failure::Usage("--block is too large".into()))?;
        let like = Shape { logical_blocks: 0, extra_blocks: 0, block_pages, page_bytes };
        let shape = match self.blocks {
            Some(Blocks { logical, extra }) => Ok(Shape { logical_blocks: logical, extra_blocks: extra, ..like }),
            None => Shape::of_bytes(self.size, self.over_provision, like),
        };
        shape.and_then(Shape::check).map_err(|why| Failure::Usage(why.to_string()))
    }
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    scheme: &'static str,
    #[serde(flatten)]
    figures: Figures,
}

impl Ftl {
    /// Does it.
    pub fn run(self) -> Outcome {
        let scheme = self.scheme()?;
        let shape = self.shape.shape()?;
        let spec = Spec { scheme, shape, timing: self.timing };
        let mut drive = spec.build().map_err(|why| Failure::Usage(why.to_string()))?;
        let options = ReaderOptions { page_bytes: shape.page_bytes, format: self.format, device: self.device };
        let mut trace = Ahead::new(Reader::new(Input::open(&self.trace)?, options)?);
        stop::watch()?;
        if self.prefill {
            drive.prefill()?;
        }
        let replayed = {
            let (bar, began) = (Bar::new(), Instant::now());
            Replay { wraps: self.wrap }.run(&mut trace, &mut drive, &mut |done| bar.show(&progress(done, began)))?
        };
        warn(&self.trace, trace.is_cut());
        let report = Report { scheme: scheme.name(), figures: drive.figures()? };
        print(self.json, &report, |report| show(report.scheme, shape, &report.figures))?;
        if replayed.requests == 0 {
            let which = if self.device.is_some() { "of that device " } else { "" };
            remark!("ferrite: {} has no requests {which}that are replayed", self.trace.display());
        }
        if replayed.is_whole {
            return Ok(());
        }
        Err(format!(
            "stopped after line {} of {}: the figures are of what was read",
            replayed.line,
            self.trace.display()
        )
        .into())
    }

    fn scheme(&self) -> Outcome<Scheme> {
        match self.scheme {
            SchemeName::Page if self.log_blocks.is_some() => {
                Err(Failure::Usage("--log-blocks is for --scheme fast".into()))
            }
            SchemeName::Fast if self.victim.is_some() => Err(Failure::Usage("--victim is for --scheme page".into())),
            SchemeName::Page => Ok(Scheme::Page(self.victim.unwrap_or_default())),
            SchemeName::Fast => Ok(Scheme::Fast { log_blocks: self.log_blocks }),
        }
    }
}

fn progress(done: Replayed, began: Instant) -> Progress {
    let rate = done.pages as f64 / began.elapsed().as_secs_f64().max(1e-9);
    let what = format!("{:.1} million pages, {:.1} million a second", done.pages as f64 / 1e6, rate / 1e6);
    Progress { what, done: 0, total: 0 }
}

fn blocks(text: &str) -> Result<Blocks, String> {
    let parts = text.split_once('+').and_then(|(logical, extra)| Some((logical.parse().ok()?, extra.parse().ok()?)));
    let (logical, extra) = parts.ok_or_else(|| format!("{text:?} is not two numbers: write LOGICAL+EXTRA, as 64+8"))?;
    Ok(Blocks { logical, extra })
}

/// A device as traces name it.
pub fn device(text: &str) -> Result<u32, String> {
    block_trace::device(text).ok_or_else(|| "a number, or two as 8,0".into())
}

fn choice(text: &str) -> Result<Choice, String> {
    let found = Choice::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| "greedy, cost-benefit or fifo".into())
}

fn timing(text: &str) -> Result<Timing, String> {
    let told = || format!("{text:?} is not three numbers: write READ:PROGRAM:ERASE, as 25:200:2000");
    let us: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
    let ns = |us: f64| (us * 1000.0).round() as u64;
    match us.as_deref() {
        Some([read, program, erase]) if [read, program, erase].into_iter().all(|us| (0.0..1e9).contains(us)) => {
            Ok(Timing { read_ns: ns(*read), program_ns: ns(*program), erase_ns: ns(*erase) })
        }
        _ => Err(told()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_timings_are_read_as_people_write_them() {
        let Blocks { logical, extra } = blocks("64+8").expect("it is right");
        assert_eq!((logical, extra), (64, 8));
        assert_eq!(timing("25:200:1500.5"), Ok(Timing { read_ns: 25_000, program_ns: 200_000, erase_ns: 1_500_500 }));
        assert!(["64", "+8", "a+b", "64+-8"].into_iter().all(|text| blocks(text).is_err()));
        assert!(["25", "25:200", "a:b:c", "1:2:-3", "1:2:nan"].into_iter().all(|text| timing(text).is_err()));
    }
}
