//! The output of SQLite's speed test.

use super::*;

#[test]
fn the_time_is_that_of_the_total() {
    let output = " 100 - 10000 INSERTs into table with no index.........    0.006s\n       TOTAL.......................................................    1.234s\n";
    assert_eq!(total_seconds(output), Some(1.234));
}

/// A speed of a run without time would be infinite, and every ratio beside it.
#[test]
fn an_output_without_a_time_has_none() {
    for output in ["", "Usage: speedtest1 [--options] DATABASE\n", "TOTAL....\n", "TOTAL....    0.000s\n"] {
        assert_eq!(total_seconds(output), None, "{output:?}");
    }
}
