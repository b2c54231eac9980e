//! sfs: a file server's many small files, made, read, appended to and removed; by postmark (Katcher 1997) instead of
//! SPECsfs, which is not free.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kit, Load, Made, Size, has, timed};
use crate::{Error, Result, program};

struct Sfs {
    size: Size,
    /// What postmark is told, in memory.
    orders: PathBuf,
}

/// It, where there is postmark.
pub fn make(kit: &Kit) -> Made {
    let made = Sfs { size: kit.size, orders: kit.scratch.path("postmark") };
    Ok(has(&["postmark"]).then(|| Box::new(made) as Box<dyn Load>))
}

impl Load for Sfs {
    fn prepare(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn run(&self, home: &Path) -> Result<f64> {
        let Size { files, transactions, .. } = self.size;
        let orders = format!(
            "set location {}\nset number {files}\nset transactions {transactions}\nset subdirectories {}\n\
             set size 512 32768\nset seed 42\nrun\nquit\n",
            home.display(),
            files.div_ceil(10)
        );
        fs::write(&self.orders, orders).map_err(Error::io(format!("writing {}", self.orders.display())))?;
        timed(home, || program::run(Command::new("postmark").arg(&self.orders)))
    }
}
