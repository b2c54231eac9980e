//! A malformed trace is reported with its file, its line and the reason.

use super::super::{BlockFormat, ReaderOptions, device};
use super::{read, read_with};
use crate::Error;

#[track_caller]
fn refusal(text: &str) -> String {
    match read(text) {
        Err(error) => error.to_string(),
        Ok((format, requests)) => panic!("it was read as {format:?}: {requests:?}"),
    }
}

#[test]
fn a_malformed_line_is_told_with_its_file_number_and_reason() {
    let cases = [
        ("W 5 3\nW 5\n", "t:2: the line ends before its count"),
        ("W 5 3\nX 5 1\n", "t:2: it begins with \"X\": expected W, R or T"),
        ("W 5 3\n\nW 5 3 4\n", "t:3: \"4\" follows the count"),
        ("W 5 3\nW -5 3\n", "t:2: the page is \"-5\": expected a number"),
        ("W 1 1\nW 4503599627370496 1\n", "t:2: 1 from 4503599627370496 lie beyond 2^64 bytes"),
        ("1.0 0 1 8 1\n1.0 0 1 8\n", "t:2: the line ends before its flags"),
        ("1.0 0 1 8 1\n1.0 0 1 8 x\n", "t:2: the flags are \"x\": expected a number"),
        ("0,1,8192,W,0.0\n0,1,8192,Z,0.0\n", "t:2: the opcode is \"Z\": expected R or W"),
        ("1,hm,0,Read,0,1,2\n1,hm,0,Flush,0,1,2\n", "t:2: the type is \"Flush\": expected Read or Write"),
        (
            "8,0 0 1 0.0 0 C W 8 + 8 [0]\n8,0 0 1 0.0 0 C W 8 - 8 [0]\n",
            "t:2: the sector is not followed by + and a count",
        ),
        ("8,0 0 1 0.0 0 C W 8 + 8 [0]\n9 9\n", "t:2: it begins with \"9 9\": expected a device such as 8,0"),
        ("fio version 2 iolog\nx write 0\n", "t:2: the line ends before its length"),
        (
            "fio version 2 iolog\nx jump 0 1\n",
            "t:2: the action is \"jump\": expected read, write, trim, sync or the like",
        ),
        ("# hello\n", "t:1: it begins with no line of a known format"),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected);
    }
}

/// If no reader accepts a line of the trace, the error gives the reason of each.
#[test]
fn what_is_no_trace_is_told_by_every_reader() {
    let said = refusal("hello\n");
    assert!(said.starts_with("t:1: not a trace: no format has this line; plain: it begins with \"hello\""), "{said}");
    assert!(BlockFormat::ALL.iter().all(|(name, _)| said.contains(&format!("; {name}: "))), "{said}");
    assert!(refusal("W 4503599627370496 1\n").contains("; plain: 1 from 4503599627370496 lie beyond 2^64 bytes"));
}

/// In a whole trace, the lines that do not count are checked, too.
#[test]
fn what_blkparse_does_not_print_is_refused() {
    let cases = [
        ("what is this", "it begins with \"what is this\": expected a device such as 8,0"),
        ("CPUs (sda):", "it begins with \"CPUs (sda):\": expected a device such as 8,0"),
        ("Reads", "it begins with \"Reads\": expected a device such as 8,0"),
        ("8,0 0 1 0.0 0 Z W 8 + 8 [0]", "the action is \"Z\": expected one of blkparse's, such as Q, D or C"),
        ("8,0 0 1 0.0 0 CC W 8 + 8 [0]", "the action is \"CC\": expected one of blkparse's, such as Q, D or C"),
        ("8,0 0 1 0.0 0 Q W x + 8 [fio]", "the sector is \"x\": expected a number"),
        ("8,0 0 1 0.0 0 D W 8 + x [fio]", "the count of sectors is \"x\": expected a number"),
        ("8,0 0 1 0.0 0 D W 8 - 8 [fio]", "the sector is not followed by + and a count"),
        ("8,0 0 1 0.0 0 Q W", "the line ends before its sector"),
        ("8,0 0 1 0.0 0 Q W 36028797018963968 + 8 [fio]", "8 from 36028797018963968 lie beyond 2^64 bytes"),
    ];
    for (line, expected) in cases {
        assert_eq!(refusal(&format!("8,0 0 1 0.0 0 C W 8 + 8 [0]\n{line}\n")), format!("t:2: {expected}"));
    }
}

#[test]
fn a_trace_that_ends_inside_a_line_is_truncated() {
    assert!(matches!(read("W 5 3\nW 5"), Err(Error::Truncated { line: 1, .. })));
    assert!(matches!(read(""), Err(Error::Truncated { line: 0, .. })));
    assert_eq!(read("W 5 3\nW 5 1").expect("only the last line's end is missing").1.len(), 2);
}

#[test]
fn compressed_data_that_ends_early_is_truncated() {
    let text: String = (0..5000).map(|page| format!("W {} 1\n", page * 7919 % 10_007)).collect();
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("it packs");
    let options = ReaderOptions { page_bytes: 4096, format: None, device: None };
    assert_eq!(read_with(&packed, options).expect("whole").1.len(), 5000);
    let cut = read_with(&packed[..packed.len() - 10], options);
    assert!(matches!(cut, Err(Error::Truncated { .. })), "{cut:?}");
}

#[test]
fn a_line_without_end_does_not_fill_memory() {
    let endless = format!("W 1 1\n{}", "9".repeat(1 << 20));
    assert!(refusal(&endless).starts_with("t:2: a line has more than"), "{}", refusal(&endless));
}

#[test]
fn devices_are_told_apart() {
    let text = "0,1,512,W,0.0\n1,9,512,W,0.0\n0,2,512,W,0.0\n";
    assert_eq!(refusal(text), "t:2: requests of device 1 after those of 0: choose one, as by --device 0");
    let two = "8,0 0 1 0.0 0 C W 8 + 8 [0]\n8,16 0 1 0.0 0 C W 8 + 8 [0]\n";
    assert_eq!(refusal(two), "t:2: requests of device 8,16 after those of 8,0: choose one, as by --device 8,0");
    let chosen = ReaderOptions { page_bytes: 4096, format: None, device: device("8,16") };
    assert_eq!(read_with(two.as_bytes(), chosen).expect("a trace").1.len(), 1);
    let iolog = "fio version 2 iolog\nb add\na add\na write 0 512\nb write 0 512\n";
    let said = "t:5: requests of device 0 (\"b\") after those of 1 (\"a\"): choose one, as by --device 1";
    assert_eq!(refusal(iolog), said, "as they were added");
    assert_eq!([device("7"), device("x"), device("8,")], [Some(7), None, None]);
    let options = ReaderOptions { page_bytes: 4096, format: None, device: Some(0) };
    assert_eq!(read_with(text.as_bytes(), options).expect("a trace").1.len(), 2);
}
