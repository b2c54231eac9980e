//! The goals of the tier, each with what was measured; a goal that is missed is printed as missed.

use super::kill_recovery::{self, LIMIT_MS};
use super::{CONQUEST, LRU, LRU_OF_CONTENT, OURS, PAPER, PEERS};
use crate::report::{BOUND, ReportRow};

/// What a figure of ours is compared with.
#[derive(Clone, Copy)]
enum Beside {
    /// Nothing: the figure itself.
    Alone,
    /// The kernel's file system with the smallest figure.
    Least,
    /// The kernel's file system with the largest figure.
    Most,
    /// Another subject.
    Subject(&'static str),
}

/// The limit of a figure.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// The geometric mean over all cases, of which none may be below 1.
    MeanAtLeast(f64),
}

/// A goal for every case whose name begins and ends in a given way.
struct TierGoal {
    what: &'static str,
    begin: &'static str,
    /// A part of the case between its begin and its end.
    middle: &'static str,
    measure: &'static str,
    beside: Beside,
    /// True for the difference to what it is beside, instead of the ratio.
    is_difference: bool,
    limit: Limit,
}

const fn goal(
    what: &'static str,
    begin: &'static str,
    measure: &'static str,
    beside: Beside,
    limit: Limit,
) -> TierGoal {
    TierGoal { what, begin, middle: "", measure, beside, is_difference: false, limit }
}

const WRITTEN: &str = ": written to the SSD";

/// The goals, in the order of the figures.
const GOALS: [TierGoal; 26] = [
    goal(
        "bytes of durable rewrites beside the fewest",
        "durable rewrites",
        WRITTEN,
        Beside::Subject(BOUND),
        Limit::AtMost(1.02),
    ),
    goal("3.7 bytes beside the paper's rules", "", WRITTEN, Beside::Subject(PAPER), Limit::AtMost(1.0)),
    goal("3.7 bytes beside Conquest's rule", "", WRITTEN, Beside::Subject(CONQUEST), Limit::AtMost(1.0)),
    goal("3.7 bytes, postmark", "postmark", WRITTEN, Beside::Least, Limit::AtMost(0.4)),
    goal("3.7 bytes, file server", "file server", WRITTEN, Beside::Least, Limit::AtMost(0.4)),
    goal("3.7 bytes, iozone", "iozone,", WRITTEN, Beside::Least, Limit::AtMost(0.9)),
    goal("3.7 bytes, iozone, beside exact LRU", "iozone,", WRITTEN, Beside::Subject(LRU), Limit::AtMost(1.05)),
    goal("3.7 bytes, iozone, beside the bound", "iozone,", WRITTEN, Beside::Subject(BOUND), Limit::AtLeast(1.0)),
    goal("3.9 bytes, iozone-3/4", "iozone-3/4", WRITTEN, Beside::Least, Limit::AtMost(0.9)),
    goal("3.7 bytes, fio", "fio", WRITTEN, Beside::Least, Limit::AtMost(0.9)),
    goal("3.7 bytes, fio, beside exact LRU", "fio", WRITTEN, Beside::Subject(LRU), Limit::AtMost(1.05)),
    TierGoal {
        is_difference: true,
        ..goal("3.8 hit ratio less that of exact LRU", "", ": hit ratio", Beside::Subject(LRU), Limit::AtLeast(-0.02))
    },
    TierGoal {
        is_difference: true,
        ..goal(
            "3.8 hit ratio less that of exact LRU of our content",
            "",
            ": hit ratio",
            Beside::Subject(LRU_OF_CONTENT),
            Limit::AtLeast(-0.02),
        )
    },
    goal("MB/s of a scan", "", ": scan", Beside::Most, Limit::AtLeast(0.9)),
    goal("3.10 KiB of a write request", "", ": write request", Beside::Alone, Limit::AtLeast(500.0)),
    goal("3.11 erases, page-level", "", ": erases, page-level", Beside::Subject("ext4"), Limit::AtMost(0.4)),
    goal("3.11 erases, FAST", "", ": erases, FAST", Beside::Subject("ext4"), Limit::AtMost(0.4)),
    goal(
        "3.12 pages copied per erase, page-level",
        "",
        ": copied per erase, page-level",
        Beside::Alone,
        Limit::AtMost(1.0),
    ),
    goal("3.12 pages copied per erase, FAST", "", ": copied per erase, FAST", Beside::Alone, Limit::AtMost(1.0)),
    TierGoal {
        middle: "60 % live",
        ..goal("3.13 durable operations, 60 % live", "", ": operations", Beside::Most, Limit::MeanAtLeast(3.0))
    },
    TierGoal {
        middle: "60 % live",
        ..goal("3.13 drained operations, 60 % live", "", ": operations, drained", Beside::Most, Limit::MeanAtLeast(2.0))
    },
    TierGoal {
        middle: "90 % live",
        ..goal("3.14 durable operations, 90 % live", "", ": operations", Beside::Most, Limit::MeanAtLeast(2.0))
    },
    TierGoal {
        middle: "90 % live",
        ..goal("3.14 drained operations, 90 % live", "", ": operations, drained", Beside::Most, Limit::MeanAtLeast(1.2))
    },
    goal("3.15 recycled pages beside the paper's rules", "", ": recycled", Beside::Subject(PAPER), Limit::AtMost(0.75)),
    TierGoal {
        is_difference: true,
        ..goal(
            "3.16 cleaning efficiency less that of the paper's rules",
            "",
            ": cleaning efficiency",
            Beside::Subject(PAPER),
            Limit::AtLeast(0.05),
        )
    },
    goal("ms of recovery", kill_recovery::CASE, "", Beside::Alone, Limit::AtMost(LIMIT_MS)),
];

