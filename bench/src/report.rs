//! What an experiment found.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

use crate::machine::Machine;
use crate::rounds::Series;

/// The subject of a row that is drawn as a line across the bars of its case: what none of them can pass.
pub const BOUND: &str = "bound";

/// What an experiment found, in the shape that every experiment's JSON has.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The experiment's name.
    pub experiment: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What the paper says.
    pub paper: Vec<Claim>,
    /// How the two compare, in a line.
    pub verdict: String,
    /// What is drawn of it.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

/// One measured value.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was done.
    pub case: String,
    /// By whom.
    pub subject: String,
    /// Unit of the value.
    pub unit: &'static str,
    /// Median.
    pub value: f64,
    /// The subject that the ratio is to, of the same case.
    pub beside: String,
    /// Median of the value over the other one's, round by round.
    pub ratio: f64,
    /// A tenth of the ratios lies below it.
    pub low: f64,
    /// A tenth of the ratios lies above it.
    pub high: f64,
}

/// What a paper says.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Where: a figure or section.
    pub place: &'static str,
    /// What was done, by whom, beside what.
    pub what: &'static str,
    /// The paper's ratio.
    pub ratio: f64,
}

/// What a chart shows of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The value in its unit.
    Value,
    /// The ratio.
    Ratio,
}

/// A chart: grouped bars, a group for each case and a bar for each subject.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What its bars show.
    pub measure: Measure,
    /// The cases, in order.
    pub cases: Vec<String>,
    /// A level to reach, drawn across.
    pub level: Option<f64>,
}

/// The rows of one case, each beside `beside`, which is one of the series.
pub fn rows(case: &str, unit: &'static str, series: &[Series], beside: &Series) -> Vec<Row> {
    let row = |one: &Series| {
        let ratios = one.over(beside);
        let (low, high) = ratios.range();
        let (value, ratio) = (one.median(), ratios.median());
        Row { case: case.into(), subject: one.name.clone(), unit, value, beside: beside.name.clone(), ratio, low, high }
    };
    series.iter().map(row).collect()
}

impl Report {
    /// The same at the end of its run, with `verdict`.
    pub(crate) fn end(self, verdict: String) -> Self {
        Self { machine: self.machine.at_end(), verdict, ..self }
    }

    /// The row of `subject` in `case`.
    pub fn row(&self, case: &str, subject: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.subject == subject)
    }

    /// The rows as comma-separated values, with a head.
    pub fn csv(&self) -> String {
        let mut text = String::from("case,subject,unit,value,beside,ratio,low,high\n");
        for Row { case, subject, unit, value, beside, ratio, low, high } in &self.rows {
            let [case, subject, beside] = [case, subject, beside].map(|name| field(name));
            let _ = writeln!(text, "{case},{subject},{unit},{value:.4},{beside},{ratio:.4},{low:.4},{high:.4}");
        }
        text
    }

    /// The whole as JSON.
    ///
    /// # Errors
    /// None: all of it is plain.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The rows as a table for people.
    pub fn table(&self) -> String {
        let width = |of: fn(&Row) -> &str| self.rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
        let (case, subject, beside) = (width(|row| &row.case), width(|row| &row.subject), width(|row| &row.beside));
        let mut text = format!(
            "{:case$}  {:subject$}  {:>10} {:5}  {:>7}  {:15}  {}\n",
            "case", "subject", "value", "unit", "ratio", "(10 % .. 90 %)", "beside"
        );
        let mut last = "";
        for row in &self.rows {
            let shown = if row.case == last { "" } else { &row.case };
            last = &row.case;
            let range = format!("({:.3} .. {:.3})", row.low, row.high);
            let _ = writeln!(
                text,
                "{shown:case$}  {:subject$}  {:>10} {:5}  {:>7.3}  {range:15}  {:beside$}",
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

/// A number with three or four digits that count.
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
mod tests {
    use super::*;

    fn report() -> Report {
        let series = |name: &str, values: &[f64]| Series { name: name.into(), values: values.to_vec() };
        let all = [series("bare", &[4.0, 8.0]), series("keys", &[2.0, 4.0])];
        Report {
            experiment: "x",
            machine: Machine::here(),
            rows: rows("read", "MB/s", &all, &all[0]),
            paper: vec![],
            verdict: "so".into(),
            charts: vec![],
        }
    }

    /// Scripts of users read these names.
    #[test]
    fn json_has_the_promised_shape() {
        let json: serde_json::Value = serde_json::from_str(&report().json().expect("it can be written")).expect("JSON");
        let keys =
            |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        let mut names = keys(&json);
        names.sort();
        assert_eq!(names, ["experiment", "machine", "paper", "rows", "verdict"]);
        for name in ["case", "subject", "unit", "value", "beside", "ratio"] {
            assert!(!json["rows"][1][name].is_null(), "{name}");
        }
        assert_eq!(json["rows"][1]["ratio"], 0.5);
    }

    #[test]
    fn csv_and_table_have_a_line_for_each_row() {
        let report = report();
        assert_eq!(report.csv().lines().nth(2), Some("read,keys,MB/s,3.0000,bare,0.5000,0.5000,0.5000"));
        assert_eq!(report.table().lines().count(), 3);
        assert_eq!(field("a, b"), "\"a, b\"", "a name is one field");
    }
}
