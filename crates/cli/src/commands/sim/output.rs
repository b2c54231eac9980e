//! The output files of simulations.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferrite_bench as bench;
use ferrite_pool::OutputFile;
use serde::Serialize;

use crate::commands::{print, text};
use crate::outcome::{Failure, Outcome};

/// A future output. If it is dropped before its end, the old file stays.
pub enum Output {
    /// Standard output.
    Standard(io::Stdout),
    /// An output file.
    File(OutputFile),
}

impl Output {
    /// Begins an output at `to`; `-` means standard output.
    pub fn begin(to: &Path) -> Outcome<Self> {
        if to == Path::new("-") {
            return Ok(Self::Standard(io::stdout()));
        }
        Ok(Self::File(OutputFile::begin(to)?))
    }

    /// Ends the output, which then replaces the old file.
    pub fn finish(self) -> Outcome {
        match self {
            Self::Standard(mut output) => Ok(output.flush()?),
            Self::File(file) => Ok(file.finish()?),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(output) => output.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(output) => output.flush(),
            Self::File(file) => file.flush(),
        }
    }
}

/// The destination of the figures.
pub struct Figures {
    json: bool,
    /// The file to write instead of standard output.
    to: Option<Output>,
}

impl Figures {
    /// Opens the file at `path`, if a path is given.
    pub fn begin(json: bool, path: Option<&Path>) -> Outcome<Self> {
        Ok(Self { json, to: path.map(Output::begin).transpose()? })
    }

    /// Writes `report` as JSON, or by `show` for people.
    pub fn print<T: Serialize>(self, report: &T, show: impl FnOnce(&T) -> String) -> Outcome {
        let Some(mut to) = self.to else { return print(self.json, report, show) };
        to.write_all(text(self.json, report, show)?.as_bytes())
            .map_err(|error| format!("writing the figures: {error}"))?;
        to.finish()
    }
}

/// Draws figures into a file.
pub fn draw(experiment: &'static str, rows: Vec<bench::ReportRow>, charts: Vec<bench::Chart>, path: &Path) -> Outcome {
    let (machine, paper, verdict) = (bench::MachineState::here(), Vec::new(), String::new());
    let drawn = bench::BenchReport { experiment, machine, rows, paper, verdict, charts };
    let mut to = Output::begin(path)?;
    to.write_all(drawn.svg()?.as_bytes()).map_err(|error| format!("writing {}: {error}", path.display()))?;
    to.finish()
}

/// Refuses to write figures to standard output twice, and to overwrite a file that would be lost.
pub fn may_be_written(path: &Path, traces: &[PathBuf]) -> Outcome {
    if path == Path::new("-") {
        return Err(Failure::Usage("standard output is for the figures: name a file instead of -".into()));
    }
    if path.is_dir() {
        return Err(Failure::Usage(format!("{} is a folder: name a file", path.display())));
    }
    traces.iter().try_for_each(|trace| apart(trace, path))?;
    Ok(ferrite_pool::ensure_no_pool(path)?)
}

/// Refuses to overwrite the input trace, or a trace with the name of the temporary file.
pub fn apart(from: &Path, to: &Path) -> Outcome {
    if to == Path::new("-") {
        return Ok(());
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    if is_same(from, to) {
        return Err(Failure::Usage(format!("{} is the trace itself: write to another file", to.display())));
    }
    if is_same(from, &PathBuf::from(partial)) {
        let what = format!("{} is written by way of {}, the trace", to.display(), from.display());
        return Err(Failure::Usage(format!("{what}: write to another file")));
    }
    Ok(())
}

/// Returns true if two paths lead to the same regular file, which may exist or not.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let one = place(one);
    one.is_some() && one == place(other)
}

/// Returns the identity of the stream at a path: a pipe, by any name, which can be read only once. Returns `None` for a
/// file.
pub fn stream(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(opened(path)).ok().filter(|found| !found.is_file())?;
    Some((found.dev(), found.ino()))
}

/// Returns the path that a reader of `path` opens.
fn opened(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// Returns the identity of a file, or of its folder with the file's name if the file is missing. Returns `None` for a
/// stream.
fn place(path: &Path) -> Option<(u64, u64, Option<OsString>)> {
    let number = |found: &fs::Metadata| (found.dev(), found.ino());
    if let Ok(found) = fs::metadata(opened(path)) {
        let (device, file) = number(&found);
        return found.is_file().then_some((device, file, None));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (device, folder) = number(&fs::metadata(folder).ok()?);
    Some((device, folder, Some(path.file_name()?.to_owned())))
}
