//! The sample traces of `testdata/traces`: each has the format that its name says, and no change of its bytes makes a
//! reader panic. `FERRITE_SEED` chooses other changes.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ferrite_sim::block_trace::{BlockFormat, BlockTraceReader, ReaderOptions};
use ferrite_sim::trace::{self, AccessFormat, EventSource, FirstLevel, FirstLevelFilter, TraceOptions};
use ferrite_sim::{Error, TraceInput};

const OPTIONS: ReaderOptions = ReaderOptions { page_bytes: 4096, format: None, device: None };
const READING: TraceOptions = TraceOptions { form: None, line_bits: 6, cores: 1 };

/// The kind of a sample, by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Accesses(AccessFormat),
    Blocks(BlockFormat),
}

/// Returns all samples, by path.
fn samples() -> Vec<(PathBuf, Kind)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut all = Vec::new();
    for found in std::fs::read_dir(folder).expect("the samples are there") {
        let path = found.expect("it can be listed").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let kind = match name.split('.').nth(1).expect("a form") {
            "c" | "md" => continue,
            word => word.parse().map(Kind::Accesses).or_else(|_| word.parse().map(Kind::Blocks)).expect(&name),
        };
        all.push((path, kind));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Returns the number of accesses or requests, and the format in which the trace was read.
fn read(bytes: Vec<u8>, kind: Kind, is_named: bool) -> Result<(usize, Kind), Error> {
    let mut input = TraceInput::over(Path::new("sample"), Cursor::new(bytes))?;
    match kind {
        Kind::Accesses(form) => {
            let reading = TraceOptions { form: is_named.then_some(form), ..READING };
            let form = AccessFormat::of(&mut input, reading)?;
            let shape = ferrite_sim::cache::CacheShape { bytes: 1024, ways: 2, line_bytes: 64 };
            let reader = trace::open(input, TraceOptions { form: Some(form), ..reading })?;
            let mut filter = FirstLevelFilter::new(reader, FirstLevel { shape, cores: 1, instructions: true })?;
            let mut events = Vec::new();
            while filter.read(&mut events)? {}
            Ok((filter.accesses() as usize, Kind::Accesses(form)))
        }
        Kind::Blocks(format) => {
            let mut reader =
                BlockTraceReader::new(input, ReaderOptions { format: is_named.then_some(format), ..OPTIONS })?;
            let mut requests = 0;
            while reader.request()?.is_some() {
                requests += 1;
            }
            Ok((requests, Kind::Blocks(reader.format())))
        }
    }
}

#[test]
fn every_sample_is_of_the_form_that_its_name_says() {
    let samples = samples();
    for (path, kind) in &samples {
        let (count, found) = read(std::fs::read(path).expect("it can be read"), *kind, false).expect("a trace");
        assert!(found == *kind && count > 1, "{}: {count} of {found:?}", path.display());
    }
    let has = |kind| samples.iter().any(|(_, found)| *found == kind);
    assert!(AccessFormat::ALL.into_iter().all(|(_, form)| has(Kind::Accesses(form))), "a sample of each form");
    assert!(BlockFormat::ALL.into_iter().all(|(_, format)| has(Kind::Blocks(format))), "a sample of each format");
}

/// The SplitMix64 generator.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Changes some bytes, cuts, doubles or drops a part, or writes a number into text.
fn change(bytes: &mut Vec<u8>, state: &mut u64) {
    for _ in 0..1 + next(state) % 4 {
        let at = (next(state) % (bytes.len() as u64 + 1)) as usize;
        let end = (at + 1 + (next(state) % 40) as usize).min(bytes.len());
        match next(state) % 6 {
            0 => bytes.truncate(at),
            1 => bytes[at..end].fill(0xff),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
            4 => {
                let words: [&[u8]; 6] = [b"18446744073709551615", b"-1", b" ", b",", b"e9999", b"\n"];
                let word = words[(next(state) % 6) as usize];
                drop(bytes.splice(at..at, word.iter().copied()));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (next(state) % 8);
                }
            }
        }
    }
}

/// Returns the content of a trace up to 4 KiB: small changes reach more of a small trace.
fn unpacked(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let input = TraceInput::open(path).expect("it opens");
    std::io::Read::read_to_end(&mut std::io::Read::take(input.bytes, 4096), &mut bytes).expect("it is whole");
    bytes
}

#[test]
fn no_change_of_a_trace_makes_its_reader_panic() {
    let seed = std::env::var("FERRITE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FERRITE_SEED={seed}");
    let mut state = seed;
    for (path, kind) in samples() {
        for original in [std::fs::read(&path).expect("it can be read"), unpacked(&path)] {
            for is_named in [false, true] {
                for _ in 0..40 {
                    let mut bytes = original.clone();
                    change(&mut bytes, &mut state);
                    let ended = catch_unwind(AssertUnwindSafe(|| read(bytes, kind, is_named)));
                    let Ok(ended) = ended else { panic!("FERRITE_SEED={seed}: {} makes a panic", path.display()) };
                    let Err(error) = ended else { continue };
                    assert!(
                        !matches!(error, Error::Reader),
                        "FERRITE_SEED={seed}: a thread panicked: {}",
                        path.display()
                    );
                    assert!(error.to_string().contains("sample"), "FERRITE_SEED={seed}: no place is said: {error}");
                }
            }
        }
    }
}
