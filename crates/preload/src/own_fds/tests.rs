use super::*;

#[test]
fn ld3_ranges_leave_ours_out() {
    OURS[0].store(7, Ordering::Relaxed);
    OURS[1].store(9, Ordering::Relaxed);
    let parts = |first, last| gaps(first, last).collect::<Vec<_>>();
    assert_eq!(parts(3, u32::MAX), [(3, 6), (8, 8), (10, u32::MAX)]);
    assert_eq!(parts(7, 7), []);
    assert_eq!(parts(8, 8), [(8, 8)]);
    assert_eq!(parts(9, 20), [(10, 20)]);
    assert_eq!(parts(0, 8), [(0, 6), (8, 8)]);
}
