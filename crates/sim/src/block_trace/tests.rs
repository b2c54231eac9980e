mod detection;
mod refusals;

use std::path::Path;

use ferrite_disk::{Access, Disk, RamDisk, Trace, TraceDisk, TraceFormat};
use ferrite_memory::Span;
use proptest::prelude::*;

use super::*;
use crate::{NextPart, Result, TraceInput, support};

pub(super) const OPTIONS: ReaderOptions = ReaderOptions { page_bytes: 4096, format: None, device: None };

pub(super) fn read_with(text: &[u8], options: ReaderOptions) -> Result<(BlockFormat, Vec<BlockRequest>)> {
    let input = TraceInput::over(Path::new("t"), std::io::Cursor::new(text.to_vec()))?;
    let mut reader = BlockTraceReader::new(input, options)?;
    let mut requests = Vec::new();
    while let Some(request) = reader.request()? {
        requests.push(request);
    }
    Ok((reader.format(), requests))
}

pub(super) fn read(text: &str) -> Result<(BlockFormat, Vec<BlockRequest>)> {
    read_with(text.as_bytes(), OPTIONS)
}

#[track_caller]
fn assert_read(text: &str, format: BlockFormat, requests: &[BlockRequest]) {
    let (found, read) = read(text).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((found, read), (format, requests.to_vec()));
}

fn request(kind: RequestKind, at_ns: u64, span: Span) -> BlockRequest {
    BlockRequest { at_ns, kind, device: 0, span }
}

#[test]
fn plain_traces_count_in_pages() {
    let requests = [
        request(RequestKind::Write, 0, Span::new(5 * 4096, 3 * 4096)),
        request(RequestKind::Read, 0, Span::new(0, 4096)),
        request(RequestKind::Trim, 0, Span::new(7 * 4096, 4096)),
    ];
    assert_read("# three\n\nW 5 3\nR 0 1\r\nT 7 1\n", BlockFormat::Plain, &requests);
}

/// The example of DiskSim's manual, and MQSim's form of it: bit 0 is set for reads.
#[test]
fn disksim_and_mqsim_traces_count_in_sectors() {
    let requests = [
        request(RequestKind::Read, 123_456_000, Span::new(512, 4096)),
        request(RequestKind::Write, 124_000_000, Span::new(0, 512)),
    ];
    assert_read("123.456 0 1 8 1\n124.0 0 0 1 0\n", BlockFormat::DiskSim, &requests);
    assert_read("123456000 0 1 8 1\n124000000 0 0 1 0\n", BlockFormat::DiskSim, &requests);
    assert_read("1.23456e+2 0 1 8 1\n124e0 0 0 1 0\n", BlockFormat::DiskSim, &requests);
    let first = [
        request(RequestKind::Write, 0, Span::new(51_200, 4096)),
        request(RequestKind::Write, 50, Span::new(55_296, 4096)),
    ];
    assert_read("0.0 0 100 8 0\n5e-05 0 108 8 0\n", BlockFormat::DiskSim, &first);
}

/// Lines of the Council's Financial1 and of its web search traces.
#[test]
fn spc_traces_have_sectors_and_bytes() {
    let requests = [
        request(RequestKind::Write, 0, Span::new(20_941_264 * 512, 8192)),
        request(RequestKind::Read, 11_413_000, Span::new(20_939_840 * 512, 8192)),
    ];
    assert_read("0,20941264,8192,W,0.000000\n0,20939840,8192,r,0.011413\n", BlockFormat::Spc, &requests);
    let with_two_more = "0,20941264,8192,W,0.000000,1,2\n0,20939840,8192,r,0.011413,1,2\n";
    assert_read(with_two_more, BlockFormat::Spc, &requests);
}

/// The first line decides the format, and no line of any format begins as a comment does.
#[test]
fn comments_are_skipped_in_every_format() {
    let requests = [request(RequestKind::Write, 0, Span::new(512, 512))];
    assert_read("# unit,sector,bytes\n0,1,512,W,0.0\n # end\n", BlockFormat::Spc, &requests);
    assert_read("# a comment\n0.0 0 1 1 0\n", BlockFormat::DiskSim, &requests);
}

