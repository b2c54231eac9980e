//! L4: lines that are noted are kept.

use super::*;

/// L4: each line with a byte of what was noted is there, and none else.
#[test]
fn l4_every_line_is_kept() {
    let mut home = HomeLines::default();
    let spans = [(64, 8), (4096 - 8, 16), (64 * 65, 64), (128, 192), (64, 8), (64 * 65 + 8, 8), (64, 64)];
    for _ in 0..2 {
        spans.into_iter().for_each(|(at, len)| home.note(Span::new(at, len)));
        let mut lines: Vec<u64> =
            home.take().iter().flat_map(|span| (span.at..span.at + span.len).step_by(64)).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines, [64, 128, 192, 256, 4032, 4096, 4160]);
    }
    assert_eq!(home.take(), []);
}

#[test]
fn what_is_written_again_and_again_is_flushed_once() {
    let mut home = HomeLines::default();
    (0..100).for_each(|_| home.note(Span::new(8192, 64)));
    assert_eq!(home.take(), [Span::new(8192, 64)]);
}
