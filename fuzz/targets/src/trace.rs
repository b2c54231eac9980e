//! Traces of memory accesses: each format by itself, and the format detected by content, in any compression.

use std::io::Cursor;
use std::path::Path;

use ferrite_sim::cache::{CacheShape, PolicyDefaults, Study};
use ferrite_sim::trace::{self, AccessFormat, EventSource, FirstLevel, FirstLevelFilter, Packing, TraceOptions};
use ferrite_sim::{Error, TraceInput};

const PATH: &str = "fuzz";

/// The most accesses that are read: compressed data may be much longer than its bytes.
const ACCESSES: usize = 1 << 16;

/// Reads a trace in `form`, or in the detected format.
pub fn target(data: &[u8], form: Option<AccessFormat>) {
    read(data, TraceOptions { form, line_bits: 6, cores: 1 + u16::from(data.len().is_multiple_of(2)) });
}

fn read(data: &[u8], reading: TraceOptions) {
    let input = TraceInput::over(Path::new(PATH), Cursor::new(data.to_vec()));
    let Ok(reader) = input.and_then(|input| trace::open(input, reading)).inspect_err(is_placed) else { return };
    let shape = CacheShape { bytes: 4096, ways: 2, line_bytes: 64 };
    let first = FirstLevel { shape, cores: reading.cores, instructions: true };
    let mut filter = FirstLevelFilter::new(reader, first).expect("the shape is sound");
    let mut events = Vec::new();
    while events.len() < ACCESSES && filter.read(&mut events).inspect_err(is_placed).unwrap_or(false) {}
    simulate(&events);
}

/// Checks that an error names its place.
fn is_placed(error: &Error) {
    assert!(error.to_string().contains(PATH), "{error}");
}

fn simulate(events: &[ferrite_sim::cache::CacheEvent]) {
    let model = ferrite_sim::cache::CacheModel {
        llc: CacheShape { bytes: 8192, ways: 16, line_bytes: 64 },
        choices: PolicyDefaults::of(16).usual(),
        fetch_on_write_miss: false,
        wear: ferrite_sim::cache::wear::WearModel::default(),
        threads: 1,
    };
    let mut study = Study::new(model).expect("the model is sound");
    study.feed(events);
    let report = study.finish(PATH);
    for one in &report.policies {
        assert_eq!(one.hits + one.misses(), events.len() as u64, "an event was lost");
        assert!(one.writebacks >= report.bound.writebacks, "below the bound");
    }
}

/// Returns traces in `form`, or in all formats, also compressed.
pub fn seeds(form: Option<AccessFormat>) -> Vec<Vec<u8>> {
    let Some(form) = form else {
        let every = AccessFormat::ALL.into_iter().flat_map(|(_, form)| seeds(Some(form)));
        let packed = [Packing::Words, Packing::Signatures].map(packed);
        return every.chain(packed).chain([zipped(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03")]).collect();
    };
    let texts: &[&str] = match form {
        AccessFormat::Lackey => &[
            "==1== Lackey\nI  04001000,3\n L 1ffeff,8\n S 0421c7cc,4\n M 0421c7d0,2\n",
            " S 7ffffffffff8,8\n\n==1== \n M 10003e,4\n",
        ],
        AccessFormat::Din => &["2 408ed4\n0 10019d94\n1 10019d88\n", "r 0x1000 more\nw 1040\ni 1080\n4 0\n"],
        AccessFormat::Ramulator => &["13 20734016\n1 20846400 20734080\n", "70 0x10000\n0 65536 131072\n"],
        AccessFormat::Drmemtrace => &[
            "1 0: 326 <marker: version 7>\n2 1: 326 read 8 byte(s) @ 0x7fff1355c6c8 by PC 0x7f86ef03d107\n",
            "Output format:\n------\n5 1: 7 ifetch 3 byte(s) @ 0x40d107 non-branch\n7 2: 8 write 8 byte(s) @ 0x7fff1355c6c0 by PC 0x40d10a\nView tool results:\n 2 : total instructions\n",
        ],
        AccessFormat::Champsim => return vec![words(&[0x40_1000, 0, 0x7fff_0040, 0, 0x7fff_0080, 0x7fff_1000, 0, 0])],
        AccessFormat::Compact => {
            return vec![words(&[0x40, 0x81, 0x1_0000, 0x40]), words(&[1 << 56 | 0x81, 2 << 56 | 0x40])];
        }
        AccessFormat::CompactPc => {
            return vec![signed(&[0x40, 0x81, 0x1_0000, 0x40]), signed(&[1 << 56 | 0x81, 2 << 56 | 0x40])];
        }
    };
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn signed(words: &[u64]) -> Vec<u8> {
    let records = words.iter().zip(5..).flat_map(|(word, signature)| word.to_le_bytes().into_iter().chain([signature]));
    b"1ferrite".iter().copied().chain(records).collect()
}

/// Returns a compact trace, compressed with zstd.
fn packed(packing: Packing) -> Vec<u8> {
    let mut writer = trace::PackedWriter::new(Vec::new(), PATH, packing).expect("it can be made");
    [64, 129, 1 << 20].iter().for_each(|word| writer.push(*word, 3).expect("memory"));
    writer.finish().expect("memory")
}

/// Returns a gzip of the one line ` L 1000,8` behind `head`: a stored block.
fn zipped(head: &[u8]) -> Vec<u8> {
    let text = b" L 1000,8\n";
    let len = text.len() as u16;
    let end = [&crc32fast::hash(text).to_le_bytes()[..], &u32::from(len).to_le_bytes()].concat();
    [head, &[1], &len.to_le_bytes(), &(!len).to_le_bytes(), text, &end].concat()
}

#[cfg(test)]
mod tests;
