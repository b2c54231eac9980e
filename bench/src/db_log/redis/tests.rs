//! The output of redis-benchmark.

use super::*;

/// A rate that is read from another column, or of another test, is a wrong figure that nothing shows.
#[test]
fn the_rate_is_the_second_field_of_the_line_of_set() {
    let old = "\"PING_INLINE\",\"1.00\"\n\"SET\",\"61349.69\"\n";
    let new = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"61349.69\",\"0.431\"\n";
    assert_eq!([old, new].map(sets_per_second), [Some(61349.69); 2]);
    assert_eq!(sets_per_second("\"SET\",\"inf\"\n"), Some(f64::INFINITY), "a run of less than a millisecond");
}

#[test]
fn an_output_without_the_line_has_no_rate() {
    for output in ["", "\"GET\",\"1.00\"\n", "\"SET\"\n", "\"SET\",\"fast\"\n", "Could not connect to Redis"] {
        assert_eq!(sets_per_second(output), None, "{output:?}");
    }
}
