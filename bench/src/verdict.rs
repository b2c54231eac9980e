//! Tables of what was measured beside what a paper says: verdicts and charts.
//!
//! A verdict is a list of entries: [`line`] begins a line, and each [`figure`] behind it picks rows of the report by
//! patterns, in which `*` stands for any text. A figure without rows is left out, and a line without figures. Charts
//! pick their cases in the same way.

use std::fmt;

use crate::report::{BenchReport, Chart, ChartMeasure, ReportRow};

/// The range of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueRange {
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// An entry of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableEntry {
    kind: EntryKind,
    /// The text of a line or a remark, the label of a figure, or the title of a chart.
    text: &'static str,
    subject: &'static str,
    case: &'static str,
    except: &'static str,
    unit: &'static str,
    beside: &'static str,
    shown: FigureValue,
    paper: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum EntryKind {
    Line,
    Figure,
    Figures(&'static [TableEntry]),
    Remark,
    Chart { measure: ChartMeasure, level: Option<f64> },
}

/// The printed number of a row.
#[derive(Clone, Copy, Debug)]
enum FigureValue {
    /// The ratio, with two significant digits.
    Ratio,
    /// The ratio, with three decimals.
    FineRatio,
    /// One over the ratio.
    Inverse,
    /// The value, followed by this unit.
    Value(&'static str),
    /// The microseconds that so many bytes take at a value in MB/s.
    TimeOf(f64),
}

const fn entry(kind: EntryKind, text: &'static str) -> TableEntry {
    let (subject, case, except, unit, beside, paper) = ("", "", "", "", "", "");
    TableEntry { kind, text, subject, case, except, unit, beside, shown: FigureValue::Ratio, paper }
}

/// Begins a line about the cases that match `case`; the figures of the line add to that pattern.
pub const fn line(about: &'static str, case: &'static str) -> TableEntry {
    entry(EntryKind::Line, about).case(case)
}

/// The ratio of the rows whose subject matches `subject`: its range over all cases of the line.
pub const fn figure(label: &'static str, subject: &'static str) -> TableEntry {
    TableEntry { subject, ..entry(EntryKind::Figure, label) }
}

/// Figures that several lines have.
pub const fn figures(entries: &'static [TableEntry]) -> TableEntry {
    entry(EntryKind::Figures(entries), "")
}

/// A remark at the end of a line.
pub const fn remark(text: &'static str) -> TableEntry {
    entry(EntryKind::Remark, text)
}

/// A chart of the values of the cases that match `case`.
pub const fn values(title: &'static str, case: &'static str) -> TableEntry {
    chart(title, case, ChartMeasure::Value, None)
}

/// A chart of ratios, beside 1.
pub const fn ratios(title: &'static str, case: &'static str) -> TableEntry {
    ratios_to(1.0, title, case)
}

/// A chart of ratios, beside a level to reach.
pub const fn ratios_to(level: f64, title: &'static str, case: &'static str) -> TableEntry {
    chart(title, case, ChartMeasure::Ratio, Some(level))
}

const fn chart(title: &'static str, case: &'static str, measure: ChartMeasure, level: Option<f64>) -> TableEntry {
    TableEntry { subject: "*", case, ..entry(EntryKind::Chart { measure, level }, title) }
}

impl TableEntry {
    /// Only cases that match the line's pattern followed by `case`.
    pub const fn case(self, case: &'static str) -> Self {
        Self { case, ..self }
    }

    /// No cases that match `except`.
    pub const fn except(self, except: &'static str) -> Self {
        Self { except, ..self }
    }

    /// Only rows of this unit.
    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// The ratio to the subject `beside` of the same case.
    pub const fn beside(self, beside: &'static str) -> Self {
        Self { beside, ..self }
    }

    /// The ratio with three decimals.
    pub const fn fine(self) -> Self {
        Self { shown: FigureValue::FineRatio, ..self }
    }

    /// One over the ratio.
    pub const fn inverse(self) -> Self {
        Self { shown: FigureValue::Inverse, ..self }
    }

    /// The value instead of the ratio, followed by `unit`.
    pub const fn value(self, unit: &'static str) -> Self {
        Self { shown: FigureValue::Value(unit), ..self }
    }

    /// The microseconds that `bytes` take at a value in MB/s.
    pub const fn time_of(self, bytes: f64) -> Self {
        Self { shown: FigureValue::TimeOf(bytes), ..self }
    }

    /// The paper's figure.
    pub const fn paper(self, paper: &'static str) -> Self {
        Self { paper, ..self }
    }

    fn figure_text(&self, report: &BenchReport, case: &str) -> Option<String> {
        let range = self.range(report, case)?;
        let value = match self.shown {
            FigureValue::Ratio | FigureValue::Inverse => range.to_string(),
            FigureValue::FineRatio => range.text(|ratio| format!("{ratio:.3}")),
            FigureValue::TimeOf(_) => format!("{range} us"),
            FigureValue::Value(unit) => format!("{range} {unit}").trim_end().to_owned(),
        };
        let label = if self.text.is_empty() { String::new() } else { format!("{} ", self.text) };
        let paper = if self.paper.is_empty() { String::new() } else { format!(" (paper: {})", self.paper) };
        Some(format!("{label}{value}{paper}"))
    }

    /// The text of each figure that this entry stands for.
    fn texts(&self, report: &BenchReport, case: &str) -> Vec<String> {
        match self.kind {
            EntryKind::Figure => self.figure_text(report, case).into_iter().collect(),
            EntryKind::Figures(entries) => entries.iter().flat_map(|entry| entry.texts(report, case)).collect(),
            EntryKind::Line | EntryKind::Remark | EntryKind::Chart { .. } => Vec::new(),
        }
    }

    /// The rows of the cases that match `case`.
    fn rows<'a>(&'a self, report: &'a BenchReport, case: &'a str) -> impl Iterator<Item = &'a ReportRow> {
        report.rows.iter().filter(move |row| {
            matches(case, &row.case)
                && matches(self.subject, &row.subject)
                && (self.except.is_empty() || !matches(self.except, &row.case))
                && (self.unit.is_empty() || row.unit == self.unit)
        })
    }

    fn range(&self, report: &BenchReport, case: &str) -> Option<ValueRange> {
        let case = format!("{case}{}", self.case);
        let rows = self.rows(report, &case);
        match self.shown {
            FigureValue::Value(_) => ValueRange::of(rows.map(|row| row.value)),
            FigureValue::TimeOf(bytes) => ValueRange::of(rows.map(|row| bytes / row.value)),
            FigureValue::Inverse => ValueRange::of(self.ratios(report, rows.collect()).map(|ratio| 1.0 / ratio)),
            FigureValue::Ratio | FigureValue::FineRatio => ValueRange::of(self.ratios(report, rows.collect())),
        }
    }

    /// The measured ratios to `beside`. If rounds were compared with another subject, the ratios of the medians.
    fn ratios<'a>(&'a self, report: &'a BenchReport, rows: Vec<&'a ReportRow>) -> impl Iterator<Item = f64> + 'a {
        let is_direct = |row: &ReportRow| self.beside.is_empty() || row.beside == self.beside;
        let has_direct = rows.iter().any(|row| is_direct(row));
        let ratio = move |row: &ReportRow| match report.row(&row.case, self.beside) {
            _ if is_direct(row) => Some(row.ratio),
            Some(other) if !has_direct => Some(row.value / other.value),
            _ => None,
        };
        rows.into_iter().filter(|row| row.subject != row.beside).filter_map(ratio)
    }
}

