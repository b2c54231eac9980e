//! What the verdicts of experiments have in common.

use std::fmt;

use crate::report::{Report, Row};

/// The smallest and the largest of some ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// The ratios of the rows that `wanted` picks, if there are any.
pub fn range(report: &Report, wanted: impl Fn(&Row) -> bool) -> Option<Ratios> {
    let mut ratios = report.rows.iter().filter(|row| wanted(row)).map(|row| row.ratio);
    let first = ratios.next()?;
    let start = Ratios { least: first, most: first };
    Some(ratios.fold(start, |all, ratio| Ratios { least: all.least.min(ratio), most: all.most.max(ratio) }))
}

impl fmt::Display for Ratios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (figure(self.least), figure(self.most));
        if least == most { f.write_str(&least) } else { write!(f, "{least} to {most}") }
    }
}

/// A ratio with two digits that count.
pub fn figure(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 20.0 => format!("{ratio:.0}"),
        ratio if ratio >= 3.0 => format!("{ratio:.1}"),
        ratio if ratio >= 0.1 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.3}"),
    }
}

/// The line: what was found, what was left out, and whether the machine was quiet.
pub fn join(report: &Report, mut parts: Vec<String>, notes: Vec<String>) -> String {
    parts.extend(notes);
    parts.extend(report.machine.complaints());
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_told_by_their_ends() {
        let told = |least, most| Ratios { least, most }.to_string();
        assert_eq!(told(0.512, 0.97), "0.51 to 0.97");
        assert_eq!(told(1.001, 1.002), "1.00");
        assert_eq!(told(0.0123, 110.4), "0.012 to 110");
    }
}
