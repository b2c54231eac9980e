use std::cell::{Cell, RefCell};

use super::*;

/// What was drained, and how often it was fenced.
fn drained(touched: &Touched) -> (Vec<Span>, u32) {
    let (spans, fences) = (RefCell::new(Vec::new()), Cell::new(0));
    touched.drain(|span| spans.borrow_mut().push(span), || fences.set(fences.get() + 1));
    (spans.into_inner(), fences.get())
}

/// M1 for `writeback`: the barrier is given all that was stored and not flushed, once.
#[test]
fn everything_touched_is_drained_once() {
    let touched = Touched::default();
    assert_eq!(drained(&touched), (vec![], 0));
    assert!(touched.add(Span::new(0, 64)) && touched.add(Span::new(64, 64)) && touched.add(Span::new(4096, 8)));
    assert_eq!(drained(&touched), (vec![Span::new(0, 128), Span::new(4096, 8)], 1));
    assert_eq!(drained(&touched), (vec![], 0));
}

/// It stays bounded: what finds no room is for the storing thread to flush.
#[test]
fn a_full_shard_takes_no_more() {
    let touched = Touched::default();
    let taken = (0..5000).filter(|i| touched.add(Span::new(i * 100, 8))).count();
    assert_eq!(taken, SPANS_PER_SHARD);
    assert_eq!(drained(&touched).0.len(), SPANS_PER_SHARD);
    assert!(touched.add(Span::new(0, 8)), "draining makes room");
}
