//! The kernel of the guest in which tests use drivers that this machine's kernel may lack: Debian's kernel, unpacked into
//! `target/guest` and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest kernel.
const NEWEST: &str = "linux-image-cloud-amd64";

/// Fetches the kernel into a folder with `boot/vmlinuz*` and `lib/modules`, unless it is there.
///
/// # Errors
/// If the kernel cannot be fetched, the package that has to be unpacked and the folder.
pub fn ensure(target: &Path) -> Result<String, String> {
    let folder = target.join("guest");
    if folder.join("boot").is_dir() {
        return Ok(format!("{} is there", folder.display()));
    }
    let partial = target.join("guest.partial");
    let _ = fs::remove_dir_all(&partial);
    let fetched = fetch(&partial).and_then(|name| {
        fs::rename(partial.join("root"), &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(format!("unpacked {name} into {}", folder.display()))
    });
    let _ = fs::remove_dir_all(&partial);
    let wanted = format!("the tests in a guest need a kernel: unpack Debian's {NEWEST} into {}", folder.display());
    fetched.map_err(|error| format!("{wanted} ({error})"))
}

/// Downloads and unpacks the package into `partial`. Returns the name of the package.
fn fetch(partial: &Path) -> Result<String, String> {
    fs::create_dir_all(partial.join("root")).map_err(|error| format!("{}: {error}", partial.display()))?;
    let name = newest()?;
    run(Command::new("apt-get").args(["--quiet", "download", &name]).current_dir(partial))?;
    let package = package_in(partial).ok_or("apt-get left no package")?;
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(partial.join("root")))?;
    Ok(name)
}

fn newest() -> Result<String, String> {
    let listed = run(Command::new("apt-cache").args(["depends", NEWEST]))?;
    dependency(&listed).ok_or_else(|| format!("apt-cache knows no {NEWEST}: apt-get update"))
}

/// Returns the package that the output of `apt-cache depends` names.
fn dependency(listed: &str) -> Option<String> {
    let name = listed.lines().find_map(|line| line.trim().strip_prefix("Depends: "))?;
    name.starts_with("linux-image-").then(|| name.to_owned())
}

/// Returns a Debian package in `folder`.
pub fn package_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| path.extension().is_some_and(|it| it == "deb"))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {}", output.status, why.lines().last().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
