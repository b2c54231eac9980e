//! Block traces: each format by itself, and the format detected by content; and the drives on which they are replayed.

use std::io::Cursor;
use std::path::Path;

use ferrite_memory::Span;
use ferrite_sim::block_trace::{
    BlockFormat, BlockReadAhead, BlockRequest, BlockTraceReader, BlockTraceWriter, ReaderOptions, RequestKind,
};
use ferrite_sim::ftl::{DriveSpec, FlashShape, FlashTiming, FtlScheme, TraceReplay, VictimChoice};
use ferrite_sim::{Error, TraceInput};

const SHAPE: FlashShape = FlashShape { logical_blocks: 16, extra_blocks: 5, block_pages: 4, page_bytes: 4096 };
/// Pages after which an input teaches nothing more.
const PAGES_MAX: u64 = 100_000;

/// Reads a trace in `format`, or in the detected one.
pub fn target(data: &[u8], format: Option<BlockFormat>) {
    let Some(requests) = read(data, format) else { return };
    for request in &requests {
        assert!(request.span.end().is_some(), "a span that no disk has was believed");
    }
    let pages = requests.iter().map(|request| request.span.len / 4096 + 2);
    // A request of more pages than the drive has is refused, at any offset.
    let may_be_refused = pages.clone().any(|pages| pages > u64::from(SHAPE.logical_blocks * SHAPE.block_pages));
    if pages.fold(0, u64::saturating_add) <= PAGES_MAX {
        for scheme in [FtlScheme::Page(VictimChoice::Greedy), FtlScheme::Fast { log_blocks: None }] {
            replay(data, format, scheme, may_be_refused);
        }
    }
}

/// Returns all requests of a valid trace.
fn read(data: &[u8], format: Option<BlockFormat>) -> Option<Vec<BlockRequest>> {
    let mut reader = open(data, format)?;
    let mut requests = Vec::new();
    while let Some(request) = reader.request().ok()? {
        requests.push(request);
    }
    Some(requests)
}

fn open(data: &[u8], format: Option<BlockFormat>) -> Option<BlockTraceReader> {
    let input = TraceInput::over(Path::new("fuzz"), Cursor::new(data.to_vec())).ok()?;
    BlockTraceReader::new(input, ReaderOptions { page_bytes: 4096, format, device: None }).ok()
}

/// Checks that no trace makes a layer lose a page.
fn replay(data: &[u8], format: Option<BlockFormat>, scheme: FtlScheme, may_be_refused: bool) {
    let mut drive =
        DriveSpec { scheme, shape: SHAPE, timing: FlashTiming::default() }.build().expect("a drive that can be");
    let reader = open(data, format).expect("it was read before");
    let replayed = TraceReplay { wraps: true }.run(
        &mut BlockReadAhead::new(reader).expect("a thread"),
        std::slice::from_mut(&mut drive),
        &mut |_| true,
    );
    match replayed {
        Ok(replayed) => assert!(replayed.is_whole, "what was read before ended early"),
        Err(error) => assert!(may_be_refused && matches!(error, Error::Malformed { .. }), "refused: {error}"),
    }
    drive.figures().expect("every page is where the layer says");
}

/// Returns three requests in `format`, or in each.
pub fn seeds(format: Option<BlockFormat>) -> Vec<Vec<u8>> {
    let request = |number: u64, kind| BlockRequest {
        at_ns: number * 1_000_000,
        kind,
        device: 0,
        span: Span::new(number * 4096, 8192),
    };
    let requests = [request(1, RequestKind::Write), request(2, RequestKind::Read), request(3, RequestKind::Trim)];
    let write = |format: BlockFormat| {
        let mut writer = BlockTraceWriter::new(Vec::new(), format, 4096).expect("memory takes it");
        for request in &requests {
            writer.request(request).expect("memory takes it");
        }
        writer.finish().expect("memory takes it")
    };
    BlockFormat::ALL
        .into_iter()
        .map(|one| one.1)
        .filter(|one| format.is_none_or(|only| only == *one))
        .map(write)
        .collect()
}

#[cfg(test)]
mod tests;
