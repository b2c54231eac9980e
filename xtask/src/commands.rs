//! The commands of the project that run tests and experiments.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::arguments::Runs;
use crate::gate::{GateRun, TimeAllowance};
use crate::kernel;
use crate::package;
use crate::programs;
use crate::project::Project;

/// The time that the whole gate may take, with the build.
const GATE: TimeAllowance = TimeAllowance { total: minutes(90), silence: minutes(15) };

/// The time that the quick part or the figures may take.
const SHORT: TimeAllowance = TimeAllowance { total: minutes(30), silence: minutes(15) };

/// The time that a soak may take, and a single test of it.
const SOAK: TimeAllowance = TimeAllowance { total: minutes(7 * 24 * 60), silence: minutes(7 * 24 * 60) };

/// The package that holds the end-to-end tests.
const END_TO_END: &str = "ferrite-tests";

/// The variable that names the file for the counts of crash explorations.
const EXPLORATIONS: &str = "FERRITE_EXPLORATIONS";

/// The highest number of rounds of the machine with the Debian package. A round takes minutes.
const MACHINE_ROUNDS_MAX: u64 = 3;

/// Words in the names of the tests that a soak repeats: they crash or kill something, or take minutes.
const SOAKED: [&str; 3] = ["crash", "kill", "own::"];

/// Words in the names of the tests that the quick part leaves out.
const SLOW: [&str; 3] = ["crash", "kill", "canary"];

impl Project {
    /// Runs the whole gate, or its quick part. Returns true if every step passed.
    pub fn test(&self, quick: bool) -> bool {
        let mut gate = GateRun::within(if quick { SHORT } else { GATE });
        let programs = quick || gate.step("programs", programs::ensure);
        if !quick {
            gate.step("guest kernel", || kernel::ensure(&self.target()));
            let script = self.root().join("bindings/sqlite/tests/testfixture/build.sh");
            let folder = self.target().join("programs/sqlite");
            gate.step("SQLite's own tests", || programs::build_testfixture(&script, &folder));
        }
        self.reading_steps(&mut gate);
        let _ = std::fs::remove_file(self.explored());
        let mut units = self.tests(&["--workspace", "--lib", "--bins"], &[]);
        if quick {
            units.args(SLOW.iter().flat_map(|word| ["--skip", word]));
        }
        gate.command("unit", units.env(EXPLORATIONS, self.explored()));
        if !quick {
            let (crash, model) = self.integration_tests();
            self.chosen(&mut gate, "model", &model);
            self.chosen(&mut gate, "crash", &crash);
            gate.step("explorations", || self.explorations());
            gate.command("documentation", &mut self.tests(&["--workspace", "--doc"], &[]));
            self.end_to_end(&mut gate, programs, |tests| tests);
            gate.step("symbols", || self.symbols());
            self.python(&mut gate, programs);
        }
        gate.finish()
    }

    /// Installs the Python package as a user does, in an environment of its own, and runs its tests.
    fn python(&self, gate: &mut GateRun, programs: bool) {
        if !programs {
            return gate.not_run("python", "programs are missing, see the step `programs`");
        }
        let environment = self.target().join("python");
        let pip = environment.join("bin/pip");
        let steps = [
            (Command::new("python3"), vec!["-m", "venv"]),
            (Command::new(&pip), vec!["install", "--quiet", "pytest", "hypothesis"]),
            (Command::new(&pip), vec!["install", "--quiet", "--force-reinstall", "--no-deps", "./bindings/python"]),
            (Command::new(environment.join("bin/python")), vec!["-m", "pytest", "--quiet", "bindings/python/tests"]),
        ];
        for (at, (mut command, arguments)) in steps.into_iter().enumerate() {
            command.args(arguments).current_dir(self.root()).env("FERRITE_BIN", self.target().join("release/ferrite"));
            if at == 0 {
                command.arg(&environment);
            }
            if !gate.command("python", &mut command) {
                return;
            }
        }
    }

