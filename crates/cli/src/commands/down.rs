//! `ferrite down`.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use ferrite_owner::{Error, OwnerClient};
use ferrite_pool::{Holder, PidFd, Way, ready_within};
use rustix::process::{Signal, pidfd_send_signal};

use crate::command_pool;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::{InPool, NoWords};
use crate::stop;

/// The time limit for the end of the owner.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The time without a message while the command waits for the owner's end.
const SILENT: Duration = Duration::from_secs(1);
/// The time limit for an owner's greeting.
const GREETING: Duration = Duration::from_secs(2);
/// The pause between two checks whether a signal asked this command to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// End the process that serves a pool, in order, as Ctrl-C does
///
/// Unmounts the pool's file systems, takes its /dev nodes away, writes out what is held back, and returns when the
/// process has ended. Programs that use a mount or a node are waited for, for ten seconds each; a second `ferrite down`
/// goes on without them.
#[derive(Args)]
pub struct Down {
    #[command(flatten)]
    at: InPool<NoWords>,
}

impl Down {
    /// Stops the owner.
    pub fn run(self) -> Outcome {
        let path = self.at.pool.path()?;
        command_pool::look_at(&path)?;
        stop::watch()?;
        let (pid, process) = owner(&path)?;
        pidfd_send_signal(process.as_fd(), Signal::TERM).map_err(|error| match error {
            rustix::io::Errno::PERM => Failure::from(format!(
                "process {pid}, which serves {}, is another user's: ask as that user, or as root",
                path.display()
            )),
            other => format!("ending process {pid}: {other}").into(),
        })?;
        await_end(&path, pid, &process)?;
        say!("{}: process {pid} has ended", path.display());
        Ok(())
    }
}

/// Returns the process that serves the pool at `path`. The descriptor is opened before the last check of the lock's
/// holder. So it belongs to the owner even if the kernel reuses process ids.
fn owner(path: &Path) -> Outcome<(u32, PidFd)> {
    let name = path.display();
    let unserved = || Failure::from(format!("no process serves {name}: there is nothing to end"));
    match OwnerClient::connect_within(path, GREETING) {
        Ok(_) | Err(Error::Timeout(_)) => {}
        Err(Error::NoOwner(_)) => return Err(unserved()),
        Err(Error::Silent { holder, .. }) => {
            return Err(format!("{name} is {holder}, which serves no other process: wait for it").into());
        }
        Err(error) => return Err(command_pool::refused(path, error)),
    }
    let holder = || Holder::seen(path).and_then(|holder| holder.pid);
    let hidden = || format!("the process that serves {name} cannot be seen from here: end it where it runs");
    let pid = holder().ok_or_else(hidden)?;
    let process = PidFd::open(pid).map_err(|_| unserved())?;
    if holder() == Some(pid) { Ok((pid, process)) } else { Err(unserved()) }
}

fn await_end(path: &Path, pid: u32, process: &PidFd) -> Outcome {
    let name = path.display();
    let (began, mut is_told) = (Instant::now(), false);
    while !ready_within(process, Way::Read, LOOK_INTERVAL)? {
        if stop::is_asked() {
            return Err(format!("process {pid} was told to end, and still serves {name}").into());
        }
        if began.elapsed() > SILENT && !is_told {
            remark!("waiting for process {pid} to unmount and close {name}; programs may be using it");
            is_told = true;
        }
        if began.elapsed() > TIME_LIMIT {
            let most = TIME_LIMIT.as_secs();
            return Err(format!(
                "process {pid} was told to end and has not in {most} s: `ferrite status` shows what it serves; a second \
                 `ferrite down` goes on without the programs that use it"
            )
            .into());
        }
    }
    Ok(())
}
