//! `ferrite metrics`.

use clap::Args;
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{Metric, metrics_text};

use super::write;
use crate::command_pool;
use crate::outcome::Outcome;
use crate::pool_argument::{InPool, NoWords};

/// Print what a pool counts as text for Prometheus: requests, bytes, errors, latencies, space
///
/// The page docs/metrics.md describes each metric. `ferrite up --metrics` serves the same text over HTTP, for a
/// Prometheus server to fetch. `ferrite stat` shows the numbers to people.
#[derive(Args)]
pub struct Metrics {
    #[command(flatten)]
    at: InPool<NoWords>,
}

impl Metrics {
    /// Prints the metrics.
    pub fn run(self) -> Outcome {
        let metrics: Vec<Metric> = command_pool::ask(&self.at.pool.path()?, PoolRequest::Metrics, None)?;
        write(&metrics_text(&metrics)).map(drop)
    }
}
