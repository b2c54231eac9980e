//! A file that a simulation writes.

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

/// What is to be at a path. Dropped before its end, it leaves what was there.
pub enum Output {
    /// Standard output.
    Standard(io::Stdout),
    /// A file.
    File(OutputFile),
}

impl Output {
    /// Begins to write it; `-` is standard output.
    pub fn begin(to: &Path) -> Outcome<Self> {
        if to == Path::new("-") {
            return Ok(Self::Standard(io::stdout()));
        }
        Ok(Self::File(OutputFile::begin(to)?))
    }

    /// It is whole, and takes the place of what was there.
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

/// Where the figures go.
pub struct Figures {
    json: bool,
    /// A file instead of standard output.
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

/// Refuses to write figures beside those on standard output, or where something would be lost.
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

/// Refuses to write onto the trace that is read, or onto a trace that has the name of what is not whole yet.
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

/// Whether two paths lead to the same plain file, be it there or still to be made.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let one = place(one);
    one.is_some() && one == place(other)
}

/// The stream that is read at a path, which gives what it gives once: a pipe, by whatever name. A file is none.
pub fn stream(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(opened(path)).ok().filter(|found| !found.is_file())?;
    Some((found.dev(), found.ino()))
}

/// What is read at a path.
fn opened(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// The file, or its folder and its name in there. A stream has none.
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
