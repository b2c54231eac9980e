//! sfs: a file server's many small files, made, read, appended to and removed; by postmark (Katcher 1997) instead of
//! SPECsfs, which is not free.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{AppSize, LoadKit, timed};
use crate::{Error, Result, program};

/// The command that runs postmark on `files` files in `home`, by orders that are written to `path`.
pub fn command(path: &Path, home: &Path, files: u64, transactions: u64, more: &str) -> Result<Command> {
    let orders = format!(
        "set location {}\nset number {files}\nset transactions {transactions}\n{more}\
         set size 512 32768\nset seed 42\nrun\nquit\n",
        home.display()
    );
    fs::write(path, orders).map_err(Error::io(format!("writing {}", path.display())))?;
    let mut command = Command::new("postmark");
    command.arg(path);
    Ok(command)
}

/// Runs the load.
pub fn run(kit: &LoadKit, home: &Path) -> Result<f64> {
    let AppSize { files, transactions, .. } = kit.size;
    let folders = format!("set subdirectories {}\n", files.div_ceil(10));
    let mut postmark = command(&kit.scratch.path("postmark"), home, files, transactions, &folders)?;
    timed(home, || program::run(&mut postmark))
}
