//! Every format is detected by its content and read correctly; an error names its place.

mod detection;

use std::path::Path;

use super::access_format::EXAMINED_BYTES;
use super::compact::HEAD;
use super::*;
use crate::Error;
use crate::cache::{CacheEvent, CacheShape};

const LACKEY: &str =
    "==12== Lackey, an example Valgrind tool\n==12== \nI  04001000,3\n L 1ffeff,8\n S 0421c7cc,4\n M 0421c7d0,2\n";
const DIN: &str = "2 408ed4\n0 10019d94\n1 0x10019d88 extra\n4 0\n";
const RAMULATOR: &str = "13 20734016\n1 20846400 20734080\n";
const DRMEMTRACE: &str = "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n\
    ------------------------------------------------------------\n\
    1           0:     3264106 <marker: version 7>\n\
    5           1:     3264106 ifetch       3 byte(s) @ 0x00007f86ef03d107 non-branch\n\
    5           1:     3264106                                          ff ff 7f\n\
    6           1:     3264106 read         8 byte(s) @ 0x00007fff1355c6c8 by PC 0x00007f86ef03d107\n\
    7           2:     3264107 write        8 byte(s) @ 0x00007fff1355c6c0 by PC 0x00007f86ef03d10a\n\
    View tool results:\n              2 : total instructions\n";

pub(super) fn reading() -> TraceOptions {
    TraceOptions { form: None, line_bits: 6, cores: 1 }
}

pub(super) fn read_as(bytes: impl Into<Vec<u8>>, reading: TraceOptions) -> Result<Vec<MemoryAccess>> {
    let input = TraceInput::over(Path::new("it"), std::io::Cursor::new(bytes.into()))?;
    let (mut reader, mut all) = (open(input, reading)?, Vec::new());
    while reader.read(&mut all)? {}
    Ok(all)
}

fn read(bytes: impl Into<Vec<u8>>) -> Result<Vec<MemoryAccess>> {
    read_as(bytes, reading())
}

fn access(kind: AccessKind, address: u64, bytes: u32) -> MemoryAccess {
    MemoryAccess::new(kind, address, bytes)
}

