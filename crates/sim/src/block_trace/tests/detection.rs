//! The detected format is the one whose reader accepts the trace, for any content.

use proptest::prelude::*;

use super::super::{BlockFormat, ReaderOptions};
use super::{OPTIONS, read_with};
use crate::support;

/// Returns lines of one format, in every way that programs write them.
fn lines(format: BlockFormat) -> BoxedStrategy<String> {
    const TIME: &str = "[0-9]{1,3}(\\.[0-9]{1,9})?(e-0[1-9]|E\\+[0-3])?";
    let (head, line) = match format {
        BlockFormat::Plain => ("", "[WRTwrt] [0-9]{1,6} [0-9]{1,3}".into()),
        BlockFormat::DiskSim => ("", format!("{TIME} [0-9]{{1,2}} [0-9]{{1,6}} [0-9]{{1,3}} [0-9a-f]{{1,2}}")),
        BlockFormat::Spc => {
            ("", format!("[0-9]{{1,2}},[0-9]{{1,6}}, ?[0-9]{{1,5}},[RWrw],{TIME}(,[a-z0-9]{{0,3}}){{0,3}}"))
        }
        BlockFormat::Msr => {
            let head = "(Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n)?";
            (
                head,
                "[0-9]{1,18},[a-z]{1,4},[0-9],(Read|Write|read|WRITE),[0-9]{1,9},[0-9]{1,6}(,[a-z0-9]{0,4}){0,2}"
                    .into(),
            )
        }
        BlockFormat::Blkparse => {
            let head = "(Input file sda.blktrace.0 added\n)?";
            (
                head,
                format!(
                    "8,0 [0-3] [0-9]{{1,4}} {TIME} [0-9]{{1,4}} [CDQG] (R|W|WS|FWFS|D) [0-9]{{1,6}} \\+ [0-9]{{1,3}} \\[0\\]"
                ),
            )
        }
        BlockFormat::Iolog => {
            ("fio version 3 iolog\n", "[0-9]{1,6} /dev/x (read|write|trim|sync) [0-9]{1,6} [0-9]{1,5}".into())
        }
    };
    let lines = prop::collection::vec(prop::string::string_regex(&line).expect("it is a pattern"), 1..12);
    (head, lines)
        .prop_map(|(head, lines)| head + &lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .boxed()
}

proptest! {
    #![proptest_config(support::cases(512))]

    #[test]
    fn a_format_is_told_by_its_reader_alone(
        text in prop::sample::select(BlockFormat::ALL.map(|one| one.1).to_vec()).prop_flat_map(lines), is_ended in any::<bool>()
    ) {
        let text = if is_ended { text.as_str() } else { text.trim_end() };
        let reads = |format: Option<BlockFormat>| read_with(text.as_bytes(), ReaderOptions { format, device: Some(0), ..OPTIONS });
        let accepting: Vec<BlockFormat> =
            BlockFormat::ALL.into_iter().map(|one| one.1).filter(|format| reads(Some(*format)).is_ok()).collect();
        match (reads(None), &accepting[..]) {
            (Ok((format, _)), [one]) => prop_assert_eq!(format, *one),
            (message, _) => prop_assert!(false, "told as {message:?}, and {accepting:?} read {text}"),
        }
    }
}
