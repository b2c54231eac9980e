//! Streams of requests.

use super::*;

#[test]
fn stream_sums_requests_that_continue_each_other() {
    let mut streams = RequestStreams::default();
    assert_eq!(streams.note(0, 10), 10);
    assert_eq!(streams.note(100, 5), 5);
    assert_eq!(streams.note(10, 10), 20, "another stream in between changes nothing");
    assert_eq!(streams.note(105, 5), 10);
    assert_eq!(streams.note(0, 10), 10, "a stream that begins again");
}

#[test]
fn oldest_stream_is_forgotten_first() {
    let mut streams = RequestStreams::default();
    streams.note(0, 10);
    (1..STREAMS as u64).for_each(|number| _ = streams.note(number * 1000, 10));
    assert_eq!(streams.note(10, 10), 20, "it is one of the last");
    streams.note(999_999, 10);
    assert_eq!(streams.note(1010, 10), 10, "it was the oldest");
}