/// Lines of hm_0: times begin with the first request.
#[test]
fn msr_traces_have_bytes_and_windows_times() {
    let text = "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Write,2822144,4096,41286\n";
    let requests = [
        request(RequestKind::Read, 0, Span::new(383_496_192, 32768)),
        request(RequestKind::Write, 1_332_052_600, Span::new(2_822_144, 4096)),
    ];
    assert_read(text, BlockFormat::Msr, &requests);
    let head = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    assert_read(&format!("{head}{text}"), BlockFormat::Msr, &requests);
    assert_read(&format!("\n{head}{text}"), BlockFormat::Msr, &requests);
    let columns = |change: fn(&str) -> String| text.lines().map(change).collect::<String>();
    assert_read(&columns(|line| format!("{},41286\n", line)), BlockFormat::Msr, &requests);
    assert_read(
        &columns(|line| format!("{}\n", line.rsplit_once(',').expect("a column").0)),
        BlockFormat::Msr,
        &requests,
    );
}

/// The lines of one request that blktrace sees, and its summary. Only successful completions count.
#[test]
fn blkparse_counts_completions() {
    let text = "Input file sda.blktrace.3 added\n\
                8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
                8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n\
                8,0    3        3     0.000100000   697  D   W 223490 + 8 [kjournald]\n\
                8,0    3        4     0.000200000     0  C   W 223490 + 8 [0]\n\
                8,0    3        5     0.000300000     0  C  FWFS 0 + 8 [0]\n\
                8,0    3        6     0.000400000     0  C   R 16 + 8 [-5]\n\
                8,0    3        7     0.000500000     0  C  FN [0]\n\
                8,0    3        8     0.000600000     0  C   D 64 + 8 (   12345) [0]\n\
                8,0    3       10     0.000600000     0  C   R (12 00 00) [0]\n\
                8,0    3        9     0.000700000   697  m   N cfq697 insert_request\n\
                CPU3 (8,0):\n Reads Queued:           0,        0KiB\n\nTotal (8,0):\n";
    let device = 8 << 20;
    let of = |kind, at_ns, sector: u64, sectors: u64| BlockRequest {
        at_ns,
        kind,
        device,
        span: Span::new(sector * 512, sectors * 512),
    };
    let requests = [
        of(RequestKind::Write, 200_000, 223_490, 8),
        of(RequestKind::Write, 300_000, 0, 8),
        of(RequestKind::Trim, 600_000, 64, 8),
    ];
    assert_read(text, BlockFormat::Blkparse, &requests);
}

/// All lines of `blkparse -s` that are not requests.
#[test]
fn blkparse_says_more_than_requests() {
    let text = "Input file sda.blktrace.0 added\n\
                8,0 3 1 0.000000000 697 P N [fio]\n8,0 3 2 0.000000001 697 UT N [fio] 1\n\
                8,0 3 3 0.000000002 697 A W 8 + 8 <- (8,1) 0\n8,0 3 4 0.000000003 697 X W 8 / 12 [fio]\n\
                8,0 3 5 0.000000004 697 D R 36 (12 00 00 00 24 00 ..) [fio]\n8,0 3 6 0.000000005 697 Q R 36 [fio]\n\
                8,0 3 7 0.000000006 0 C W 8 + 8 [0]\n\
                fio (697)\n Reads Queued:           0,        0KiB\t Writes Queued:          16,  107,184KiB\n \
                Allocation wait:        0        \t Allocation wait:         0\nkworker/0:1 (12, ...)\n\
                CPU3 (sda):\n PC Reads Compl.:        5\t\t PC Writes Compl.:        0\n IO unplugs:             0\n\
                \nTotal (8,0):\n Read depth:             1        \t Write depth:            32\n\
                \nThroughput (R/W): 0KiB/s / 68KiB/s\nEvents (sda): 12188 entries\nSkips: 0 forward (0 -   0.0%)\n";
    let (format, requests) = read(text).expect("it is a trace");
    assert_eq!((format, requests.len()), (BlockFormat::Blkparse, 1));
}

/// A trace with queued requests only counts those.
#[test]
fn blkparse_counts_what_there_is() {
    let text = "8,0 3 1 0.000000000 697 Q W 8 + 8 [x]\n8,0 3 2 0.000000001 697 G W 8 + 8 [x]\n";
    let (_, requests) = read(text).expect("it is a trace");
    assert_eq!(requests.len(), 1);
    let issued = text.replace(" Q ", " D ").replace(" G ", " Q ");
    assert_eq!(read(&issued).expect("it is a trace").1.len(), 1);
}