    /// Runs the tests that crash or kill something, as often as `runs` says, and those that take too long for the gate.
    pub fn soak(&self, runs: &Runs) -> bool {
        println!("{runs}");
        let mut gate = GateRun::within(SOAK);
        let programs = gate.step("programs", programs::ensure);
        let (seeded, others) = self.integration_tests();
        let mut units = named(&others);
        units.push("--lib");
        gate.command("unit", runs.set(&mut self.tests(&units, &SOAKED)));
        if !seeded.is_empty() {
            gate.command("crash", runs.set(&mut self.tests(&named(&seeded), &[])));
        }
        self.end_to_end(&mut gate, programs, |tests| runs.set(tests.args(SOAKED)));
        if gate.step("packaging programs", programs::ensure_packaging) {
            gate.step("packages", || self.try_packages());
        } else {
            gate.not_run("packages", "programs are missing, see the step `packaging programs`");
        }
        self.machine(&mut gate, runs);
        gate.finish()
    }

    /// Boots a machine with the Debian package of the step `packages`, and ends it in order and by power failures.
    fn machine(&self, gate: &mut GateRun, runs: &Runs) {
        if let Some(program) = programs::missing_for_machine() {
            return gate.skip("machine", format!("{program} is not installed"));
        }
        if !gate.step("guest kernel", || kernel::ensure(&self.target())) {
            return gate.not_run("machine", "it has no kernel, see the step `guest kernel`");
        }
        let found = kernel::package_in(&self.target().join("package")).zip(package::debian_suite().ok());
        let Some((package, suite)) = found else {
            return gate.not_run("machine", "there is no Debian package, see the step `packages`");
        };
        let mut command = Command::new("sh");
        command.current_dir(self.root()).arg("packaging/try-machine.sh").arg(package).arg(self.target().join("guest"));
        let (rounds, seed) = (runs.rounds.min(MACHINE_ROUNDS_MAX), runs.seed);
        gate.command("machine", command.args([rounds.to_string(), seed.to_string(), suite]));
    }

    /// Runs the quick form of each experiment in `names`, which write their files into target/figures.
    pub fn figures(&self, names: &[String]) -> bool {
        let mut gate = GateRun::within(SHORT);
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

    fn reading_steps(&self, gate: &mut GateRun) {
        gate.step("toolchain", || self.ensure_components());
        gate.command("format", self.cargo().args(["fmt", "--all", "--check"]));
        gate.command("lint", self.cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]));
        gate.step("tidy", || self.tidy());
    }

    fn chosen(&self, gate: &mut GateRun, name: &'static str, targets: &[String]) {
        if !targets.is_empty() {
            gate.command(name, self.tests(&named(targets), &[]).env(EXPLORATIONS, self.explored()));
        }
    }

    fn end_to_end(&self, gate: &mut GateRun, programs: bool, with: impl Fn(&mut Command) -> &mut Command) {
        if !programs {
            return gate.not_run("end to end", "programs are missing, see the step `programs`");
        }
        match self.release(gate) {
            Some(binary) => {
                let suites = self.target().join("programs");
                gate.step("test suites", || programs::build(|| self.cargo(), &suites));
                let path = std::env::var("PATH").unwrap_or_default();
                let mut tests = self.tests(&["-p", END_TO_END], &[]);
                tests.env("FERRITE_BIN", binary).env("PATH", format!("{}:{path}", suites.join("bin").display()));
                gate.command("end to end", with(&mut tests));
            }
            None => gate.not_run("end to end", "the release binary was not built"),
        }
    }

    /// Builds the release binary and the library that SQLite loads. Returns the path of the binary.
    fn release(&self, gate: &mut GateRun) -> Option<PathBuf> {
        let built =
            gate.command("release", self.cargo().args(["build", "--release", "-p", "ferrite", "-p", "ferrite-sqlite"]));
        built.then(|| self.target().join("release/ferrite"))
    }
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

/// Returns cargo's arguments that choose these integration tests.
fn named(targets: &[String]) -> Vec<&str> {
    let chosen = targets.iter().flat_map(|name| ["--test", name.as_str()]);
    ["--workspace", "--exclude", END_TO_END].into_iter().chain(chosen).collect()
}
