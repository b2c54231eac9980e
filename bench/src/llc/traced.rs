//! The speed of a program's accesses through the first level: recorded live, and read from a file.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use ferrite_sim::TraceInput;
use ferrite_sim::cache::{CacheModel, CacheShape, PolicyChoice, Study, StudyEnd, StudyProgress};
use ferrite_sim::trace::{self, EventSource, FirstLevel, FirstLevelFilter, PackedWriter, Packing, TraceOptions};

use super::programs::ProgramEntry;
use super::{FIRST, SIZES, finish, model, own_size, start};
use crate::options::Length;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};
use crate::{Error, Result};

/// The beginning of the cases.
const CASE: &str = "accesses through the first level and LRU, ";
/// The pattern of the cases.
pub const ALL_CASES: &str = "accesses through the first level and LRU, *";
/// The subject that records the program.
pub const LIVE: &str = "live";
/// The subject that reads the file.
pub const FILE: &str = "from a file";

/// A first level that stops only accesses to the line accessed last.
const ONE_LINE: FirstLevel = FirstLevel { shape: CacheShape { bytes: 64, ways: 1, line_bytes: 64 }, ..FIRST };

/// Measures both in turn, with the time of starting the program or opening the file at `path`.
pub fn measure(session: &mut BenchSession<'_>, entry: &ProgramEntry, inputs: &Path, path: &Path) -> Result<()> {
    let case = format!("{CASE}{}", entry.name);
    session.announce(&format!("{case}: a file of them"))?;
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
    let subjects = vec![BenchSubject::new(LIVE, live), BenchSubject::new(FILE, from_file)];
    session.race(&Race { case: &case, unit: "M/s", rounds: count, slice_ms: 0, beside: LIVE }, subjects)?;
    std::fs::remove_file(path).map_err(Error::io(format!("removing {}", path.display())))
}

/// Million accesses, all of them simulated under LRU.
fn consume(entry: &ProgramEntry, source: Box<dyn EventSource>) -> Result<f64> {
    let mut study = Study::new(CacheModel { choices: vec![PolicyChoice::Lru], ..model(SIZES[own_size(entry)]) })?;
    let mut accesses = 0;
    let mut watch = |seen: StudyProgress| {
        accesses = seen.accesses;
        true
    };
    study.consume(source, |_| Ok(()), &mut watch)?;
    Ok(accesses as f64 / 1e6)
}

fn write(entry: &ProgramEntry, inputs: &Path, path: &Path) -> Result<()> {
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
