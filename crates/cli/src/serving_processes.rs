//! The processes that serve pools. They are found in the kernel's list of locks, so no stored list can be stale.

use std::path::PathBuf;
use std::time::Duration;

use ferrite_owner::{Error, OwnerClient};
use ferrite_pool::LockedFile;

use crate::host;

/// The time limit of the answer of an owner; an owner that takes longer is listed as one that does not answer.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// A process that serves a pool.
pub struct ServingProcess {
    /// The number of the process.
    pub pid: u32,
    /// The path of the pool.
    pub path: PathBuf,
    /// The connection to the process, if it answers.
    pub client: Option<OwnerClient>,
}

impl ServingProcess {
    /// Returns `None` for a process that locked something else than a pool, or that serves no other process.
    fn of(file: LockedFile) -> Option<Self> {
        let LockedFile { pid, path, .. } = file;
        let client = match OwnerClient::connect_within(&path, TIME_LIMIT) {
            Ok(client) => Some(client),
            Err(Error::Timeout(_)) => None,
            Err(_) => return None,
        };
        Some(Self { pid, path, client })
    }
}

/// Lists the pools that this user's processes serve.
pub fn of_this_user() -> Vec<ServingProcess> {
    let own = host::user().ok().map(|(user, _)| user);
    sorted(LockedFile::all().into_iter().filter(|file| Some(file.user) == own))
}

/// Lists the served pools whose processes this user may inspect: root inspects the processes of all users.
pub fn all() -> Vec<ServingProcess> {
    sorted(LockedFile::all().into_iter())
}

fn sorted(files: impl Iterator<Item = LockedFile>) -> Vec<ServingProcess> {
    let mut processes: Vec<ServingProcess> = files.filter_map(ServingProcess::of).collect();
    processes.sort_by(|one, other| one.path.cmp(&other.path));
    processes.dedup_by(|one, other| one.path == other.path);
    processes
}
