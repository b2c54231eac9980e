//! A block trace in any format, and the drives that it is replayed on.

use std::io::Cursor;
use std::path::Path;

use ferrite_medium::Span;
use ferrite_sim::Input;
use ferrite_sim::block_trace::{Ahead, Format, Kind, Reader, ReaderOptions, Request, Writer};
use ferrite_sim::ftl::{Choice, Replay, Scheme, Shape, Spec, Timing};

const SHAPE: Shape = Shape { logical_blocks: 16, extra_blocks: 5, block_pages: 4, page_bytes: 4096 };
const OPTIONS: ReaderOptions = ReaderOptions { page_bytes: 4096, device: None };
/// Pages after which an input teaches nothing more.
const PAGES_MAX: u64 = 100_000;

pub fn target(data: &[u8]) {
    let Some(requests) = read(data) else { return };
    for request in &requests {
        assert!(request.span.end().is_some(), "a span that no disk has was believed");
    }
    let pages: u64 = requests.iter().map(|request| request.span.len / 4096 + 2).fold(0, u64::saturating_add);
    if pages <= PAGES_MAX {
        replay(data, Scheme::Page(Choice::Greedy));
        replay(data, Scheme::Fast { log_blocks: None });
    }
}

/// All requests of a trace that is right.
fn read(data: &[u8]) -> Option<Vec<Request>> {
    let mut reader = Reader::new(open(data)?, OPTIONS).ok()?;
    let mut requests = Vec::new();
    while let Some(request) = reader.request().ok()? {
        requests.push(request);
    }
    Some(requests)
}

fn open(data: &[u8]) -> Option<Input> {
    Input::over(Path::new("fuzz"), Cursor::new(data.to_vec())).ok()
}

/// No trace makes a layer lose a page.
fn replay(data: &[u8], scheme: Scheme) {
    let mut drive = Spec { scheme, shape: SHAPE, timing: Timing::default() }.build().expect("a drive that can be");
    let reader = open(data).and_then(|input| Reader::new(input, OPTIONS).ok()).expect("it was read before");
    let replayed = Replay { wraps: true }.run(&mut Ahead::new(reader), &mut drive, &mut |_| true);
    assert!(replayed.is_ok_and(|replayed| replayed.is_whole), "what was read before was refused");
    drive.figures().expect("every page is where the layer says");
}

/// Three requests in each format.
pub fn seeds() -> Vec<Vec<u8>> {
    let request = |number: u64, kind| Request {
        at_ns: number * 1_000_000,
        kind,
        device: 0,
        span: Span::new(number * 4096, 8192),
    };
    let requests = [request(1, Kind::Write), request(2, Kind::Read), request(3, Kind::Trim)];
    let write = |(_, format): &(&str, Format)| {
        let mut writer = Writer::new(Vec::new(), *format, 4096).expect("memory takes it");
        for request in &requests {
            writer.request(request).expect("memory takes it");
        }
        writer.finish().expect("memory takes it")
    };
    Format::ALL.iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_traces_of_every_format() {
        let known: Vec<usize> = seeds().iter().map(|seed| read(seed).expect("a trace").len()).collect();
        assert_eq!(known, [3, 2, 2, 2, 3, 3], "formats without trims leave them out");
    }
}
