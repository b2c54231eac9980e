//! What slower media cost (pmbd.txt, figure 15): reads 1 to 10 times and writes 1 to 50 times as long as on DRAM, in
//! process and under a database; and how well the emulation keeps to what it is asked for.

use std::sync::Arc;
use std::time::Instant;

use ferrite_block::DiskOptions;
use ferrite_disk::Disk;
use ferrite_memory::{Guard, Pace, Paced, Speed, Tsc};

use crate::Result;
use crate::applications::{AppPlan, AppSubject};
use crate::copy_plan::{self, CopyPlan, CopySubject, CopyUnit};
use crate::options::Length;
use crate::protection::copy_load::CopyLoad;
use crate::protection::filled_disk::FilledDisk;
use crate::report::{BenchReport, ReportRow, claim};
use crate::session::{BenchSession, Experiment};
use crate::verdict::{ValueRange, figure, line, ratios, remark, significant};

mod accuracy;

/// The factors by which reads are slowed.
const READS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
/// The factors by which writes are slowed.
const WRITES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
/// The paces of applications, reads then writes: the corners of figure 15, then points between them.
const GRID: [(f64, f64); 7] =
    [(1.0, 1.0), (10.0, 1.0), (1.0, 50.0), (10.0, 50.0), (5.0, 1.0), (1.0, 10.0), (1.0, 20.0)];
const CORNERS: usize = 4;
/// The named media beside the grid.
const MEDIA: [&str; 3] = ["pcm", "optane", "cxl"];

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    let start = Instant::now();
    let ticks = Tsc::calibrate(|| start.elapsed().as_nanos() as u64)?;
    accuracy::measure(session, ticks)?;
    in_process(session, CopyPlan { unit: CopyUnit::Latency, ..CopyPlan::of(options.length) }, ticks)?;
    // The paper's two loads, and two others for a machine without PostgreSQL.
    let loads: &[&str] =
        if options.length == Length::Smoke { &["untar", "tar"] } else { &["tpch", "tpcc", "untar", "tar"] };
    AppPlan { loads, ..AppPlan::of(options.length) }.run(session, &pace_name(&Pace::default()), |bytes| {
        let contestant = |(name, pace)| {
            let stage = FilledDisk::build(&options.place, bytes)?;
            Ok(AppSubject::disk(name, disk(&stage, pace, ticks)?))
        };
        paces(options.length).into_iter().map(contestant).collect()
    })?;
    session.findings.extend(accuracy_text(&session.report).into_iter().chain(pause_text(&session.report)));
    Ok(())
}

/// A pace's name.
fn pace_name(pace: &Pace) -> String {
    format!("rd {}x wr {}x", pace.read.times, pace.write.times)
}

fn relative(reads: f64, writes: f64) -> Pace {
    Pace { read: Speed::relative(reads), write: Speed::relative(writes) }
}

fn paces(length: Length) -> Vec<(String, Pace)> {
    let grid = if length == Length::Full { &GRID[..] } else { &GRID[..CORNERS] };
    let media = MEDIA.into_iter().filter(|_| length == Length::Full);
    let grid = grid.iter().map(|(reads, writes)| relative(*reads, *writes)).map(|pace| (pace_name(&pace), pace));
    grid.chain(media.filter_map(|name| Some((name.to_owned(), Pace::from_name(name)?)))).collect()
}

/// The disk of `stage`, overwritten in place, on a memory of this speed.
fn disk(stage: &FilledDisk, pace: Pace, ticks: Tsc) -> Result<Arc<dyn Disk>> {
    let memory = Paced::new(stage.map(Guard::best())?, pace, ticks)?;
    Ok(stage.disk_on(memory, DiskOptions { in_place: true, ..DiskOptions::default() })?)
}

