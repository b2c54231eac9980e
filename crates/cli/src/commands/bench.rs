//! `ferrite bench`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_bench::{BenchOptions, BenchProgress, BenchReport, CaseFilter, EXPERIMENTS, Error, Experiment, Length};
use ferrite_pool::{OutputFile, Progress};
use rustix::fs::Access;

use super::print;
use crate::bar::Bar;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::stop;

/// Rerun an experiment of the papers on this machine, beside its peers
///
/// Prints a table and a line that compares the figures with the paper, and writes NAME.json, NAME.csv and NAME.svg.
///
/// At full length most experiments take a few minutes. Four take longer on two busy processors. llc takes a quarter of
/// an hour, because its 25 programs run at a twentieth of their speed, and needs 200 MB of --place. ftl takes nine
/// minutes, and 1.1 GiB of --place, which it reserves at the start. multi-ssd simulates fifty caches in ten minutes.
/// guest takes a quarter of an hour and 5 GiB of memory. consolidation takes 8 GiB of memory.
#[derive(Args)]
pub struct Bench {
    /// The experiment
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the experiments
    #[arg(long)]
    list: bool,
    /// Run for about a minute
    #[arg(long)]
    quick: bool,
    /// Write the JSON to FILE instead of NAME.json; without FILE or with `-`, print it instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    json: Option<PathBuf>,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Threads of the cases with many requests in flight [default: twice the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Measure only the cases whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder in memory for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    place: PathBuf,
}

/// The file name that means standard output.
const STDOUT: &str = "-";

/// The worker of experiments with files: see `ferrite_bench::worker`.
#[derive(Args)]
pub struct BenchWorker {
    #[arg(allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

impl BenchWorker {
    /// Runs the worker until its standard input ends.
    pub fn run(self) -> Outcome {
        ferrite_bench::worker::work(&self.arguments).map_err(Into::into)
    }
}

impl Bench {
    /// Runs the experiment, or lists all.
    pub fn run(self) -> Outcome {
        if self.list {
            return print(false, &(), |()| list());
        }
        let name = self.name.as_deref().unwrap_or_default();
        let unknown =
            || Failure::Usage(format!("there is no experiment {name:?}; the experiments are:\n{}", list().trim_end()));
        let experiment = ferrite_bench::find(name).ok_or_else(unknown)?;
        let made = self.make_output()?;
        // On an error, the command writes no file and removes each new folder, unless another program has put files
        // there.
        let none = |_: &Failure| made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
        let measured = self.files(name).iter().try_for_each(|path| ensure_writable(path));
        let report = measured.and_then(|()| self.measure(experiment)).inspect_err(none)?;
        // The report took minutes to measure, so it is printed even if it cannot be written.
        let written = self.write(&report);
        let show = |report: &BenchReport| format!("{}\n{}\n", report.table(), report.verdict);
        and_then_cleared(written, print(self.prints_json(), &report, show))
    }

    /// Makes the output folder before anything is measured. Returns the folders that are new, the innermost first.
    fn make_output(&self) -> Outcome<Vec<&Path>> {
        let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = self.output.ancestors().take_while(is_new).collect();
        fs::create_dir_all(&self.output).map_err(|error| format!("making {}: {error}", self.output.display()))?;
        Ok(made)
    }

    fn measure(&self, experiment: &Experiment) -> Outcome<BenchReport> {
        stop::watch()?;
        let twice = 2 * std::thread::available_parallelism().map_or(1, Into::into);
        let options = BenchOptions {
            length: if self.quick { Length::Quick } else { Length::Full },
            place: self.place.clone(),
            ferrite: ferrite_bench::ferrite_program(),
            only: CaseFilter::containing(self.only.as_deref()),
            threads_many: self.threads.map_or(twice, |threads| threads.into()),
        };
        let bar = Bar::new();
        let mut show = |progress: &BenchProgress<'_>| {
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

    /// Returns the paths of the JSON, the CSV and the SVG.
    fn files(&self, name: &str) -> [PathBuf; 3] {
        let [json, csv, svg] = ["json", "csv", "svg"].map(|ending| self.output.join(format!("{name}.{ending}")));
        [self.json.clone().filter(|_| !self.prints_json()).unwrap_or(json), csv, svg]
    }

    /// Writes every file, even if another one fails.
    fn write(&self, report: &BenchReport) -> Outcome {
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
    let access = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(rustix::io::Errno::ISDIR),
        Ok(_) => rustix::fs::access(path, Access::WRITE_OK),
        Err(_) => rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK),
    };
    let refused = |error| format!("writing {}: {error}: --output must name a folder for files", path.display());
    Ok(access.map_err(refused)?)
}

fn write(path: &Path, text: &str) -> Outcome {
    let mut output = OutputFile::begin(path)?;
    output.write_all(text.as_bytes()).map_err(|error| format!("writing {}: {error}", path.display()))?;
    Ok(output.finish()?)
}

#[cfg(test)]
mod tests;
