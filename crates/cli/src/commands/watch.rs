//! A report that is printed every second, with the rates since the report before.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::print_on;
use crate::command_pool::CommandPool;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::stop;

/// The pause between two reports.
const PAUSE: Duration = Duration::from_secs(1);

/// A report whose counts have rates.
pub trait Counted: Serialize + DeserializeOwned {
    /// The counts of a report.
    type Counts: Clone;
    /// The counts per second.
    type Rates: Serialize;

    /// Returns the counts, or `None` if the disk or guest is closed.
    fn counts(&self) -> Option<&Self::Counts>;

    /// Returns the rates from `before` to `after`, each by `rate`, or `None` if a count fell: the counts began at zero
    /// again in between.
    fn rates(
        before: &Self::Counts,
        after: &Self::Counts,
        rate: impl Fn(u64, u64) -> Option<f64>,
    ) -> Option<Self::Rates>;
}

/// A report, with its rates from the second one on.
#[derive(Serialize)]
pub struct Watched<R: Counted> {
    /// The report.
    #[serde(flatten)]
    pub report: R,
    /// The current rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<R::Rates>,
}

/// The last counts and their time.
pub struct Watch<R: Counted>(Option<(Instant, R::Counts)>);

impl<R: Counted> Watch<R> {
    /// Returns a watch before its first report.
    pub fn new() -> Self {
        Self(None)
    }

    /// Adds the rates since the last report to `report`, which is of `now`.
    pub fn look(&mut self, report: R, now: Instant) -> Watched<R> {
        let last = self.0.take().zip(report.counts());
        let per_second = last.and_then(|((then, before), after)| {
            let seconds = (now - then).as_secs_f64();
            let rate = |before: u64, after: u64| Some(after.checked_sub(before)? as f64 / seconds);
            R::rates(&before, after, rate).filter(|_| seconds > 0.0)
        });
        self.0 = report.counts().map(|counts| (now, counts.clone()));
        Watched { report, per_second }
    }
}

/// How a report is printed.
#[derive(Args)]
pub struct WatchArguments {
    /// Print it again every second, with rates, until Ctrl-C or the end of the pool's owner
    #[arg(long)]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl WatchArguments {
    /// Prints the report that `look` gets from the pool at `path`. A watch also ends when its reader does.
    pub fn print<R: Counted>(
        &self,
        path: &Path,
        look: impl FnMut(&mut CommandPool) -> Outcome<Option<R>>,
        show: impl Fn(&R) -> String,
        show_rates: impl Fn(&R::Rates) -> String,
    ) -> Outcome {
        stop::watch()?;
        let mut command_pool = CommandPool::new(path)?;
        let show = |watched: &Watched<R>| {
            show(&watched.report) + &watched.per_second.as_ref().map(&show_rates).unwrap_or_default()
        };
        let printed = self.print_each(&mut command_pool, look, show);
        and_then_cleared(printed, command_pool.close())
    }

    fn print_each<R: Counted>(
        &self,
        command_pool: &mut CommandPool,
        mut look: impl FnMut(&mut CommandPool) -> Outcome<Option<R>>,
        show: impl Fn(&Watched<R>) -> String,
    ) -> Outcome {
        let mut looks = Watch::new();
        let mut has_shown = false;
        loop {
            let Some(report) = look(command_pool)? else { return end_with_owner(has_shown) };
            let report = looks.look(report, Instant::now());
            let is_read = print_on(self.json, &report, &show)?;
            if !self.watch || !is_read || command_pool.owner().is_some() || stop::is_asked() {
                return Ok(());
            }
            has_shown = true;
            std::thread::sleep(PAUSE);
        }
    }
}

/// Ends a watch whose pool's owner has ended, which is a failure only if the watch has shown nothing.
pub fn end_with_owner(has_shown: bool) -> Outcome {
    remark!("ferrite: the pool's owner has ended");
    if has_shown { Ok(()) } else { Err(Failure::Reported) }
}