fn in_process(session: &mut BenchSession<'_>, plan: CopyPlan, ticks: Tsc) -> Result<()> {
    for (writes, times) in [(false, &READS[..]), (true, &WRITES[..])] {
        let loads = session.wanted(copy_plan::loads(&[writes], &[4 << 10, 256 << 10], &[1]), CopyLoad::name);
        if loads.is_empty() {
            continue;
        }
        session.announce("filling a disk")?;
        let stage = FilledDisk::build(&session.options.place, plan.disk_bytes)?;
        let copier = |times: f64| {
            let pace = if writes { relative(1.0, times) } else { relative(times, 1.0) };
            Ok(CopySubject::disk(format!("{times}x"), disk(&stage, pace, ticks)?, None))
        };
        let copiers = times.iter().map(|times| copier(*times)).collect::<Result<Vec<_>>>()?;
        CopyPlan { size: stage.size(), ..plan }.measure_all(session, &loads, &copiers)?;
    }
    Ok(())
}

/// How many absolute speeds are met within 5 % or 40 ns.
fn accuracy_text(report: &BenchReport) -> Option<String> {
    let achieved = report.rows.iter().filter(|row| row.subject == accuracy::ACHIEVED);
    let is_close = |row: &ReportRow| {
        let asked_ns = row.value / row.ratio;
        (row.value - asked_ns).abs() <= f64::max(40.0, asked_ns * 0.05)
    };
    let close: Vec<bool> = achieved.map(is_close).collect();
    let met = close.iter().filter(|is_close| **is_close).count();
    (!close.is_empty()).then(|| format!("{met} of {} absolute speeds are met within 5 % or 40 ns", close.len()))
}

/// The factor by which copies after a pause miss the slowest speeds, if it exceeds 1.1.
fn pause_text(report: &BenchReport) -> Option<String> {
    let slowest = |begin: &'static str, times: &[f64]| {
        let (asked, rows) = (*times.last()?, report.rows.iter().filter(move |row| row.case.starts_with(begin)));
        let name = format!("{asked}x");
        Some(ValueRange::of(rows.filter(|row| row.subject == name).map(|row| row.ratio))?.most / asked)
    };
    let most = [slowest("RD", &READS), slowest("WR", &WRITES)].into_iter().flatten().reduce(f64::max)?;
    let text =
        || format!("a copy after a pause takes up to {} times as long as one of many in a row", significant(most));
    (most > 1.1).then(text)
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "pace",
    about: "slower media, in process and under a database (PMBD, figure 15), and how exactly they are emulated",
    expected_ms: [252_000, 90_000, 21_000],
    run,
    verdict: &[
        line("in process, times as long", ""),
        figure("reads of 10x", "10x").case("RD*"),
        figure("writes of 50x", "50x").case("WR*"),
        remark("relative speeds multiply the time of each copy, not the rest of a request"),
        line("tpch, times as long", "tpch"),
        figure("reads of 10x", "rd 10x wr 1x").paper("1.36"),
        figure("at worst", "rd 10x wr 50x").paper("1.4"),
        line("tpcc, times as long", "tpcc"),
        figure("writes of 50x", "rd 1x wr 50x"),
        figure("at worst", "rd 10x wr 50x").paper("3.6"),
        remark("copies are a smaller part of a request through the /dev node than in the paper's driver"),
    ],
    paper: &[
        claim("figure 15", 1.36, "time of tpch, reads 10 times as long, beside DRAM"),
        claim("figure 15", 1.4, "time of tpch at worst, beside DRAM"),
        claim("figure 15", 3.6, "time of tpcc at worst (reads 10, writes 50 times), beside DRAM"),
    ],
    charts: &[
        ratios("The emulation: achieved beside asked", "* B at *"),
        ratios("Reads in process, beside DRAM's speed, by how many times as long is asked for", "RD *"),
        ratios("Writes in process, beside DRAM's speed, by how many times as long is asked for", "WR *"),
        ratios("Time of a database by the speed of its medium, reads and writes (figure 15)", "*").unit("s"),
    ],
};

#[cfg(test)]
mod tests;
