//! `ferrite stat`.

mod screen;
mod stat_report;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use ferrite_owner::Metric;
use ferrite_owner::services::PoolRequest;

use super::watch::end_with_owner;
use super::{print_on, text};
use crate::command_pool::CommandPool;
use crate::outcome::{Outcome, and_then_cleared};
use crate::pool_argument::{InPool, NoWords};
use crate::stop;
use screen::Screen;
use stat_report::StatReport;

/// The interval of two screens.
const INTERVAL: Duration = Duration::from_secs(1);

/// Show what a pool does: requests, bytes, errors and latencies of its disks, file systems and services
///
/// Without --watch it shows totals since the pool was opened. p50, p99 and p99.9 are latencies that so many of 100
/// requests do not exceed; they are too high by an eighth at most. Programs count what they do with objects and logs
/// themselves, and it is shown here too. `ferrite status` shows which pools are served, and by
/// which process. `ferrite metrics` prints the same numbers for Prometheus.
#[derive(Args)]
pub struct Stat {
    #[command(flatten)]
    at: InPool<NoWords>,
    /// Show the rates and latencies of each second, until q, Ctrl-C or the end of the pool's owner
    #[arg(long)]
    watch: bool,
    /// Print JSON; with --watch a document each second
    #[arg(long)]
    json: bool,
}

impl Stat {
    /// Prints what the pool does.
    pub fn run(self) -> Outcome {
        stop::watch()?;
        let path = self.at.pool.path()?;
        let mut command_pool = CommandPool::new(&path)?;
        let shown = self.show(&path, &mut command_pool);
        and_then_cleared(shown, command_pool.close())
    }

    fn show(&self, path: &Path, command_pool: &mut CommandPool) -> Outcome {
        // A pool without an owner does nothing that could be watched.
        let is_watched = self.watch && command_pool.owner().is_none();
        let mut screen = if is_watched && !self.json { Screen::open() } else { None };
        let mut before: Option<(Instant, Vec<Metric>)> = None;
        loop {
            let Some(metrics) = command_pool.look::<Vec<Metric>>(PoolRequest::Metrics)? else {
                drop(screen);
                return end_with_owner(before.is_some());
            };
            let now = Instant::now();
            let passed = before.as_ref().map(|(then, metrics)| (now.duration_since(*then), metrics.as_slice()));
            // The first screen of a watch shows totals, because there is no rate yet.
            let report = StatReport::new(path, &metrics, passed);
            let goes_on = match &mut screen {
                Some(screen) => screen.draw(&text(false, &report, StatReport::show)?)? && screen.pause(INTERVAL)?,
                None => print_on(self.json, &report, StatReport::show)? && is_watched && pause(),
            };
            if !goes_on || stop::is_asked() {
                return Ok(());
            }
            before = Some((now, metrics));
        }
    }
}

fn pause() -> bool {
    std::thread::sleep(INTERVAL);
    true
}
