//! What absolute speeds ask for and what is achieved.

use std::time::Instant;

use ferrite_medium::{Accuracy, Direction, Pace, Tsc};

use crate::Result;
use crate::report::{Measure, Row};
use crate::session::Session;

/// Milliseconds it takes, about.
pub const TOTAL_MS: u64 = 1500;
/// What is achieved stands beside it.
pub const ASKED: &str = "asked";
/// What came of it.
pub const ACHIEVED: &str = "achieved";

/// Measures it.
pub fn measure(session: &mut Session<'_>, ticks: Tsc) -> Result<()> {
    if !session.options.wants(ASKED) && session.options.only.is_some() {
        return Ok(());
    }
    let start = Instant::now();
    let all = Pace::accuracy(ticks, || start.elapsed().as_nanos() as u64)?;
    session.steps.step("accuracy of the emulation", TOTAL_MS)?;
    session.report.rows.extend(all.iter().flat_map(rows));
    session.chart("The emulation: achieved beside asked", Measure::Ratio, all.iter().map(case).collect());
    Ok(())
}

fn case(one: &Accuracy) -> String {
    let verb = if one.direction == Direction::Read { "load" } else { "store" };
    format!("{verb} {} B at {}", one.bytes, one.speed)
}

fn rows(one: &Accuracy) -> [Row; 2] {
    let row = |subject: &str, value: f64, typical: f64| Row {
        case: case(one),
        subject: subject.into(),
        unit: "ns",
        value,
        beside: ASKED.into(),
        ratio: value / one.asked_ns,
        low: value / one.asked_ns,
        high: typical / one.asked_ns,
    };
    [row(ASKED, one.asked_ns, one.asked_ns), row(ACHIEVED, one.achieved_ns, one.typical_ns)]
}
