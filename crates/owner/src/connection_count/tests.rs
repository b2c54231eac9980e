use super::*;

/// O4: one process cannot take every connection, and a closed one makes room.
#[test]
fn connections_are_counted_in_all_and_by_process() {
    let (counts, room) = (ConnectionCounts::default(), ConnectionLimits { all: 3, per_process: 2 });
    let first = counts.take(1, room).expect("first");
    let second = counts.take(1, room).expect("second");
    assert!(counts.take(1, room).unwrap_err().contains("process 1 has 2"));
    let _third = counts.take(2, room).expect("another process");
    assert!(counts.take(3, room).unwrap_err().contains("has 3 connections"));
    assert_eq!(counts.taken(), 3);
    assert!(!first.leave(), "the process has another");
    assert_eq!(counts.taken(), 2);
    let _again = counts.take(3, room).expect("room again");
    assert!(second.leave());
}
