//! tpcc: small transactions, each durable when it is answered; by pgbench's TPC-B, as TPC-C's own programs are not free.

use std::path::Path;

use super::postgres::Cluster;
use super::{Kit, Load, Made};
use crate::{Error, Result, program};

/// Transactions whose time is told, as the paper tells that of a million.
pub const TRANSACTIONS: f64 = 10_000.0;
const CLIENTS: &str = "8";

struct Tpcc {
    cluster: Cluster,
    seconds: String,
}

/// It, where there is PostgreSQL.
pub fn make(kit: &Kit) -> Made {
    let seconds = kit.size.seconds.to_string();
    Ok(kit.cluster()?.cloned().map(|cluster| Box::new(Tpcc { cluster, seconds }) as Box<dyn Load>))
}

impl Load for Tpcc {
    fn prepare(&self, home: &Path) -> Result<()> {
        self.cluster.copy_to(home)
    }

    fn run(&self, home: &Path) -> Result<f64> {
        let server = self.cluster.start_in(home)?;
        let mut pgbench = server.client("pgbench");
        let said = program::output(pgbench.args(["-n", "-c", CLIENTS, "-j", "2", "-T", &self.seconds]))?;
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
        let rate = rate.filter(|rate| *rate > 0.0);
        let silent = || Error::Server { who: "pgbench".into(), what: format!("it tells no rate: {said}") };
        Ok(TRANSACTIONS / rate.ok_or_else(silent)?)
    }
}
