//! Detection of a block trace's format: the format whose reader accepts the first lines.

use std::path::Path;

use super::blkparse::{self, Blkparse};
use super::block_format::{BlockFormat, BlockLineParser};
use super::iolog::Iolog;
use super::line_fields;
use super::msr::Msr;
use super::plain::Plain;
use crate::Result;
use crate::detect::{FirstLines, FormatVerdict};

/// Returns the line parser for a trace of `format` that begins with `begin`.
pub(super) fn parser(format: BlockFormat, begin: &[u8], page_bytes: u64) -> BlockLineParser {
    match format {
        BlockFormat::Plain => BlockLineParser::Plain(Plain { page_bytes }),
        BlockFormat::DiskSim => BlockLineParser::DiskSim,
        BlockFormat::Spc => BlockLineParser::Spc,
        BlockFormat::Msr => BlockLineParser::Msr(Msr::default()),
        BlockFormat::Blkparse => BlockLineParser::Blkparse(Blkparse { action: action(begin) }),
        BlockFormat::Iolog => BlockLineParser::Iolog(Iolog::default()),
    }
}

/// Returns the format of the trace at `path`, which begins with `begin`; with `is_whole` that is the whole trace.
pub(super) fn format(path: &Path, begin: &[u8], is_whole: bool, page_bytes: u64) -> Result<BlockFormat> {
    let trials = |lines: &FirstLines<'_>| {
        let tried = BlockFormat::ALL.map(|(_, format)| {
            let mut parser = parser(format, begin, page_bytes);
            lines.try_reader(format, |line| Ok(usize::from(parser.line(line)?.is_some())))
        });
        tried.into()
    };
    let verdict = FormatVerdict::of(begin, is_whole, trials);
    verdict.accepted().or(verdict.nearest()).ok_or_else(|| verdict.error(path, BlockFormat::name))
}

/// Returns the action nearest to the device among the first lines.
fn action(begin: &[u8]) -> u8 {
    let named = |action: &&u8| {
        let mut lines = begin.split(|byte| *byte == b'\n');
        lines.any(|line| line_fields::words(line).nth(5).is_some_and(|word| word == [**action]))
    };
    *blkparse::ACTIONS.iter().find(named).unwrap_or(&blkparse::ACTIONS[0])
}
