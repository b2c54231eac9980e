//! The processes that serve pools, found by the kernel's list of locks: nothing is written down that could be stale.

use std::path::PathBuf;
use std::time::Duration;

use ferrite_owner::{Client, Error};
use ferrite_pool::LockedFile;

use crate::host;

/// How long an owner may take to answer before it is listed as one that does not.
const PATIENCE: Duration = Duration::from_secs(2);

/// A process that serves a pool.
pub struct ServingProcess {
    /// Its process.
    pub pid: u32,
    /// The pool's file.
    pub path: PathBuf,
    /// The connection to it, if it answers.
    pub client: Option<Client>,
}

impl ServingProcess {
    /// Returns `None` for a process that locked something else than a pool, or that serves no other process.
    fn of(file: LockedFile) -> Option<Self> {
        let LockedFile { pid, path, .. } = file;
        let client = match Client::connect_within(&path, PATIENCE) {
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
    let mut owners: Vec<ServingProcess> = files.filter_map(ServingProcess::of).collect();
    owners.sort_by(|one, other| one.path.cmp(&other.path));
    owners.dedup_by(|one, other| one.path == other.path);
    owners
}
