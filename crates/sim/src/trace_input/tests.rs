//! Files that other programs compressed are read as they were; cut ones are reported.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::TraceInput;
use crate::Error;

/// Returns `bytes` through a program, or `None` if this machine lacks it.
fn through(line: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut words = line.split(' ');
    let program = words.next().expect("a program");
    let run = Command::new(program)
        .args(words)
        .arg(if program == "cat" { "-u" } else { "-c" })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = run.map_err(|error| println!("{program} was not tested: {error}")).ok()?;
    let (mut stdin, bytes) = (child.stdin.take().expect("piped"), bytes.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    Some(output.stdout)
}

fn text() -> Vec<u8> {
    (0..20_000_u32).flat_map(|n| format!(" L {:x},8\n", n.wrapping_mul(0x9e37_79b9)).into_bytes()).collect()
}

fn read(bytes: Vec<u8>) -> crate::Result<Vec<u8>> {
    let path = Path::new("trace");
    let mut input = TraceInput::over(path, std::io::Cursor::new(bytes))?;
    let begin = input.peek(3)?;
    let mut all = Vec::new();
    input.bytes.read_to_end(&mut all).map_err(|error| Error::reading(path, 0, error))?;
    assert!(all.starts_with(&begin), "what was only looked at must still come");
    Ok(all)
}

#[test]
fn compressed_traces_are_read_whatever_their_name_and_cut_ones_are_told() {
    for program in ["cat", "gzip", "xz", "zstd", "zstd --long=31"] {
        let Some(packed) = through(program, &text()) else { continue };
        assert!(read(packed.clone()).expect(program) == text(), "{program}");
        let twice = [packed.clone(), packed.clone()].concat();
        assert!(read(twice).expect(program) == [text(), text()].concat(), "{program}, two after another");
        let cut = read(packed[..packed.len() / 2].to_vec());
        let message = matches!(cut, Err(Error::Truncated { .. }));
        assert_eq!(message, program != "cat", "{program}: {:?}", cut.map(|bytes| bytes.len()));
    }
}

/// `gzip -t` calls it sound, with one member and with several; any other bytes behind them are damage.
#[test]
fn gzip_with_zeros_behind_it_is_read() {
    let Some(packed) = through("gzip", &text()) else { return };
    for zeros in [1, 512, super::CHUNK + 3] {
        let padded = [packed.clone(), vec![0; zeros]].concat();
        assert!(read(padded.clone()).expect("padded") == text(), "{zeros} zeros");
        assert!(read([padded.clone(), padded].concat()).expect("padded") == [text(), text()].concat(), "{zeros} zeros");
    }
    for rest in [&b"x"[..], b"\0\0x", b"\0\x1f\x8b"] {
        assert!(read([packed.clone(), rest.to_vec()].concat()).is_err(), "{rest:?}");
    }
}

/// Peeking at the beginning does not hide an error behind it, and an error does not hide the beginning.
#[test]
fn what_comes_before_the_cut_is_read() {
    for program in ["gzip", "xz", "zstd"] {
        let Some(packed) = through(program, &text()) else { continue };
        let path = Path::new("trace");
        let mut input =
            TraceInput::over(path, std::io::Cursor::new(packed[..packed.len() - 6].to_vec())).expect(program);
        assert_eq!(input.peek(1 << 24).expect("it is kept"), input.peek(1 << 24).expect("twice"), "{program}");
        let mut all = Vec::new();
        let error = input.bytes.read_to_end(&mut all).expect_err("it is cut");
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{program}");
        let is_beginning = text().starts_with(&all);
        assert!(is_beginning && (program != "gzip" || all.len() > text().len() - 4096), "{program}: {}", all.len());
    }
}

#[test]
fn containers_that_are_not_read_are_named_with_what_to_do() {
    for (program, said) in [("bzip2", "compressed with bzip2"), ("lz4", "compressed with lz4")] {
        let Some(packed) = through(program, &text()) else { continue };
        let refused = read(packed).expect_err(program).to_string();
        assert!(refused.starts_with("trace:1: it is ") && refused.contains(said) && refused.contains("-dc trace | "));
    }
}

/// Pzstd writes a skippable frame before each frame.
#[test]
fn frames_that_zstd_skips_are_skipped() {
    let Some(packed) = through("zstd", &text()) else { return };
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &[1, 2, 3, 4], &packed].concat();
    assert!(read([skipped.clone(), skipped].concat()).expect("zstd") == [text(), text()].concat());
}

#[test]
fn damaged_data_is_an_error_and_an_empty_trace_is_not() {
    for program in ["gzip", "xz", "zstd"] {
        let Some(mut packed) = through(program, &text()) else { continue };
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0x55);
        assert!(read(packed).is_err(), "{program}");
    }
    assert_eq!(read(Vec::new()).expect("nothing is no damage"), b"");
}
