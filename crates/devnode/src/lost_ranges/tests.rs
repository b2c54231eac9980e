use super::*;

/// AF2: beside a model of single bytes. Only a merge of many ranges may count bytes as lost that are stored.
#[test]
fn af2_lost_bytes_are_those_whose_last_write_failed() {
    const BYTES: u64 = 64;
    for seed in 0..200_u64 {
        let (mut state, mut model) = (seed, [false; BYTES as usize]);
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut lost = LostRanges::default();
        for _ in 0..100 {
            let at = next(BYTES);
            let span = Span::new(at, next(BYTES - at + 1));
            let fails = next(2) == 0;
            if fails {
                lost.lose(span, Errno::EIO)
            } else {
                lost.store(span)
            }
            model[at as usize..(at + span.len) as usize].fill(fails);
            let count = model.iter().filter(|byte| **byte).count() as u64;
            assert_eq!((lost.bytes(), lost.why().is_some()), (count, count > 0), "seed {seed}");
        }
    }
}

#[test]
fn af2_many_ranges_become_one_that_has_them_all() {
    let mut lost = LostRanges::default();
    let page = |nth: usize| Span::new(nth as u64 * 8192, 4096);
    (0..=RANGES_MAX).for_each(|nth| lost.lose(page(nth), Errno::ENOSPC));
    assert_eq!(lost.ranges.len(), 1);
    assert_eq!(lost.bytes(), RANGES_MAX as u64 * 8192 + 4096);
    lost.store(Span::new(0, lost.bytes()));
    assert!(lost.why().is_none());
}
