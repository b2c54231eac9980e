//! The report of an experiment.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

use crate::machine::MachineState;
use crate::rounds::Series;

/// The subject of a row that is drawn as a line across the bars of its case: their bound.
pub const BOUND: &str = "bound";

/// The report of an experiment. Its fields are the fields of the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// The name of the experiment.
    pub experiment: &'static str,
    /// The machine of the run.
    pub machine: MachineState,
    /// The measured values.
    pub rows: Vec<ReportRow>,
    /// The claims of the paper.
    pub paper: Vec<PaperClaim>,
    /// The comparison of both, in one line.
    pub verdict: String,
    /// The charts.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

/// One measured value.
#[derive(Clone, Debug, Serialize)]
pub struct ReportRow {
    /// The case.
    pub case: String,
    /// The subject.
    pub subject: String,
    /// The unit of the value.
    pub unit: &'static str,
    /// The median over all rounds.
    pub value: f64,
    /// The subject of the same case that the ratio is to.
    pub beside: String,
    /// The median of the ratios of each round.
    pub ratio: f64,
    /// A tenth of the ratios are below this one.
    pub low: f64,
    /// A tenth of the ratios are above this one.
    pub high: f64,
}

/// A claim of a paper.
#[derive(Clone, Debug, Serialize)]
pub struct PaperClaim {
    /// The figure or section.
    pub place: &'static str,
    /// The case and the two subjects.
    pub what: &'static str,
    /// The paper's ratio.
    pub ratio: f64,
}

/// A claim of a paper, at `place`.
pub(crate) const fn claim(place: &'static str, ratio: f64, what: &'static str) -> PaperClaim {
    PaperClaim { place, what, ratio }
}

/// The height of the bars of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartMeasure {
    /// The value of the row.
    Value,
    /// The ratio of the row.
    Ratio,
}

/// A chart: grouped bars, a group for each case and a bar for each subject.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The height of the bars.
    pub measure: ChartMeasure,
    /// The cases, in order.
    pub cases: Vec<String>,
    /// A level to reach, drawn as a line across.
    pub level: Option<f64>,
}

/// The rows of one case, each beside `beside`, which is one of the series.
pub fn rows(case: &str, unit: &'static str, series: &[Series], beside: &Series) -> Vec<ReportRow> {
    let row = |one: &Series| {
        let ratios = one.over(beside);
        let (low, high) = ratios.range();
        let (value, ratio) = (one.median(), ratios.median());
        ReportRow {
            case: case.into(),
            subject: one.name.clone(),
            unit,
            value,
            beside: beside.name.clone(),
            ratio,
            low,
            high,
        }
    };
    series.iter().map(row).collect()
}

impl ReportRow {
    /// A row without a unit that was measured once, so that its range is its ratio.
    pub fn once(case: String, subject: &str, value: f64, beside: &str, ratio: f64) -> Self {
        let (subject, beside) = (subject.into(), beside.into());
        Self { case, subject, unit: "", value, beside, ratio, low: ratio, high: ratio }
    }
}

impl BenchReport {
    /// The row of `subject` in `case`.
    pub fn row(&self, case: &str, subject: &str) -> Option<&ReportRow> {
        self.rows.iter().find(|row| row.case == case && row.subject == subject)
    }

    /// The rows as comma-separated values, below a line of names.
    pub fn csv(&self) -> String {
        let mut text = String::from("case,subject,unit,value,beside,ratio,low,high\n");
        for ReportRow { case, subject, unit, value, beside, ratio, low, high } in &self.rows {
            let [case, subject, beside] = [case, subject, beside].map(|name| field(name));
            let _ = writeln!(text, "{case},{subject},{unit},{value:.4},{beside},{ratio:.4},{low:.4},{high:.4}");
        }
        text
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// Never, because every field is plain.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The rows as a table for people.
    pub fn table(&self) -> String {
        let width = |head: &str, of: fn(&ReportRow) -> &str| {
            self.rows.iter().map(|row| of(row).len()).chain([head.len()]).max().unwrap_or(0)
        };
        let (case, subject) = (width("case", |row| &row.case), width("subject", |row| &row.subject));
        let mut text = format!(
            "{:case$}  {:subject$}  {:>10} {:5}  {:>7}  {:16}  {}\n",
            "case", "subject", "value", "unit", "ratio", "(10 % .. 90 %)", "beside"
        );
        let mut last = "";
        for row in &self.rows {
            let shown = if row.case == last { "" } else { &row.case };
            last = &row.case;
            let range = format!("({:.3} .. {:.3})", row.low, row.high);
            let _ = writeln!(
                text,
                "{shown:case$}  {:subject$}  {:>10} {:5}  {:>7.3}  {range:16}  {}",
                row.subject,
                figure(row.value),
                row.unit,
                row.ratio,
                row.beside
            );
        }
        text
    }
}

/// A name as a field of comma-separated values.
fn field(name: &str) -> Cow<'_, str> {
    if name.contains(',') { format!("\"{name}\"").into() } else { name.into() }
}

/// A number with three or four significant digits.
fn figure(value: f64) -> String {
    let decimals = if value.abs() >= 1000.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests;
