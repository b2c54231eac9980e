use super::*;

/// A short use of the mount is over at the next request; a process that keeps using it is not asked all the time.
#[test]
fn a_rest_is_short_at_first_and_long_at_last() {
    let (rest, mut now_ns) = (RetryBackoff::new(), 5);
    let mut lasted = |later_ns| {
        now_ns += later_ns;
        rest.begin(now_ns);
        let before = now_ns;
        while !rest.is_over(now_ns) {
            now_ns += LEAST_NS / 2;
        }
        now_ns - before
    };
    assert_eq!([0; 3].map(&mut lasted), [LEAST_NS, 2 * LEAST_NS, 4 * LEAST_NS]);
    assert_eq!((0..20).map(|_| lasted(0)).max(), Some(MOST_NS));
    assert_eq!(lasted(10 * MOST_NS + 1), LEAST_NS);
}
