use super::*;

/// A file keeps the times that were given to it, those before 1970 too, as fuser reads them.
#[test]
fn times_go_both_ways() {
    for nanoseconds in [0_i64, 1, -1, 1_700_000_000_123_456_789, -86_400_000_000_001, i64::MAX, -i64::MAX] {
        let (seconds, part) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000) as u64);
        let read = Duration::new(seconds.unsigned_abs(), part as u32);
        let read = if seconds < 0 { UNIX_EPOCH - read } else { UNIX_EPOCH + read };
        assert_eq!(time(read), Time(nanoseconds));
        let kept = Duration::from_nanos(nanoseconds.unsigned_abs());
        let shown = if nanoseconds < 0 { UNIX_EPOCH - kept } else { UNIX_EPOCH + kept };
        assert_eq!(moment(Time(nanoseconds)), shown);
    }
}
