//! The figures for people: a table and a plot.

use std::fmt::Write as _;
use std::path::Path;

use ferrite_bench as bench;
use ferrite_sim::ftl::{FlashFigures, FlashShape};

use super::super::output::draw;
use super::{Report, Run};
use crate::flash_drive;
use crate::outcome::Outcome;

/// Returns a table: all figures of one run, or one line for each of several runs.
pub fn table(report: &Report, shape: FlashShape, is_by_trace: bool) -> String {
    let table = match report {
        Report::One(run) => flash_drive::show(run.scheme, shape, &run.figures),
        Report::Several { runs } => lines(runs, shape),
    };
    let size = if is_by_trace { "\nthe drive's size is what the trace touches: --size names another\n" } else { "" };
    table + size
}

fn lines(runs: &[Run], shape: FlashShape) -> String {
    let wide = runs.iter().map(|run| run.trace.chars().count()).max().unwrap_or(0).max("trace".len());
    let mut text = format!("{}\n\n", flash_drive::size(shape));
    let _ = writeln!(
        text,
        "{:wide$}  {:6} {:>12} {:>9} {:>12} {:>6}  {:>8} {:>9} {:>9}  {:>8} {:>8} {:>8} {:>9}",
        "trace",
        "scheme",
        "host writes",
        "erases",
        "copied",
        "ampl.",
        "/erase",
        "/merge",
        "/block",
        "switch",
        "partial",
        "full",
        "most worn"
    );
    for Run { trace, scheme, figures, .. } in runs {
        let _ = writeln!(
            text,
            "{trace:wide$}  {scheme:6} {:>12} {:>9} {:>12} {:>6.3}  {:>8.3} {:>9.3} {:>9.3}  {:>8} {:>8} {:>8} {:>9}",
            figures.host_writes,
            figures.erases,
            figures.copied_pages,
            figures.write_amplification,
            figures.copied_per_erase,
            figures.copied_per_merge,
            figures.copied_per_reclaimed_block,
            figures.switch_merges,
            figures.partial_merges,
            figures.full_merges,
            figures.wear.most_erases,
        );
    }
    text += "\ncopied: valid pages that were moved, in all, per erase, per merge and per reclaimed block; ampl.: pages \
             programmed\nfor each that was written; switch, partial, full: FAST's merges; most worn: erases of that block\n";
    text
}

/// Draws a panel for each of the paper's figures, with a group of bars for each trace and a bar for each scheme.
pub fn plot(runs: &[Run], path: &Path) -> Outcome {
    type Of = fn(&FlashFigures) -> f64;
    let shown: [(&str, &str, &str, Of); 2] = [
        ("Erases (figure 3.11)", "erases", "erases", |figures| figures.erases as f64),
        ("Valid pages copied for each erase (figure 3.12)", "copied", "pages", |figures| figures.copied_per_erase),
    ];
    let names = short(runs);
    let (mut rows, mut charts) = (Vec::new(), Vec::new());
    for (title, what, unit, of) in shown {
        let mut cases: Vec<String> = Vec::new();
        for (run, name) in runs.iter().zip(&names) {
            let (case, value) = (format!("{name}: {what}"), of(&run.figures));
            if !cases.contains(&case) {
                cases.push(case.clone());
            }
            let (subject, beside) = (run.scheme.into(), run.scheme.into());
            rows.push(bench::ReportRow { case, subject, unit, value, beside, ratio: 1.0, low: 1.0, high: 1.0 });
        }
        charts.push(bench::Chart { title: title.into(), measure: bench::ChartMeasure::Value, cases, level: None });
    }
    draw("ftl", rows, charts, path)
}

/// Returns the traces' names without their folders, if the short names still differ.
fn short(runs: &[Run]) -> Vec<&str> {
    fn file(run: &Run) -> Option<&str> {
        Path::new(&run.trace).file_name().and_then(|name| name.to_str())
    }
    let meets = |run: &Run| runs.iter().any(|other| other.trace != run.trace && file(other) == file(run));
    runs.iter().map(|run| file(run).filter(|_| !meets(run)).unwrap_or(&run.trace)).collect()
}
