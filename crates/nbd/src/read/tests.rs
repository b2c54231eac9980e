use super::*;

/// Neighbours of the same kind are joined; together the pieces are the span, in order.
#[test]
fn runs_cover_the_span_once() {
    let mut runs = Vec::new();
    let mut at = 0;
    for (len, hole) in [(100 << 10, false), (200 << 10, false), (1 << 20, true), (0, false), (4 << 10, false)] {
        append(&mut runs, Piece { span: Span::new(at, len), hole });
        at += len;
    }
    let lens: Vec<_> = runs.iter().map(|run| (run.span.len >> 10, run.hole)).collect();
    assert_eq!(lens, [(300, false), (1024, true), (4, false)]);
    assert!(runs.windows(2).all(|pair| pair[0].span.end() == Some(pair[1].span.at)));
}
