//! `ferrite bench`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_bench::{EXPERIMENTS, Error, Experiment, Length, Only, Options, Report};
use ferrite_pool::{OutputFile, Progress};
use rustix::fs::Access;

use super::print;
use crate::bar::Bar;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::stop;

/// Rerun an experiment of the papers here, with peers beside it in the same run
///
/// Prints a table and a line that compares it with the paper, and writes NAME.json, NAME.csv and NAME.svg.
///
/// At full length most take a few minutes. Longer ones, on two processors that others keep busy: llc a quarter of an hour,
/// for its 25 programs run at a twentieth of their speed (it keeps the trace of one of them for a moment: 200 MB are in
/// --place); ftl nine minutes, and 1.1 GiB of --place, which is reserved at the start and all that it takes.
#[derive(Args)]
pub struct Bench {
    /// The experiment
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Name the experiments
    #[arg(long)]
    list: bool,
    /// End in about a minute
    #[arg(long)]
    quick: bool,
    /// Write the JSON there instead of to NAME.json; without FILE or with `-` print it in place of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    json: Option<PathBuf>,
    /// Folder for what is written
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Threads of the cases with many requests at once [default: twice the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Measure only the cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder in memory for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    place: PathBuf,
}

/// In the place of a file: standard output.
const STDOUT: &str = "-";

/// See `ferrite_bench::worker`.
#[derive(Args)]
pub struct Worker {
    #[arg(allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

impl Worker {
    /// Does it.
    pub fn run(self) -> Outcome {
        ferrite_bench::worker::work(&self.arguments).map_err(Into::into)
    }
}

impl Bench {
    /// Does it.
    pub fn run(self) -> Outcome {
        if self.list {
            return print(false, &(), |()| list());
        }
        let name = self.name.as_deref().unwrap_or_default();
        let unknown = || Failure::Usage(format!("there is no experiment {name:?}; there are:\n{}", list().trim_end()));
        let experiment = ferrite_bench::find(name).ok_or_else(unknown)?;
        let made = self.make_output()?;
        // Nothing is written then. What somebody has put there meanwhile stays, and its folder.
        let none = |_: &Failure| made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
        let measured = self.files(name).iter().try_for_each(|path| ensure_writable(path));
        let report = measured.and_then(|()| self.measure(experiment)).inspect_err(none)?;
        // What took minutes to measure is told also where it cannot be written after all.
        let written = self.write(&report);
        let show = |report: &Report| format!("{}\n{}\n", report.table(), report.verdict);
        and_then_cleared(written, print(self.prints_json(), &report, show))
    }

    /// Makes the folder for what is written, before anything is measured; the folders that were not there, the innermost
    /// first.
    fn make_output(&self) -> Outcome<Vec<&Path>> {
        let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = self.output.ancestors().take_while(is_new).collect();
        fs::create_dir_all(&self.output).map_err(|error| format!("making {}: {error}", self.output.display()))?;
        Ok(made)
    }

    fn measure(&self, experiment: &Experiment) -> Outcome<Report> {
        stop::watch()?;
        let twice = 2 * std::thread::available_parallelism().map_or(1, Into::into);
        let options = Options {
            length: if self.quick { Length::Quick } else { Length::Full },
            place: self.place.clone(),
            ferrite: Some(std::env::current_exe()?),
            only: Only::containing(self.only.as_deref()),
            threads_many: self.threads.map_or(twice, |threads| threads.into()),
        };
        let bar = Bar::new();
        let mut show = |progress: &ferrite_bench::Progress<'_>| {
            bar.show(&Progress { what: progress.what.into(), done: progress.done, total: progress.total })
        };
        experiment.run(&options, &mut show).map_err(|error| match error {
            Error::NoCase { .. } => Failure::Usage(error.to_string()),
            other => other.into(),
        })
    }

    fn prints_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STDOUT))
    }

    /// The files that are written: JSON, CSV and SVG.
    fn files(&self, name: &str) -> [PathBuf; 3] {
        let [json, csv, svg] = ["json", "csv", "svg"].map(|ending| self.output.join(format!("{name}.{ending}")));
        [self.json.clone().filter(|_| !self.prints_json()).unwrap_or(json), csv, svg]
    }

    /// Each of them, whatever becomes of the others.
    fn write(&self, report: &Report) -> Outcome {
        let [json, csv, svg] = self.files(report.experiment);
        let json = report.json().map_err(Failure::from).and_then(|text| write(&json, &text));
        let drawn = report.svg().map_err(Failure::from).and_then(|text| write(&svg, &text));
        and_then_cleared(json, and_then_cleared(write(&csv, &report.csv()), drawn))
    }
}

fn list() -> String {
    EXPERIMENTS.iter().map(|experiment| format!("{:12} {}\n", experiment.name, experiment.about)).collect()
}

/// Refuses a file that cannot be made or written, without making it.
fn ensure_writable(path: &Path) -> Outcome {
    ferrite_pool::ensure_no_pool(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(rustix::io::Errno::ISDIR),
        Ok(_) => rustix::fs::access(path, Access::WRITE_OK),
        Err(_) => rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK),
    };
    let refused = |error| format!("writing {}: {error}: --output names a folder for what is written", path.display());
    Ok(found.map_err(refused)?)
}

fn write(path: &Path, text: &str) -> Outcome {
    let mut output = OutputFile::begin(path)?;
    output.write_all(text.as_bytes()).map_err(|error| format!("writing {}: {error}", path.display()))?;
    Ok(output.finish()?)
}
