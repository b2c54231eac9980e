//! `cargo xtask package`: the wheel and the Debian package.
//!
//! The same sources at the same commit give the same bytes: paths are remapped, and all files have the time of the
//! commit. With `cargo zigbuild` the files run on glibc 2.28 and later, without it on this machine's glibc and later.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;

/// The oldest glibc that the packages are for.
const GLIBC: &str = "2.28";

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
        let built = self.build_for_packages()?;
        let folder = self.target().join("package");
        kinds.iter().map(|kind| self.assemble(*kind, &built, &folder)).collect()
    }

    /// Packages twice and compares the bytes, then installs, uses and removes each package as a user does.
    ///
    /// # Errors
    /// One line about the step that failed.
    pub fn try_packages(&self) -> Result<String, String> {
        let built = self.build_for_packages()?;
        for kind in PackageKind::ALL {
            let [first, second] = ["package", "package-again"].map(|name| self.target().join(name));
            let [first, second] = [first, second].map(|folder| self.assemble(kind, &built, &folder));
            let (first, second) = (first?, second?);
            let content = |path: &str| std::fs::read(path.trim()).map_err(|error| format!("{path}: {error}"));
            if content(&first)? != content(&second)? {
                return Err(format!("{} and {} differ", first.trim(), second.trim()));
            }
            let script = match kind {
                PackageKind::Wheel => "packaging/try-wheel.sh",
                PackageKind::Deb => "packaging/try-deb.sh",
            };
            output(Command::new("sh").arg(script).arg(first.trim()).current_dir(self.root()))?;
        }
        Ok("both packages install, work and leave nothing".into())
    }

    /// Builds the files of the packages, and returns their folder.
    fn build_for_packages(&self) -> Result<PathBuf, String> {
        let host = output(Command::new("rustc").arg("-vV"))?;
        let host = host.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?.to_owned();
        let has_zig = Command::new("cargo-zigbuild").arg("--version").output().is_ok_and(|it| it.status.success());
        let (verb, target) = if has_zig { ("zigbuild", format!("{host}.{GLIBC}")) } else { ("build", host.clone()) };
        if !has_zig {
            println!("without cargo-zigbuild (`pip install cargo-zigbuild`) the packages are for this glibc and later");
        }
        let mut build = self.cargo();
        build.args([verb, "--release", "--locked", "--target", &target]).args(BUILT);
        build.env("CARGO_ENCODED_RUSTFLAGS", self.remapped_paths());
        match build.status() {
            Ok(status) if status.success() => Ok(self.target().join(host).join("release")),
            Ok(status) => Err(format!("cargo {verb}: {status}")),
            Err(error) => Err(format!("cargo {verb}: {error}")),
        }
    }

    /// Returns the compiler's flags that keep the paths of this machine out of what is built.
    fn remapped_paths(&self) -> String {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
        let remapped = |from: &Path, to| format!("--remap-path-prefix={}={to}", from.display());
        [remapped(self.root(), "/ferrite"), remapped(&home, "/cargo")].join("\u{1f}")
    }

    /// Writes the package `kind` of the files in `built` into `folder`. Returns its path and the end of the line.
    fn assemble(&self, kind: PackageKind, built: &Path, folder: &Path) -> Result<String, String> {
        let commit = ["log", "-1", "--format=%ct"];
        let time = output(Command::new("git").args(commit).current_dir(self.root()))?;
        let script = kind.script();
        let mut command = Command::new(script[0]);
        command.args(&script[1..]).arg(built).arg(folder).current_dir(self.root());
        output(command.env("SOURCE_DATE_EPOCH", time.trim()))
    }
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