/// Returns one record: an instruction at 0x401000 that reads two places and writes one.
fn champsim() -> Vec<u8> {
    let words = [0x40_1000, 0, 0x7fff_0040, 0, 0x7fff_0080, 0x7fff_1000, 0, 0_u64];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn signed_words(all: &[u64], signatures: &[u8]) -> Vec<u8> {
    let records =
        all.iter().zip(signatures).flat_map(|(word, signature)| [&words(&[*word])[..], &[*signature]].concat());
    HEAD.iter().copied().chain(records).collect()
}

#[test]
fn text_forms_are_told_and_read() {
    use AccessKind::{Fetch, Read, Write};
    let lackey = [
        access(Fetch, 0x0400_1000, 3),
        access(Read, 0x1f_feff, 8),
        access(Write, 0x0421_c7cc, 4),
        access(Read, 0x0421_c7d0, 2),
        access(Write, 0x0421_c7d0, 2),
    ]
    .map(|access| access.by(0x0400_1000));
    assert_eq!(read(LACKEY).expect("lackey"), lackey);
    let din = [access(Fetch, 0x40_8ed4, 4), access(Read, 0x1001_9d94, 4), access(Write, 0x1001_9d88, 4)];
    let din = din.map(|access| access.by(0x40_8ed4));
    assert_eq!(read(DIN).expect("din"), din);
    let ramulator = [access(Read, 20_734_016, 1), access(Read, 20_846_400, 1), access(Write, 20_734_080, 1)];
    assert_eq!(read(RAMULATOR).expect("ramulator"), ramulator);
    let drmemtrace = [
        access(Fetch, 0x7f86_ef03_d107, 3),
        access(Read, 0x7fff_1355_c6c8, 8).by(0x7f86_ef03_d107),
        MemoryAccess { core: 1, ..access(Write, 0x7fff_1355_c6c0, 8).by(0x7f86_ef03_d10a) },
    ];
    assert_eq!(read_as(DRMEMTRACE, TraceOptions { cores: 4, ..reading() }).expect("drmemtrace"), drmemtrace);
}

#[test]
fn binary_forms_are_told_and_read() {
    use AccessKind::{Fetch, Read, Write};
    let all = [
        access(Fetch, 0x40_1000, 1),
        access(Read, 0x7fff_0080, 1),
        access(Read, 0x7fff_1000, 1),
        access(Write, 0x7fff_0040, 1),
    ]
    .map(|access| access.by(0x40_1000));
    assert_eq!(read(champsim()).expect("champsim"), all);
    assert_eq!(
        read(words(&[0, 3, 200])).expect("compact"),
        [access(Read, 0, 1), access(Write, 64, 1), access(Read, 6400, 1)]
    );
    let signed =
        [MemoryAccess { signature: 7, ..access(Read, 0, 1) }, MemoryAccess { signature: 9, ..access(Write, 64, 1) }];
    assert_eq!(read(signed_words(&[0, 3], &[7, 9])).expect("compact-pc"), signed);
    assert_eq!(read(HEAD).expect("nothing but a head"), []);
    for form in [None, Some(AccessFormat::Lackey), Some(AccessFormat::Compact)] {
        let message = read_as("", TraceOptions { form, ..reading() }).expect_err("nothing").to_string();
        assert!(message.ends_with("it is empty"), "{message}");
    }
}

/// Valgrind's messages, with -v, and the program's messages through Valgrind.
#[test]
fn messages_of_valgrind_are_none_of_the_trace() {
    let said = "--12-- Reading syms from /bin/true\n**12** so far\n==12== \n";
    assert_eq!(
        read(format!("{said}{LACKEY}{said}{LACKEY}")).expect("lackey"),
        read([LACKEY; 2].concat()).expect("lackey")
    );
}

/// One count that is not a label of Dinero's suffices, and so does one address with letters.
#[test]
fn ramulator_and_dinero_are_told_apart() {
    use AccessKind::{Read, Write};
    let ramulator = [1000, 2000, 3000, 4000].map(|at| access(Read, at, 1));
    assert_eq!(read("0 1000\n1 2000\n7 3000\n0 4000\n").expect("ramulator"), ramulator);
    let hexadecimal = [access(Read, 0x13C_6040, 1), access(Read, 0x13E_1700, 1), access(Write, 0x13C_6040, 1)];
    assert_eq!(read("30 0x13C6040\n1 0X13E1700 0x13C6040\n").expect("ramulator"), hexadecimal);
    let din = [access(Read, 0x1000, 4), access(Write, 0x200c, 4)];
    assert_eq!(read("0 1000\n1 200c\n").expect("din"), din);
    let sized = [access(Write, 0x2008, 4), access(Read, 0x1000, 4)];
    assert_eq!(read("1 200a 8\n0 1000 4\n").expect("din, which ignores what follows"), sized);
}

/// Views of older versions, and of traces that list registers only.
#[test]
fn every_view_of_drmemtrace_is_read() {
    use AccessKind::{Fetch, Read};
    let old = "Output format:\n<record#>: T<tid> <record details>\n\
        ------------------------------------------------------------\n        1: T1773976 <marker: version 4>\n\
        7: T1773966 ifetch       8 byte(s) @ 0x0000000000401012 48 8d 34 25 00 20 40 lea    0x00402000 -> %rsi\n\
        7: T1773966                                             00\n\
        8: T1773966 read         8 byte(s) @ 0x00007f8881e37c70 by PC 0x0000000000402680\n";
    let all = [access(Fetch, 0x40_1012, 8), access(Read, 0x7f88_81e3_7c70, 8).by(0x40_2680)];
    assert_eq!(read(old).expect("an old view"), all);
    let registers = "10  4: W0.T3 ifetch      10 byte(s) @ 0x00007f86ef03d107 00001931 04020204 load\n\
        10  4: W0.T3                                             00000026\n";
    assert_eq!(read(registers).expect("a view of registers"), [access(Fetch, 0x7f86_ef03_d107, 10)]);
}

/// A prefetch near address 0 does not change the format; errors in half of the records do.
#[test]
fn a_few_odd_records_are_champsims_all_the_same() {
    let odd = words(&[0x40_1000, 0, 0, 0, 0x7fff_0080, 64, 0, 0]);
    let is_told = |sound: usize, others: usize| {
        let records = [champsim().repeat(sound), odd.repeat(others)].concat();
        let form = AccessFormat::of(
            &mut TraceInput::over(Path::new("it"), std::io::Cursor::new(records)).expect("memory"),
            reading(),
        );
        form.is_ok_and(|form| form == AccessFormat::Champsim)
    };
    assert!(is_told(15, 1) && is_told(150, 10) && !is_told(14, 1) && !is_told(1, 1));
}

/// Without a named format the trace has none. If the user names compact, the error gives the place.
#[test]
fn bytes_of_no_known_form_are_told() {
    let compact = |cores| TraceOptions { form: Some(AccessFormat::Compact), cores, ..reading() };
    let beyond = words(&[2, 9 << 56]);
    let cut = [words(&[2]), vec![1; 4]].concat();
    for (bytes, reason) in [(beyond.clone(), "it:2: line"), (cut, "truncated after 1 ")] {
        let message = read(bytes.clone()).expect_err("of no form").to_string();
        assert!(
            message.starts_with("it:1: not a trace: its bytes have no known format; name one with --format"),
            "{message}"
        );
        assert_eq!(message.contains("as compact it would be truncated"), bytes.len() == 12, "{message}");
        let message = read_as(bytes, compact(1)).expect_err("not compact").to_string();
        assert!(message.contains(reason), "{message}");
    }
    let of_cores = read_as(beyond, TraceOptions { form: None, ..compact(16) }).expect("a core's number is on top");
    assert_eq!(of_cores[1].core, 9);
    let long = [words(&[2]).repeat(1 << 14), vec![0]].concat();
    assert!(matches!(read(long), Err(Error::Truncated { .. })), "its end was not looked at");
}

/// Some programs write a byte order mark before text. In a compact format the same bytes are part of a word.
#[test]
fn a_mark_before_text_is_skipped() {
    for text in [LACKEY, DIN, RAMULATOR, DRMEMTRACE] {
        let marked = format!("\u{feff}{text}");
        let form =
            AccessFormat::of(&mut TraceInput::over(Path::new("it"), text.as_bytes()).expect("memory"), reading())
                .expect("told");
        for form in [None, Some(form)] {
            assert_eq!(
                read_as(marked.clone(), TraceOptions { form, ..reading() }).expect("marked"),
                read(text).expect("text")
            );
        }
    }
    let word = u64::from_le_bytes([0xef, 0xbb, 0xbf, b' ', b'1', 0, 0, 0]);
    assert_eq!(read(words(&[word])).expect("compact"), [access(AccessKind::Write, word >> 1 << 6, 1)]);
}

/// With signatures and without: then the signature of the region stands for them.
#[test]
fn words_that_are_packed_are_read_again() {
    for (packing, form, signature) in [
        (Packing::Words, AccessFormat::Compact, region(0x7fff_1355_c6fe)),
        (Packing::Signatures, AccessFormat::CompactPc, 77),
    ] {
        let reading = TraceOptions { form: Some(form), cores: 8, ..reading() };
        let long = MemoryAccess { core: 5, signature: 77, ..access(AccessKind::Write, 0x7fff_1355_c6fe, 4) };
        let mut writer = PackedWriter::new(Vec::new(), "it", packing).expect("it can be made");
        pack(&long, &reading, |word| writer.push(word, long.signature).expect("memory"));
        let packed = writer.finish().expect("memory");
        let line = |line: u64| MemoryAccess { core: 5, signature, ..access(AccessKind::Write, line << 6, 1) };
        let lines = [line(0x7fff_1355_c6fe >> 6), line((0x7fff_1355_c6fe >> 6) + 1)];
        assert_eq!(read_as(packed.clone(), reading).expect("zstd"), lines);
        let is_told = read_as(packed, TraceOptions { form: None, ..reading }).is_ok_and(|read| read == lines);
        assert!(is_told || packing == Packing::Words, "told by its head");
    }
}

/// A kernel's addresses reach into the byte of the core.
#[test]
fn the_highest_addresses_are_packed_beside_their_core() {
    for (line_bits, cores) in [(3, 1), (3, 256), (6, 8), (12, 8)] {
        let reading = TraceOptions { form: Some(AccessFormat::Compact), line_bits, cores };
        for address in [0, 0x7fff_ffff_fff8, 0xffff_8880_1234_5678, 0xff00_0000_0000_0000, u64::MAX] {
            let all = [AccessKind::Read, AccessKind::Write]
                .map(|kind| MemoryAccess { core: cores - 1, ..access(kind, address, 1) });
            let mut packed = Vec::new();
            all.iter().for_each(|one| pack(one, &reading, |word| packed.push(word)));
            let line = |one: MemoryAccess| MemoryAccess { address: address >> line_bits << line_bits, ..one };
            assert_eq!(read_as(words(&packed), reading).expect("packed"), all.map(line), "{address:#x}, {reading:?}");
        }
    }
}

/// The error names the file, the line and the reason.
#[track_caller]
fn is_malformed_at(bytes: impl Into<Vec<u8>>, form: &str, line: u64) {
    let form = Some(form.parse().expect("a form"));
    match read_as(bytes, TraceOptions { form, ..reading() }) {
        Err(Error::Malformed { file, line: found, reason }) => {
            assert_eq!((file.as_path(), found), (Path::new("it"), line), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn malformed_lines_are_told() {
    let wrong = [
        ("lackey", " L 1000,8\n L 10x0,8\n"),
        ("lackey", " L 1000,8\n X 1000,8\n"),
        ("lackey", " L 1000,8\n L 1000\n"),
        ("lackey", " L 1000,8\n L 1000,0\n"),
        ("lackey", " L 1000,8\n L 11112222333344445,8\n"),
        ("din", "0 1000\n7 1000\n"),
        ("din", "0 1000\n0\n"),
        ("din", "0 1000\n1 zz\n"),
        ("ramulator", "3 1000\nx 1000\n"),
        ("ramulator", "3 1000\n3 1 2 3\n"),
        ("drmemtrace", "1 0: 7 read 8 byte(s) @ 0x10 by PC 0x1\n2 0: 7 eats 8 byte(s) @ 0x10\n"),
        ("drmemtrace", "1 0: 7 read 8 byte(s) @ 0x10 by PC 0x1\n2 0: 7 read 8 byte(s) at 0x10\n"),
        ("drmemtrace", "1 0: 7 read 8 byte(s) @ 0x10 by PC 0x1\nsomething else\n"),
    ];
    for (form, text) in wrong {
        is_malformed_at(text, form, 2);
    }
    let wrong_label = read("0 1000\n1 200c\n7 3000\n").expect_err("7 is no label of Dinero's");
    assert!(matches!(wrong_label, Error::Malformed { line: 3, .. }), "{wrong_label}");
    is_malformed_at([champsim(), [0, 0, 0, 0, 0, 0, 0, 0, 9].into(), vec![0; 55]].concat(), "champsim", 2);
    is_malformed_at(words(&[2, u64::MAX]), "compact", 2);
    is_malformed_at(signed_words(&[2, u64::MAX], &[1, 1]), "compact-pc", 2);
    is_malformed_at(signed_words(&[2; 8], &[1; 8]), "compact", 1);
    is_malformed_at("2ferrite", "compact-pc", 1);
    is_malformed_at([&b"0 10\n"[..], &[b'1'; 5000]].concat(), "din", 2);
}

/// Returns the events without their signatures.
fn lines(events: &[CacheEvent]) -> Vec<(u64, bool)> {
    events.iter().map(|event| (event.line(), event.is_write())).collect()
}

/// The compact formats pass the filters without a [`MemoryAccess`] for each word. The accesses before a wrong word are
/// seen.
#[test]
fn words_pass_the_filters_as_accesses_do() {
    let first =
        FirstLevel { shape: CacheShape { bytes: 4096, ways: 2, line_bytes: 64 }, cores: 2, instructions: false };
    let all = [1 << 56 | 0x81, 0x80, 1 << 56 | 0x80, (1 << 56) - 1];
    let seen = |form, is_filtered| {
        let trace = if form == AccessFormat::Compact { words(&all) } else { signed_words(&all, &[1, 2, 3, 4]) };
        let input = TraceInput::over(Path::new("it"), std::io::Cursor::new(trace)).expect("memory");
        let reader = open(input, TraceOptions { cores: 2, form: Some(form), line_bits: 10 }).expect("compact");
        let mut source: Box<dyn EventSource> = match is_filtered {
            true => Box::new(FilteredTrace::new(reader, 10)),
            false => Box::new(FirstLevelFilter::new(reader, first).expect("a cache")),
        };
        let mut events = Vec::new();
        let wrong = loop {
            match source.read(&mut events) {
                Ok(true) => {}
                other => break other.expect_err("the last word is wrong").to_string(),
            }
        };
        assert!(wrong.starts_with("it:4: line 36028797018963967 is beyond"), "{wrong}");
        assert_eq!(source.accesses(), 3);
        (lines(&events), events.iter().map(|event| event.signature()).collect::<Vec<_>>())
    };
    for (form, signatures) in [(AccessFormat::Compact, [region(0x40 << 10); 3]), (AccessFormat::CompactPc, [1, 2, 3])] {
        assert_eq!(seen(form, true), (vec![(0x40, true), (0x40, false), (0x40, false)], signatures.to_vec()));
    }
    let a_cache_each = vec![(0x40, false), (0x40, false), (0x40, true)];
    assert_eq!(seen(AccessFormat::CompactPc, false), (a_cache_each, vec![1, 2, 1]));
}

/// A file of zeros has no records, although zeros could be decoded.
#[test]
fn zeros_are_no_trace() {
    for count in [1, 8, 64, 8000, EXAMINED_BYTES * 2] {
        let message = read(vec![0; count]).expect_err("zeros").to_string();
        assert!(message.starts_with("it:1: not a trace: ") && message.contains("zeros"), "{count}: {message}");
    }
}

/// Records before the cut are returned.
#[test]
fn what_comes_before_a_cut_is_read() {
    let count = |bytes: Vec<u8>, form: &str| {
        let input = TraceInput::over(Path::new("it"), std::io::Cursor::new(bytes)).expect("memory");
        let form = Some(form.parse().expect("a form"));
        let (mut reader, mut all) = (open(input, TraceOptions { form, ..reading() }).expect("it begins"), Vec::new());
        let cut = loop {
            match reader.read(&mut all) {
                Ok(true) => {}
                other => break other.expect_err("it is cut"),
            }
        };
        assert!(matches!(cut, Error::Truncated { line: 9000, .. }), "{cut}");
        all.len()
    };
    let wanted =
        [("lackey", b" L 1000,8\n".to_vec(), 9000), ("compact", words(&[2]), 9000), ("champsim", champsim(), 36_000)];
    for (form, record, accesses) in wanted {
        let whole = record.repeat(9000);
        assert_eq!(count([&whole[..], &record[..5]].concat(), form), accesses, "{form}");
        let packed = zstd::encode_all(&whole[..], 1).expect("it packs");
        let behind = [zstd::encode_all(&record.repeat(9)[..], 1).expect("it packs")[..9].to_vec()].concat();
        assert_eq!(count([packed, behind].concat(), form), accesses, "{form} in zstd");
    }
}

#[test]
fn truncated_traces_are_told() {
    let cuts = [("champsim", champsim()[..40].to_vec()), ("compact", words(&[2, 4])[..13].to_vec())];
    let signed = [("compact-pc", HEAD[..5].to_vec()), ("compact-pc", signed_words(&[2, 4], &[1, 1])[..25].to_vec())];
    for (form, bytes) in cuts.into_iter().chain(signed).chain([("lackey", b" L 1000,8\n S 10".to_vec())]) {
        let form = Some(form.parse().expect("a form"));
        let cut = read_as(bytes, TraceOptions { form, ..reading() });
        assert!(matches!(cut, Err(Error::Truncated { .. })), "{form:?}: {cut:?}");
    }
}

#[test]
fn text_that_is_no_trace_is_refused() {
    let message = read("once upon a time\n").expect_err("it is no trace").to_string();
    assert!(message.starts_with("it:1: not a trace: no format has this line; lackey: "), "{message}");
}

/// Definition 1 of the cache: accesses pass the first level of their core, and it is drained at the end.
#[test]
fn a_filter_keeps_cores_and_instructions_apart() {
    let text = "I  1000,4\n L 103e,4\n S 2000,8\n L 1000,8\n";
    let first = |instructions| FirstLevel {
        shape: CacheShape { bytes: 4096, ways: 2, line_bytes: 64 },
        cores: 1,
        instructions,
    };
    let seen = |instructions| {
        let input = TraceInput::over(Path::new("it"), text.as_bytes()).expect("memory");
        let mut filter =
            FirstLevelFilter::new(open(input, reading()).expect("lackey"), first(instructions)).expect("a cache");
        let mut events = Vec::new();
        while filter.read(&mut events).expect("sound") {}
        (lines(&events), filter.accesses())
    };
    let data = vec![(0x40, false), (0x41, false), (0x80, false), (0x80, true)];
    assert_eq!(seen(false), (data.clone(), 3));
    assert_eq!(seen(true), ([vec![(0x40, false)], data].concat(), 4));
}
