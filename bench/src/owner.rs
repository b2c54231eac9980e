//! `ferrite` as its users start it: the owner of a pool, who mounts a file system of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tree::Shut;
use crate::{Error, Result, program};

/// How long files may take to move to superpages.
const PATIENCE: Duration = Duration::from_secs(20);

/// An owner. Dropped, it is told to end, and waited for.
pub struct Owner {
    ferrite: PathBuf,
    name: &'static str,
    child: Child,
    /// It must find somebody who listens.
    _says: BufReader<ChildStdout>,
    pool: Arc<Shut>,
}

impl Owner {
    /// Has `ferrite` mount the file system `name` of `pool` on `point`; `None` where that program is not the whole one.
    pub fn start(ferrite: &Path, pool: Arc<Shut>, name: &'static str, point: &Path) -> Result<Option<Self>> {
        let mut command = Command::new(ferrite);
        command.args(["fs", "mount", "--json"]).arg(pool.path()).arg(name).arg(point);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::io(format!("starting {}", ferrite.display())))?;
        let mut says = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        says.read_line(&mut line).map_err(Error::io(format!("hearing {}", ferrite.display())))?;
        let owner = Self { ferrite: ferrite.into(), name, child, _says: says, pool };
        // One that has ended is waited for by being dropped.
        Ok((!line.is_empty()).then_some(owner))
    }

    /// Waits until `bytes` of files are in superpages, or until that takes too long.
    pub fn wait_for_superpages(&self, bytes: u64) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut stat = Command::new(&self.ferrite);
        stat.args(["fs", "stat", "--json"]).arg(self.pool.path()).arg(self.name);
        loop {
            let told: serde_json::Value = serde_json::from_str(&program::output(&mut stat)?).unwrap_or_default();
            if told["space"]["super_bytes"].as_u64() >= Some(bytes) || Instant::now() > until {
                return Ok(());
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Who has ended already is only waited for.
        let _ = program::run(Command::new("kill").args(["-INT", &self.child.id().to_string()]));
        let _ = self.child.wait();
    }
}