#[test]
fn iologs_of_both_versions() {
    let two = "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x write 4096 512\n/dev/x sync 0 0\n/dev/x sync_file_range 0 8\n/dev/x wait 7 0\n\
               /dev/x read 0 4096\n/dev/x wait 1000 0\n/dev/x trim 8192 4096\n/dev/x close\n";
    let requests = [
        request(RequestKind::Write, 0, Span::new(4096, 512)),
        request(RequestKind::Read, 7000, Span::new(0, 4096)),
        request(RequestKind::Trim, 1_007_000, Span::new(8192, 4096)),
    ];
    assert_read(two, BlockFormat::Iolog, &requests);
    let three = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n12 /dev/x write 4096 512\n";
    assert_read(three, BlockFormat::Iolog, &[BlockRequest { at_ns: 12_000, ..requests[0] }]);
}

/// A trace that Ferrite's traced disk writes is read back, in both its formats.
#[test]
fn a_traced_disk_is_read_back() {
    for (format, read_as) in
        [(TraceFormat::FioIolog, BlockFormat::Iolog), (TraceFormat::Blkparse, BlockFormat::Blkparse)]
    {
        let place = tempfile::NamedTempFile::new().expect("a file");
        let to = Box::new(place.reopen().expect("it is there"));
        let trace = Trace { format, name: "/dev/x".into(), clock_ns: || 5000, to };
        let disk = TraceDisk::new(RamDisk::new(1 << 20), trace);
        disk.write(8192, &[1; 4096], Access::Cached).unwrap();
        disk.write(512, &[1; 512], Access::Fua).unwrap();
        disk.read(0, &mut [0; 1024]).unwrap();
        disk.flush().unwrap();
        disk.trim(Span::new(4096, 4096), Access::Cached).unwrap();
        disk.finish().unwrap();
        let expected = [
            request(RequestKind::Write, 5000, Span::new(8192, 4096)),
            request(RequestKind::Write, 5000, Span::new(512, 512)),
            request(RequestKind::Read, 5000, Span::new(0, 1024)),
            request(RequestKind::Trim, 5000, Span::new(4096, 4096)),
        ];
        let text = std::fs::read_to_string(place.path()).expect("text");
        assert_eq!(read(&text).expect("a trace"), (read_as, expected.to_vec()));
    }
}

/// Gzip, xz and zstd are read alike.
#[test]
fn a_compressed_trace_is_read() {
    let text = b"W 5 3\nR 0 1\n";
    let packed = zstd::encode_all(&text[..], 1).expect("it packs");
    assert_eq!(read_with(&packed, OPTIONS).expect("a trace").1.len(), 2);
}

/// Some programs write a byte order mark before text.
#[test]
fn a_mark_before_a_trace_is_skipped() {
    let text = "0,20941264,8192,W,0.000000\n";
    assert_eq!(read(&format!("\u{feff}{text}")).expect("a trace"), read(text).expect("a trace"));
}

fn any_request() -> impl Strategy<Value = BlockRequest> {
    let kind = prop_oneof![Just(RequestKind::Read), Just(RequestKind::Write), Just(RequestKind::Trim)];
    let parts = (0_u64..1 << 40, kind, 0_u64..1 << 30, 1_u64..1 << 12);
    parts.prop_map(|(ticks, kind, page, pages)| BlockRequest {
        at_ns: ticks * 1000,
        kind,
        device: 0,
        span: Span::new(page * 4096, pages * 4096),
    })
}

/// A request without bytes stays without, at any place in its page or sector.
#[test]
fn requests_without_bytes_stay_without() {
    for (_, format) in BlockFormat::ALL {
        let mut writer = BlockTraceWriter::new(Vec::new(), format, 4096).unwrap();
        assert!(writer.request(&request(RequestKind::Write, 0, Span::new(100, 0))).unwrap());
        let (_, read) = read_with(&writer.finish().unwrap(), OPTIONS).unwrap();
        assert_eq!(read[0].span.len, 0, "{format:?}");
    }
}

