//! The programs that the end-to-end tests run, and the Debian packages that contain them.

use std::path::Path;
use std::process::Command;

use crate::services::{self, POLICY, RefusedStarts};

/// A program and its package.
const PROGRAMS: &[(&str, &str)] = &[
    ("fio", "fio"),
    ("gcc", "gcc"),
    ("nm", "binutils"),
    ("pkg-config", "pkg-config"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("nbdkit", "nbdkit"),
    ("openssl", "openssl"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdsh", "python3-libnbd"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_repair", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("sfdisk", "fdisk"),
    ("fusermount3", "fuse3"),
    ("mount", "mount"),
    ("losetup", "mount"),
    ("fstrim", "util-linux"),
    ("blkid", "util-linux"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("sha256sum", "coreutils"),
    ("qemu-x86_64", "qemu-user"),
    ("valgrind", "valgrind"),
    ("stdbuf", "coreutils"),
    ("sqlite3", "sqlite3"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("redis-server", "redis-server"),
    ("psql", "postgresql"),
    ("pg_ctlcluster", "postgresql"),
    ("runuser", "util-linux"),
    ("stress-ng", "stress-ng"),
    ("postmark", "postmark"),
    ("dbench", "dbench"),
    ("fs_mark", "fsmark"),
    ("git", "git"),
    ("rsync", "rsync"),
    ("setfacl", "acl"),
    ("setfattr", "attr"),
    ("make", "make"),
    ("tclsh", "tcl"),
    ("promtool", "prometheus"),
    ("prometheus", "prometheus"),
    ("tmux", "tmux"),
    ("zsh", "zsh"),
    ("fish", "fish"),
];

/// The programs that write and try the packages, of which the gate needs none.
const PACKAGING: &[(&str, &str)] = &[
    ("debootstrap", "debootstrap"),
    ("dpkg-deb", "dpkg"),
    ("lintian", "lintian"),
    ("man", "man-db"),
    ("readelf", "binutils"),
    ("unshare", "util-linux"),
];

/// The programs that build and boot the machine in which the Debian package is tried.
const MACHINE: [&str; 4] = ["qemu-system-x86_64", "debootstrap", "mkfs.ext4", "unshare"];

/// Test programs of crates.io, with the versions that are built.
const CRATES: [(&str, &str); 2] = [("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

const FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Installs the packages of programs that are missing, which needs root on Debian or a derivative.
///
/// # Errors
/// One line that names the packages, if they cannot be installed.
pub fn ensure() -> Result<String, String> {
    install(missing)
}

/// Installs the packages of programs that write and try Ferrite's own packages, as [`ensure`] does.
///
/// # Errors
/// One line that names the packages, if they cannot be installed.
pub fn ensure_packaging() -> Result<String, String> {
    install(|| absent(PACKAGING))
}

/// Returns the first program that is missing for the machine in which the Debian package is tried.
pub fn missing_for_machine() -> Option<&'static str> {
    MACHINE.into_iter().find(|program| !is_there(program))
}

/// Installs the packages that `missing` returns without their services, and asks again.
fn install(missing: impl Fn() -> Vec<&'static str>) -> Result<String, String> {
    let wanted = missing();
    if wanted.is_empty() {
        return Ok("all there".into());
    }
    let names = wanted.join(" ");
    let advice = format!("packages are missing: apt-get install {names}");
    if !is_root() || !is_there("apt-get") {
        return Err(format!("{advice} (run it as root, then try again)"));
    }
    apt_get(&["update"]).map_err(|error| format!("{advice} (apt-get update: {error})"))?;
    let install = [&["install", "--yes", "--no-install-recommends"][..], &wanted].concat();
    let refused = RefusedStarts::begin(Path::new(POLICY)).map_err(|error| format!("{advice} ({error})"))?;
    let installed = apt_get(&install);
    drop(refused);
    if is_there("systemctl") {
        services::disable(&wanted);
    }
    installed.map_err(|error| format!("{advice} (apt-get install: {error})"))?;
    if missing().is_empty() { Ok(format!("installed {names}")) } else { Err(advice) }
}

/// Builds the test programs of crates.io below `root`, unless they are there.
///
/// # Errors
/// The program, and the error of cargo.
pub fn build(cargo: impl Fn() -> Command, root: &Path) -> Result<String, String> {
    let missing: Vec<_> = CRATES.iter().filter(|(name, _)| !root.join("bin").join(name).is_file()).collect();
    for (name, version) in &missing {
        let mut command = cargo();
        command.args(["install", "--quiet", "--locked", "--root"]).arg(root).args(["--version", version, name]);
        let status = command.status().map_err(|error| format!("{name}: {error}"))?;
        if !status.success() {
            return Err(format!("{name}: cargo install ended with {status}"));
        }
    }
    let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
    Ok(if names.is_empty() { "all there".into() } else { format!("built {}", names.join(", ")) })
}

/// Builds SQLite's own test program from Debian's source below `folder`, unless this script built it before.
///
/// # Errors
/// The last line of the script's error output.
pub fn build_testfixture(script: &Path, folder: &Path) -> Result<String, String> {
    if folder.join("source/testfixture").is_file() && is_copied(script, &folder.join("source")) {
        return Ok("there".into());
    }
    let built = Command::new(script).arg(folder).stdin(std::process::Stdio::null()).output();
    let built = built.map_err(|error| format!("{}: {error}", script.display()))?;
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    let last = || format!("{}: {}", script.display(), said.lines().last().unwrap_or("it says nothing"));
    if built.status.success() { Ok("built".into()) } else { Err(last()) }
}

/// Returns true if `folder` has an equal copy of every file beside `script`.
fn is_copied(script: &Path, folder: &Path) -> bool {
    let files = script.parent().and_then(|beside| std::fs::read_dir(beside).ok());
    let is_same = |path: &Path| {
        std::fs::read(path).ok() == path.file_name().and_then(|name| std::fs::read(folder.join(name)).ok())
    };
    files.is_some_and(|mut files| files.all(|file| file.is_ok_and(|file| is_same(&file.path()))))
}

fn missing() -> Vec<&'static str> {
    let mut packages = absent(PROGRAMS);
    if !makes_environments() {
        packages.push("python3-venv");
    }
    if !Path::new("/usr/lib/tcl8.6/tclConfig.sh").is_file() {
        packages.push("tcl8.6-dev");
    }
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Returns the packages of those `programs` that are missing.
fn absent(programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    programs.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}

/// Returns true if Python can make virtual environments, for which Debian has a package of its own.
fn makes_environments() -> bool {
    let asked = Command::new("python3").args(["-c", "import ensurepip"]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// Returns true if `program` is in a system folder or a folder of PATH. A user's PATH lacks the `sbin` folders.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(Into::into));
    folders.any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|me| me.uid() == 0)
}

fn apt_get(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(["-o", "Dpkg::Use-Pty=0", "--quiet"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.stdin(std::process::Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

#[cfg(test)]
mod tests;