impl TierGoal {
    fn takes(&self, case: &str) -> bool {
        case.starts_with(self.begin) && case.ends_with(self.measure) && case.contains(self.middle)
    }

    /// Returns the figure of one case, if the report has it.
    fn figure(&self, rows: &[ReportRow], case: &str) -> Option<f64> {
        let value = |name: &str| rows.iter().find(|row| row.case == case && row.subject == name).map(|row| row.value);
        let ours = value(OURS)?;
        let peers = || PEERS.iter().filter_map(|peer| value(peer.name));
        let beside = match self.beside {
            Beside::Alone => return Some(ours),
            Beside::Least => peers().reduce(f64::min)?,
            Beside::Most => peers().reduce(f64::max)?,
            Beside::Subject(name) => value(name)?,
        };
        let figure = if self.is_difference { ours - beside } else { ours / beside };
        Some(figure).filter(|figure| figure.is_finite())
    }

    /// Returns the line about all cases of the goal, by the worst of them.
    fn line(&self, rows: &[ReportRow]) -> Option<String> {
        let mut cases: Vec<&str> = rows.iter().map(|row| &*row.case).filter(|case| self.takes(case)).collect();
        cases.dedup();
        let figures: Vec<f64> = cases.iter().filter_map(|case| self.figure(rows, case)).collect();
        let (least, most) = (figures.iter().copied().reduce(f64::min)?, figures.iter().copied().reduce(f64::max)?);
        let mut range = if figures.len() == 1 { format!("{least:.3}") } else { format!("{least:.3} to {most:.3}") };
        let (wanted, is_met) = match self.limit {
            Limit::AtMost(limit) => (format!("{limit} at most"), most <= limit),
            Limit::AtLeast(limit) => (format!("{limit} at least"), least >= limit),
            Limit::MeanAtLeast(limit) => {
                let mean = geometric_mean(&figures);
                range = format!("{range}, geometric mean {mean:.3}");
                (format!("{limit} at least and none below 1"), mean >= limit && least >= 1.0)
            }
        };
        let missed = if is_met { "" } else { ": missed" };
        Some(format!("{} {range}, wanted {wanted}{missed}", self.what))
    }
}

fn geometric_mean(figures: &[f64]) -> f64 {
    (figures.iter().map(|figure| figure.ln()).sum::<f64>() / figures.len() as f64).exp()
}

/// Returns a line for each goal that `rows` has figures for.
pub fn lines(rows: &[ReportRow]) -> Vec<String> {
    GOALS.iter().filter_map(|goal| goal.line(rows)).collect()
}