/// Whether `text` matches `pattern`, in which each `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(begin) else { return false };
    text.char_indices().map(|(at, _)| &text[at..]).chain([""]).any(|end| matches(rest, end))
}

/// The lines of `table` that the report has figures for.
pub fn lines(report: &BenchReport, table: &[TableEntry]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = table;
    while let [line, behind @ ..] = rest {
        let end = behind.iter().position(|entry| matches!(entry.kind, EntryKind::Line)).unwrap_or(behind.len());
        let (entries, next) = behind.split_at(end);
        let texts: Vec<String> = entries.iter().flat_map(|entry| entry.texts(report, line.case)).collect();
        if !texts.is_empty() {
            let remarks = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Remark));
            let remarks: String = remarks.map(|entry| format!("; {}", entry.text)).collect();
            lines.push(format!("{}: {}{remarks}", line.text, texts.join(", ")));
        }
        rest = next;
    }
    lines
}

/// The charts of `table` that the report has cases for, in the order of its rows.
pub fn charts(report: &BenchReport, table: &[TableEntry]) -> Vec<Chart> {
    let chart = |entry: &TableEntry| {
        let EntryKind::Chart { measure, level } = entry.kind else { return None };
        let mut cases: Vec<String> = Vec::new();
        for row in entry.rows(report, entry.case) {
            if !cases.contains(&row.case) {
                cases.push(row.case.clone());
            }
        }
        (!cases.is_empty()).then(|| Chart { title: entry.text.into(), measure, cases, level })
    };
    table.iter().filter_map(chart).collect()
}

impl ValueRange {
    /// The range of `values`, or `None` of no values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        values
            .map(|value| Self { least: value, most: value })
            .reduce(|all, one| Self { least: all.least.min(one.least), most: all.most.max(one.most) })
    }

    fn text(self, number: impl Fn(f64) -> String) -> String {
        let (least, most) = (number(self.least), number(self.most));
        if least == most { least } else { format!("{least} to {most}") }
    }
}

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(significant))
    }
}

/// A ratio with at least two significant digits.
pub fn significant(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 20.0 => format!("{ratio:.0}"),
        ratio if ratio >= 3.0 => format!("{ratio:.1}"),
        ratio if ratio >= 0.1 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.3}"),
    }
}

#[cfg(test)]
mod tests;
