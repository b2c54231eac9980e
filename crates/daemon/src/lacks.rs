//! The requirements of a mount that this user or machine does not meet, each with the command that provides it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferrite_fuse::FUSE;
use ferrite_owner::machine;
use ferrite_owner::paths::quoted;

const FUSERMOUNT: &str = "fusermount3";
const SET_USER: u32 = 0o4000;
/// The requirement that root lacks in a container.
const ADMINISTRATOR_MISSING: &str =
    "the right to mount (CAP_SYS_ADMIN) is missing: start the container with `--cap-add SYS_ADMIN`";

/// Returns a line for each missing requirement, and no lines if this user can mount.
pub fn to_mount() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = match machine::user() {
        _ if ferrite_fuse::has_administrator(&status) => None,
        Ok((0, _)) => Some(ADMINISTRATOR_MISSING.into()),
        _ => fusermount(found(FUSERMOUNT).as_deref(), &status),
    };
    FUSE.missing().into_iter().chain(rights).collect()
}

/// Returns the lines of [`to_mount`] as part of a sentence.
pub fn to_mount_in_line() -> Option<String> {
    let missing = to_mount();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// Returns the requirement that another user lacks: users mount by `program`, which is set-user-id root.
fn fusermount(program: Option<&Path>, status: &str) -> Option<String> {
    let Some(program) = program else {
        return Some(format!("{FUSERMOUNT} is missing: as root `apt-get install fuse3`"));
    };
    if field(status, "NoNewPrivs:") == Some("1") {
        return Some(format!("{FUSERMOUNT} may not become root here (no_new_privs): run this outside of the sandbox"));
    }
    let mode = fs::metadata(program).ok()?.mode();
    let typed = quoted(program);
    (mode & SET_USER == 0).then(|| format!("{FUSERMOUNT} has lost its rights: as root `chmod u+s {typed}`"))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests;
