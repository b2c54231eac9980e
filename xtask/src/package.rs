//! `cargo xtask package`: the wheel and the Debian package.
//!
//! The same sources at the same commit give the same bytes in any folder: paths are remapped, and all files have the
//! time of the commit. With `cargo zigbuild` the files run on glibc 2.28 and later, without it on this machine's glibc
//! and later.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;

/// The minor number of the oldest glibc 2 that the packages are for.
const GLIBC_MINOR: u32 = 28;

/// The packages of cargo whose files go into the packages.
const BUILT: [&str; 8] = ["-p", "ferrite", "-p", "ferrite-c", "-p", "ferrite-sqlite", "-p", "ferrite-python"];

/// A kind of package, and the script that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageKind {
    /// The wheel of `ferrite-pm`.
    Wheel,
    /// The Debian package.
    Deb,
}

impl PackageKind {
    /// Each kind.
    pub const ALL: [Self; 2] = [Self::Wheel, Self::Deb];

    fn script(self) -> &'static [&'static str] {
        match self {
            Self::Wheel => &["python3", "bindings/python/wheel.py"],
            Self::Deb => &["sh", "packaging/deb.sh"],
        }
    }
}

impl Project {
    /// Builds the packages of `kinds` into target/package. Returns their paths, one a line.
    ///
    /// # Errors
    /// One line about the step that failed.
    pub fn package(&self, kinds: &[PackageKind]) -> Result<String, String> {
        let built = self.build_for_packages(self.root(), &self.target())?;
        let folder = self.target().join("package");
        kinds.iter().map(|kind| self.assemble(*kind, &built, &folder)).collect()
    }

    /// Builds the packages here and from a copy of the sources in another folder, and compares the bytes. Then installs,
    /// uses and removes each package as a user does.
    ///
    /// # Errors
    /// One line about the step that failed.
    pub fn try_packages(&self) -> Result<String, String> {
        let again = self.target().join("package-again");
        let suite = debian_suite()?;
        let copy = self.copy_sources(&again)?;
        let built = self.build_for_packages(self.root(), &self.target())?;
        let built_again = self.build_for_packages(&copy, &copy.join("target"))?;
        for kind in PackageKind::ALL {
            let first = self.assemble(kind, &built, &self.target().join("package"))?;
            let second = self.assemble(kind, &built_again, &again)?;
            let content = |path: &str| std::fs::read(path.trim()).map_err(|error| format!("{path}: {error}"));
            if content(&first)? != content(&second)? {
                return Err(format!("{} and {} differ", first.trim(), second.trim()));
            }
            let arguments = match kind {
                PackageKind::Wheel => vec!["packaging/try-wheel.sh", first.trim()],
                PackageKind::Deb => vec!["packaging/try-deb.sh", first.trim(), &suite],
            };
            print!("{}", output(Command::new("sh").args(arguments).current_dir(self.root()))?);
        }
        let _ = std::fs::remove_dir_all(again);
        Ok("both packages are reproducible, install, work and leave nothing".into())
    }

    /// Copies the sources that were not deleted to a folder in `again`, which is empty before, and returns that folder.
    fn copy_sources(&self, again: &Path) -> Result<PathBuf, String> {
        let _ = std::fs::remove_dir_all(again);
        let copy = again.join("sources");
        std::fs::create_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
        // A deleted file is listed by both commands, so `uniq -u` drops its name.
        let files = "git ls-files -z --deduplicate --cached --others --exclude-standard";
        let listed = format!("{{ {files}; git ls-files -z --deduplicate --deleted; }} | sort -z | uniq -zu");
        let copying = format!("{listed} | xargs -0 cp --parents --target-directory \"$0\"");
        output(Command::new("sh").args(["-c", &copying]).arg(&copy).current_dir(self.root()))?;
        Ok(copy)
    }

    /// Builds the files of the packages from the sources in `root` into `target`, and returns their folder.
    fn build_for_packages(&self, root: &Path, target: &Path) -> Result<PathBuf, String> {
        let host = output(Command::new("rustc").arg("-vV"))?;
        let host = host.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?.to_owned();
        let has_zig = has_zig();
        let (verb, triple) =
            if has_zig { ("zigbuild", format!("{host}.2.{GLIBC_MINOR}")) } else { ("build", host.clone()) };
        if !has_zig {
            println!("without `pip install cargo-zigbuild ziglang` the packages are for this glibc and later");
        }
        let mut build = self.cargo();
        build.current_dir(root).args([verb, "--release", "--locked", "--target", &triple]).args(BUILT);
        build.arg("--target-dir").arg(target).env("CARGO_ENCODED_RUSTFLAGS", remapped_paths(root));
        match build.status() {
            Ok(status) if status.success() => Ok(target.join(host).join("release")),
            Ok(status) => Err(format!("cargo {verb}: {status}")),
            Err(error) => Err(format!("cargo {verb}: {error}")),
        }
    }

    /// Writes the package `kind` of the files in `built` into `folder`. Returns its path and the end of the line.
    fn assemble(&self, kind: PackageKind, built: &Path, folder: &Path) -> Result<String, String> {
        let commit = ["log", "-1", "--format=%ct"];
        let time = output(Command::new("git").args(commit).current_dir(self.root()))?;
        let script = kind.script();
        let mut command = Command::new(script[0]);
        command.args(&script[1..]).arg(built).arg(folder).current_dir(self.root());
        let path = output(command.env("SOURCE_DATE_EPOCH", time.trim()))?;
        if kind == PackageKind::Wheel && has_zig() && glibc_minor(&path).is_none_or(|minor| minor > GLIBC_MINOR) {
            return Err(format!("{}: a file in it needs a later glibc than 2.{GLIBC_MINOR}", path.trim()));
        }
        Ok(path)
    }
}

/// Returns the minor number of the glibc 2 that the wheel at `path` needs, as its name says.
fn glibc_minor(path: &str) -> Option<u32> {
    let (_, from_minor) = path.rsplit_once("manylinux_2_")?;
    from_minor.split_once('_')?.0.parse().ok()
}

/// Returns true if `cargo zigbuild` is installed, and zig as a program or as a package of Python.
fn has_zig() -> bool {
    let runs = |program, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|done| done.status.success())
    };
    runs("cargo-zigbuild", &["--version"])
        && (runs("zig", &["version"]) || runs("python3", &["-m", "ziglang", "version"]))
}

/// Returns the release of Debian in which the Debian package is tried: the oldest one if zig builds for it, or that of
/// this machine.
pub fn debian_suite() -> Result<String, String> {
    if has_zig() {
        return Ok("bookworm".into());
    }
    let release = std::fs::read_to_string("/etc/os-release").map_err(|error| format!("/etc/os-release: {error}"))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(suite.ok_or("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"').into())
}

/// Returns the compiler's flags that keep the paths of this machine out of what is built from the sources in `root`.
fn remapped_paths(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    let remapped = |from: &Path, to| format!("--remap-path-prefix={}={to}", from.display());
    [remapped(root, "/ferrite"), remapped(&home, "/cargo")].join("\u{1f}")
}

/// Runs `command` and returns its standard output.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let done = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{command:?}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr).trim_end()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests;
