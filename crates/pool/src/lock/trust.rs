//! Trust in the owners of pools, sockets and images that this process uses.
//!
//! A user who may write to a pool can change it under the process that uses it: a size, a record, a map. Another user
//! chooses the content of its own files and the answers of its own sockets. So the process checks the file that it has
//! opened, not the path (O8). Root may write to everything, so root's files are trusted.
//!
//! Commands read exceptions from options, libraries from environment variables. A program that runs with rights of its
//! own (set-user-ID, file capabilities) ignores the variables.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;

use ferrite_memory::process::{effective_user, variable};

/// The environment variable that lists trusted users by name or number, separated by commas.
pub const TRUST_OWNER: &str = "FERRITE_TRUST_OWNER";
/// The environment variable that is 1 to trust files that other users may write to.
pub const TRUST_WRITABLE: &str = "FERRITE_TRUST_WRITABLE";

/// Mode bits of write permission for group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Mode bits of write permission for others.
const ALL_WRITE: u32 = 0o002;

static GIVEN: OnceLock<Trust> = OnceLock::new();

/// The files that a process uses in addition to files of its own user and of root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Trusted users, by number.
    owners: Vec<u32>,
    /// True to trust files that other users may write to.
    writable: bool,
}

impl Trust {
    /// Trusts these users, by name or number, and files that others may write to if `writable`.
    ///
    /// # Errors
    /// A message for users: there is no such user.
    pub fn of(owners: impl IntoIterator<Item = impl AsRef<str>>, writable: bool) -> Result<Self, String> {
        let owners = owners.into_iter().map(|user| number_of(user.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { owners, writable })
    }

    /// Reads the environment variables.
    ///
    /// # Errors
    /// As [`Trust::of`].
    pub fn of_environment() -> Result<Self, String> {
        let owners = variable(TRUST_OWNER).unwrap_or_default();
        let owners = owners.to_string_lossy();
        let names = owners.split(',').filter(|name| !name.is_empty());
        let writable = variable(TRUST_WRITABLE).is_some_and(|value| value == "1");
        Self::of(names, writable).map_err(|why| format!("{TRUST_OWNER}: {why}"))
    }

    /// Also trusts what `other` does.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.owners.extend(other.owners);
        self.writable |= other.writable;
        self
    }

    /// Applies this trust to the whole process, instead of the environment variables. Only the first call has an
    /// effect.
    pub fn install(self) {
        let _ = GIVEN.set(self);
    }

    /// Returns the environment variables that give a child the same trust.
    pub fn environment() -> Vec<(&'static str, String)> {
        let given = GIVEN.get().cloned().unwrap_or_default();
        let owners: Vec<String> = given.owners.iter().map(u32::to_string).collect();
        let owners = (!owners.is_empty()).then(|| (TRUST_OWNER, owners.join(",")));
        let writable = given.writable.then(|| (TRUST_WRITABLE, "1".into()));
        owners.into_iter().chain(writable).collect()
    }

    /// Refuses the file that was opened at `path` if an untrusted user owns it or may write to it.
    fn ensure(&self, path: &Path, opened: &Metadata) -> Result<(), String> {
        let (name, owner) = (path.display(), opened.uid());
        if ![effective_user(), 0].contains(&owner) && !self.owners.contains(&owner) {
            let user = name_of(owner);
            return Err(format!(
                "{name} belongs to user {user}, who may change it under this program: --trust-owner {user} (in libraries \
                 {TRUST_OWNER}={user}) trusts that user"
            ));
        }
        let mode = opened.mode() & 0o777;
        if mode & bits_of_others(opened) != 0 && !self.writable {
            return Err(format!(
                "{name} has mode {mode:03o}, so other users may write to it: `chmod go-w` keeps them out, --trust-writable \
                 (in libraries {TRUST_WRITABLE}=1) trusts them"
            ));
        }
        Ok(())
    }
}

/// Returns the mode bits of untrusted users. The group of a device node, such as `disk`, is the administrator's choice.
fn bits_of_others(opened: &Metadata) -> u32 {
    let kind = opened.file_type();
    if kind.is_block_device() || kind.is_char_device() { ALL_WRITE } else { OTHERS_WRITE }
}

/// Refuses the file that was opened at `path` unless only this user and root can change it, or it is trusted by
/// [`Trust::install`] or by the environment.
///
/// # Errors
/// A message for users: the owner or the mode, and the option that trusts it.
pub fn ensure_trusted(path: &Path, opened: &Metadata) -> Result<(), String> {
    match GIVEN.get() {
        Some(given) => given.ensure(path, opened),
        None => Trust::of_environment()?.ensure(path, opened),
    }
}

/// Returns name and number of each user in `/etc/passwd`.
fn users() -> Vec<(String, u32)> {
    let listed = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |line: &str| {
        let mut words = line.split(':');
        Some((words.next()?.to_owned(), words.nth(1)?.parse().ok()?))
    };
    listed.lines().filter_map(user).collect()
}

fn number_of(user: &str) -> Result<u32, String> {
    let by_name = || users().into_iter().find_map(|(name, number)| (name == user).then_some(number));
    let number = user.parse().ok().or_else(by_name);
    number.ok_or_else(|| format!("there is no user {user:?} in /etc/passwd: give a number (`id -u {user}`)"))
}

fn name_of(user: u32) -> String {
    let name = users().into_iter().find_map(|(name, number)| (number == user).then_some(name));
    name.unwrap_or_else(|| user.to_string())
}

#[cfg(test)]
mod tests;
