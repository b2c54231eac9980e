//! What each command of the project does.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::gate::Gate;
use crate::programs;
use crate::tidy;
use crate::tree::Tree;

/// The time the whole gate may take.
const GATE_LIMIT: Duration = Duration::from_secs(90 * 60);

/// The time the quick part, one crash run, or the figures may take.
const SHORT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The time a soak may take: it is meant to run for hours.
const SOAK_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The package that holds the end-to-end tests.
const END_TO_END: &str = "ferrite-tests";

/// Words in the names of the tests that crash or kill something.
const CRASHES: [&str; 2] = ["crash", "kill"];

/// What the seeded tests are told through the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// `FERRITE_SEED`: where their randomness starts; their own default without.
    pub seed: Option<u64>,
    /// `FERRITE_ROUNDS`: how often they repeat; their own default without.
    pub rounds: Option<u64>,
}

impl Runs {
    fn set<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for (name, value) in [("FERRITE_SEED", self.seed), ("FERRITE_ROUNDS", self.rounds)] {
            command.envs(value.map(|value| (name, value.to_string())));
        }
        command
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.seed.map_or_else(|| "each test's own seed".into(), |seed| format!("seed {seed}"));
        let rounds = self.rounds.map_or_else(|| "each test's own rounds".into(), |rounds| format!("{rounds} rounds"));
        write!(f, "{seed}, {rounds}")
    }
}

/// How the names of integration tests begin that are wholly such, or made from seeds throughout.
const SEEDED: [&str; 2] = ["crash", "replay"];

/// The project's folder, and how to call cargo in it.
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project this command belongs to.
    pub fn here() -> Self {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Self { root: Path::new(&manifest).parent().unwrap_or(Path::new(".")).to_owned() }
    }

    /// The whole gate, or its quick part.
    pub fn test(&self, quick: bool) -> bool {
        let mut gate = Gate::within(if quick { SHORT_LIMIT } else { GATE_LIMIT });
        let programs = quick || gate.step("programs", programs::ensure);
        self.reading_steps(&mut gate);
        gate.command("unit", &mut self.tests(&["--workspace", "--lib", "--bins"], &[]));
        if !quick {
            let (crash, model) = self.integration_tests();
            self.chosen(&mut gate, "model", &model);
            self.chosen(&mut gate, "crash", &crash);
            gate.command("documentation", &mut self.tests(&["--workspace", "--doc"], &[]));
            self.end_to_end(&mut gate, programs, |tests| tests);
        }
        gate.finish()
    }

    /// Prints what the house rules find.
    pub fn tidy(&self) -> bool {
        match self.tidy_findings() {
            Ok(text) => println!("{text}"),
            Err(what) => {
                println!("{what}");
                return false;
            }
        }
        true
    }

    /// The tests that crash or kill something, from one seed and for so many rounds.
    pub fn crash(&self, runs: &Runs) -> bool {
        println!("{runs}");
        let mut gate = Gate::within(if runs.rounds.is_some() { SOAK_LIMIT } else { SHORT_LIMIT });
        let programs = gate.step("programs", programs::ensure);
        let (seeded, others) = self.integration_tests();
        let mut units = named(&others);
        units.push("--lib");
        gate.command("unit", runs.set(&mut self.tests(&units, &CRASHES)));
        if !seeded.is_empty() {
            gate.command("crash", runs.set(&mut self.tests(&named(&seeded), &[])));
        }
        self.end_to_end(&mut gate, programs, |tests| runs.set(tests.args(CRASHES)));
        gate.finish()
    }

    /// Reruns the quick form of each experiment in `names`; their files go to target/figures.
    pub fn figures(&self, names: &[String]) -> bool {
        let mut gate = Gate::within(SHORT_LIMIT);
        let folder = self.target().join("figures");
        let made = gate.step("folder", || match std::fs::create_dir_all(&folder) {
            Ok(()) => Ok(folder.display().to_string()),
            Err(error) => Err(format!("{}: {error}", folder.display())),
        });
        if let Some(binary) = self.release(&mut gate).filter(|_| made) {
            for name in names {
                gate.command("figure", Command::new(&binary).args(["bench", name, "--quick"]).current_dir(&folder));
            }
        }
        gate.finish()
    }

    fn reading_steps(&self, gate: &mut Gate) {
        gate.step("toolchain", || self.ensure_components());
        gate.command("format", self.cargo().args(["fmt", "--all", "--check"]));
        gate.command("lint", self.cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]));
        gate.step("tidy", || self.tidy_findings());
    }

    fn tidy_findings(&self) -> Result<String, String> {
        let tree = Tree::read(&self.root).map_err(|error| format!("{}: {error}", self.root.display()))?;
        let findings = tidy::check(&tree);
        if findings.is_empty() {
            return Ok(format!("{} files keep the house rules", tree.files.len()));
        }
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Err(format!("{}\n{} findings", lines.join("\n"), findings.len()))
    }

    fn ensure_components(&self) -> Result<String, String> {
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

    fn chosen(&self, gate: &mut Gate, name: &'static str, targets: &[String]) {
        if !targets.is_empty() {
            gate.command(name, &mut self.tests(&named(targets), &[]));
        }
    }

    fn end_to_end(&self, gate: &mut Gate, programs: bool, with: impl Fn(&mut Command) -> &mut Command) {
        if !programs {
            return gate.not_run("end to end", "programs are missing, see the step `programs`");
        }
        match self.release(gate) {
            Some(binary) => {
                let mut tests = self.tests(&["-p", END_TO_END], &[]);
                gate.command("end to end", with(&mut tests).env("FERRITE_BIN", binary));
            }
            None => gate.not_run("end to end", "the release binary was not built"),
        }
    }

    /// Builds the binary that people use, and says where it is.
    fn release(&self, gate: &mut Gate) -> Option<PathBuf> {
        let built = gate.command("release", self.cargo().args(["build", "--release", "-p", "ferrite"]));
        built.then(|| self.target().join("release/ferrite"))
    }

    fn target(&self) -> PathBuf {
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    /// The packages' integration tests, those that are run again from many seeds first: their names say it.
    fn integration_tests(&self) -> (Vec<String>, Vec<String>) {
        let packages =
            entries(&self.root.join("crates")).into_iter().chain(["bench", "fuzz/targets"].map(|p| self.root.join(p)));
        let tests = packages.flat_map(|package| entries(&package.join("tests")));
        let is_test = |path: &PathBuf| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").is_file();
        let mut names: Vec<String> =
            tests.filter(is_test).filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        names.dedup();
        names.into_iter().partition(|name| SEEDED.iter().any(|begin| name.starts_with(begin)))
    }

    fn tests(&self, what: &[&str], filters: &[&str]) -> Command {
        let mut command = self.cargo();
        command.args(["test", "--no-fail-fast"]).args(what).args(["--", "--show-output"]).args(filters);
        command
    }

    fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }
}

/// The choice of integration tests for cargo.
fn named(targets: &[String]) -> Vec<&str> {
    let chosen = targets.iter().flat_map(|name| ["--test", name.as_str()]);
    ["--workspace", "--exclude", END_TO_END].into_iter().chain(chosen).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