/// A format that counts in pages or sectors must not trim bytes that the trace keeps.
#[test]
fn a_trim_is_written_as_the_whole_units_that_it_covers() {
    let written = |format, span| {
        let mut writer = BlockTraceWriter::new(Vec::new(), format, 4096).expect("memory");
        let is_written = writer.request(&request(RequestKind::Trim, 0, span)).expect("memory");
        let text = String::from_utf8(writer.finish().expect("memory")).expect("text");
        is_written.then(|| text.trim_end().to_owned())
    };
    assert_eq!(written(BlockFormat::Plain, Span::new(1024, 1024)), None);
    assert_eq!(written(BlockFormat::Plain, Span::new(4095, 8193)).as_deref(), Some("T 1 2"));
    assert_eq!(written(BlockFormat::Plain, Span::new(4096, 8191)).as_deref(), Some("T 1 1"));
    let blkparse = written(BlockFormat::Blkparse, Span::new(100, 4096)).expect("it covers sectors");
    assert!(blkparse.contains(" D 1 + 7 "), "{blkparse}");
}

proptest! {
    #![proptest_config(support::cases(64))]

    /// A written trace is read back in every format, except for the times and trims that a format lacks.
    #[test]
    fn every_format_is_read_as_it_is_written(
        requests in prop::collection::vec(any_request(), 1..50), which in 0_usize..BlockFormat::ALL.len()
    ) {
        let (_, format) = BlockFormat::ALL[which];
        let mut writer = BlockTraceWriter::new(Vec::new(), format, 4096).unwrap();
        let mut expected = Vec::new();
        for request in &requests {
            if writer.request(request).unwrap() {
                expected.push(*request);
            }
        }
        prop_assume!(!expected.is_empty());
        let began_ns = expected[0].at_ns;
        for request in &mut expected {
            match format {
                BlockFormat::Plain => request.at_ns = 0,
                BlockFormat::Msr => request.at_ns = request.at_ns.saturating_sub(began_ns),
                _ => {}
            }
        }
        let (found, read) = read_with(&writer.finish().unwrap(), OPTIONS).unwrap();
        prop_assert_eq!((found, read), (format, expected));
    }
}

/// Reading ahead returns the same requests with their lines; an error follows all valid requests.
#[test]
fn reading_ahead_gives_the_same_requests() {
    let whole: String = (0..10_000).map(|page| format!("\nW {page} 1\n")).collect();
    for (text, is_right) in [(whole.clone(), true), (whole.clone() + "W x 1\n", false)] {
        let input = TraceInput::over(Path::new("t"), std::io::Cursor::new(text.into_bytes())).expect("it opens");
        let mut ahead = BlockReadAhead::new(BlockTraceReader::new(input, OPTIONS).expect("a trace")).expect("a thread");
        let (mut next, mut end) = (0, Ok(()));
        loop {
            match ahead.batch(&mut || true) {
                Ok(NextPart::Part(requests)) => {
                    for NumberedRequest { request, line } in requests {
                        assert_eq!((request.span.at, line), (next * 4096, 2 * next + 2));
                        next += 1;
                    }
                }
                Ok(_) => break,
                Err(why) => {
                    end = Err(why.to_string());
                    break;
                }
            }
        }
        assert_eq!((next, end.is_ok()), (10_000, is_right), "{end:?}");
        assert!(is_right || end.is_err_and(|why| why.starts_with("t:20001: ")));
    }
}

/// A reader that wants to stop is not blocked by a silent pipe.
#[test]
fn a_silent_pipe_can_be_left() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let (left, wait) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, "W 1 1\n".repeat(12_000).as_bytes()).expect("it is read");
        wait.recv().expect_err("nothing is sent");
    });
    let input = TraceInput::over(Path::new("-"), reader).expect("it opens");
    let mut ahead = BlockReadAhead::new(BlockTraceReader::new(input, OPTIONS).expect("a trace")).expect("a thread");
    let mut whole = 0;
    while let NextPart::Part(requests) = ahead.batch(&mut || false).expect("a trace") {
        whole += requests.len();
    }
    assert!(whole < 12_000, "a batch that is not full waits for more");
    drop(left);
    writing.join().expect("it ended");
}
