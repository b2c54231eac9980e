//! tpch: questions that read whole tables; on tables like TPC-H's, generated in the database, and queries after five of
//! its.

use std::path::Path;

use super::postgres::Cluster;
use super::{Kit, Load, Made, timed};
use crate::Result;

struct Tpch {
    cluster: Cluster,
}

/// It, where there is PostgreSQL.
pub fn make(kit: &Kit) -> Made {
    Ok(kit.cluster()?.cloned().map(|cluster| Box::new(Tpch { cluster }) as Box<dyn Load>))
}

impl Load for Tpch {
    fn prepare(&self, home: &Path) -> Result<()> {
        self.cluster.copy_to(home)
    }

    fn run(&self, home: &Path) -> Result<f64> {
        let server = self.cluster.start_in(home)?;
        timed(home, || server.sql("orders=0", include_str!("tpch/queries.sql")))
    }
}
