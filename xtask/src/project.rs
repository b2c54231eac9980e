//! The project's folder, its integration tests, and how to call cargo in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How the names of integration tests begin that crash or are seeded throughout.
const SEEDED: [&str; 2] = ["crash", "replay"];

/// The project's folder, and how to call cargo in it.
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// Returns the project that this command belongs to.
    pub fn here() -> Self {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Self { root: Path::new(&manifest).parent().unwrap_or(Path::new(".")).to_owned() }
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder into which cargo builds.
    pub fn target(&self) -> PathBuf {
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    /// Returns the names of the packages' integration tests: those that a soak repeats wholly, and the others.
    pub fn integration_tests(&self) -> (Vec<String>, Vec<String>) {
        let packages = entries(&self.root.join("crates"))
            .into_iter()
            .chain(["bench", "bindings/c", "bindings/sqlite", "fuzz/targets"].map(|p| self.root.join(p)));
        let tests = packages.flat_map(|package| entries(&package.join("tests")));
        let is_test = |path: &PathBuf| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").is_file();
        let mut names: Vec<String> =
            tests.filter(is_test).filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        names.dedup();
        names.into_iter().partition(|name| SEEDED.iter().any(|begin| name.starts_with(begin)))
    }

    /// Adds rustfmt and clippy to the toolchain if they are missing.
    ///
    /// # Errors
    /// One line that says how to add them, if that fails.
    pub fn ensure_components(&self) -> Result<String, String> {
        let has = |name: &str| {
            let output = self.cargo().args([name, "--version"]).output();
            output.is_ok_and(|output| output.status.success())
        };
        let missing: Vec<&str> = [("fmt", "rustfmt"), ("clippy", "clippy")]
            .iter()
            .filter(|(name, _)| !has(name))
            .map(|(_, part)| *part)
            .collect();
        if missing.is_empty() {
            return Ok("rustfmt and clippy are there".into());
        }
        let added = Command::new("rustup").args(["component", "add"]).args(&missing).current_dir(&self.root).status();
        if added.is_ok_and(|status| status.success()) {
            return Ok(format!("added {}", missing.join(" ")));
        }
        Err(format!(
            "this toolchain lacks {0}: rustup component add {0} (or the package of that name)",
            missing.join(" ")
        ))
    }

    /// Returns the command that runs the tests of `what` whose names contain one of `filters`. Tests send SIGINT, so the
    /// command restores its default action, which a shell's background jobs ignore.
    pub fn tests(&self, what: &[&str], filters: &[&str]) -> Command {
        let cargo = self.cargo();
        let mut command = Command::new("env");
        command.current_dir(&self.root).arg("--default-signal=INT").arg(cargo.get_program());
        command.args(["test", "--no-fail-fast"]).args(what).args(["--", "--show-output"]).args(filters);
        command
    }

    /// Returns the command that runs cargo in the project's folder.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests;
