//! How fast a program's accesses go through the first level: as they are recorded, and out of a file.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use ferrite_sim::TraceInput;
use ferrite_sim::cache::{CacheModel, CacheShape, PolicyChoice, Study, StudyEnd, StudyProgress};
use ferrite_sim::trace::{self, EventSource, FirstLevel, FirstLevelFilter, PackedWriter, Packing, TraceOptions};

use super::inputs::Inputs;
use super::programs::Entry;
use super::{FIRST, SIZES, finish, model, own_size, start};
use crate::options::Length;
use crate::report::rows;
use crate::rounds::{self, Subject};
use crate::session::Session;
use crate::{Error, Result};

/// What the report calls it.
pub const CASE: &str = "accesses through the first level and LRU, ";
/// Its subjects.
pub const LIVE: &str = "live";
pub const FILE: &str = "from a file";
const UNIT: &str = "M/s";

/// Lets through all but accesses to the line that was accessed last.
const ONE_LINE: FirstLevel = FirstLevel { shape: CacheShape { bytes: 64, ways: 1, line_bytes: 64 }, ..FIRST };

/// Takes both in turn, with the time that the program takes to start or the file to open; the file is at `path`.
///
/// # Errors
/// When the program cannot be recorded or the file not be written, or somebody interrupts it.
pub fn measure(session: &mut Session<'_>, entry: &Entry, inputs: &Inputs, path: &Path) -> Result<()> {
    let case = format!("{CASE}{}", entry.name);
    session.tell(&format!("{case}: a file of them"))?;
    write(entry, inputs, path)?;
    let live = |_: u64| {
        let began = Instant::now();
        let recording = start(entry, inputs, FIRST)?;
        let running = recording.program();
        let accesses = consume(entry, Box::new(recording))?;
        finish(entry, &running, StudyEnd::Whole)?;
        Ok(accesses / began.elapsed().as_secs_f64())
    };
    let from_file = |_: u64| {
        let began = Instant::now();
        let reading = TraceOptions { form: None, line_bits: FIRST.shape.line_bytes.ilog2(), cores: 1 };
        let filter = FirstLevelFilter::new(trace::open(TraceInput::open(path)?, reading)?, FIRST)?;
        Ok(consume(entry, Box::new(filter))? / began.elapsed().as_secs_f64())
    };
    let count = if session.options.length == Length::Full { 5 } else { 3 };
    let mut subjects = [Subject::new(LIVE, live), Subject::new(FILE, from_file)];
    let series = rounds::run(&mut subjects, count, &mut || session.tell(&case))?;
    session.report.rows.extend(rows(&case, UNIT, &series, &series[0]));
    std::fs::remove_file(path).map_err(Error::io(format!("removing {}", path.display())))
}

/// Million accesses, all of them simulated under LRU.
fn consume(entry: &Entry, source: Box<dyn EventSource>) -> Result<f64> {
    let mut study = Study::new(CacheModel { choices: vec![PolicyChoice::Lru], ..model(SIZES[own_size(entry)]) })?;
    let mut accesses = 0;
    let mut watch = |seen: StudyProgress| {
        accesses = seen.accesses;
        true
    };
    study.consume(source, |_| Ok(()), &mut watch)?;
    Ok(accesses as f64 / 1e6)
}

fn write(entry: &Entry, inputs: &Inputs, path: &Path) -> Result<()> {
    let to = File::create(path).map_err(Error::io(format!("making {}", path.display())))?;
    let mut writer = PackedWriter::new(to, &path.display().to_string(), Packing::Words)?;
    let mut recording = start(entry, inputs, ONE_LINE)?;
    let running = recording.program();
    let (mut events, mut more) = (Vec::new(), true);
    while more {
        more = recording.read(&mut events)?;
        events.drain(..).try_for_each(|event| writer.event(event))?;
    }
    finish(entry, &running, StudyEnd::Whole)?;
    writer.finish()?;
    Ok(())
}
