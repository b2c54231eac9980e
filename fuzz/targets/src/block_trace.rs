//! Block traces: each format by itself, and the format told by content; and the drives that they are replayed on.

use std::io::Cursor;
use std::path::Path;

use ferrite_memory::Span;
use ferrite_sim::block_trace::{Ahead, Format, Kind, Reader, ReaderOptions, Request, Writer};
use ferrite_sim::ftl::{Choice, Replay, Scheme, Shape, Spec, Timing};
use ferrite_sim::{Error, Input};

const SHAPE: Shape = Shape { logical_blocks: 16, extra_blocks: 5, block_pages: 4, page_bytes: 4096 };
/// Pages after which an input teaches nothing more.
const PAGES_MAX: u64 = 100_000;

/// In `format`, or as it looks.
pub fn target(data: &[u8], format: Option<Format>) {
    let Some(requests) = read(data, format) else { return };
    for request in &requests {
        assert!(request.span.end().is_some(), "a span that no disk has was believed");
    }
    let pages = requests.iter().map(|request| request.span.len / 4096 + 2);
    // A request of more pages than the drive has is refused, wherever it begins.
    let may_be_refused = pages.clone().any(|pages| pages > u64::from(SHAPE.logical_blocks * SHAPE.block_pages));
    if pages.fold(0, u64::saturating_add) <= PAGES_MAX {
        for scheme in [Scheme::Page(Choice::Greedy), Scheme::Fast { log_blocks: None }] {
            replay(data, format, scheme, may_be_refused);
        }
    }
}

/// All requests of a trace that is right.
fn read(data: &[u8], format: Option<Format>) -> Option<Vec<Request>> {
    let mut reader = open(data, format)?;
    let mut requests = Vec::new();
    while let Some(request) = reader.request().ok()? {
        requests.push(request);
    }
    Some(requests)
}

fn open(data: &[u8], format: Option<Format>) -> Option<Reader> {
    let input = Input::over(Path::new("fuzz"), Cursor::new(data.to_vec())).ok()?;
    Reader::new(input, ReaderOptions { page_bytes: 4096, format, device: None }).ok()
}

/// No trace makes a layer lose a page.
fn replay(data: &[u8], format: Option<Format>, scheme: Scheme, may_be_refused: bool) {
    let mut drive = Spec { scheme, shape: SHAPE, timing: Timing::default() }.build().expect("a drive that can be");
    let reader = open(data, format).expect("it was read before");
    let replayed = Replay { wraps: true }.run(
        &mut Ahead::new(reader).expect("a thread"),
        std::slice::from_mut(&mut drive),
        &mut |_| true,
    );
    match replayed {
        Ok(replayed) => assert!(replayed.is_whole, "what was read before ended early"),
        Err(error) => assert!(may_be_refused && matches!(error, Error::Malformed { .. }), "refused: {error}"),
    }
    drive.figures().expect("every page is where the layer says");
}

/// Three requests in `format`, or in each.
pub fn seeds(format: Option<Format>) -> Vec<Vec<u8>> {
    let request = |number: u64, kind| Request {
        at_ns: number * 1_000_000,
        kind,
        device: 0,
        span: Span::new(number * 4096, 8192),
    };
    let requests = [request(1, Kind::Write), request(2, Kind::Read), request(3, Kind::Trim)];
    let write = |format: Format| {
        let mut writer = Writer::new(Vec::new(), format, 4096).expect("memory takes it");
        for request in &requests {
            writer.request(request).expect("memory takes it");
        }
        writer.finish().expect("memory takes it")
    };
    Format::ALL.into_iter().map(|one| one.1).filter(|one| format.is_none_or(|only| only == *one)).map(write).collect()
}

#[cfg(test)]
mod tests;
