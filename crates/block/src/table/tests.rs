use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

#[test]
fn rows_stay_when_it_grows() {
    let table = GrowingTable::<AtomicU32>::new(3 * SEGMENT as u64);
    table.grow(1).expect("memory");
    table.row(0).store(7, Ordering::Relaxed);
    table.grow(2 * SEGMENT as u64 + 1).expect("memory");
    assert_eq!(table.row(0).load(Ordering::Relaxed), 7);
    assert_eq!(table.row(2 * SEGMENT as u64).load(Ordering::Relaxed), 0);
}
#[test]
fn want_of_memory_is_an_error_and_takes_no_row_away() {
    let table = GrowingTable::<[u8; 1 << 45]>::new(1);
    let Err(ferrite_pool::Error::Medium(ferrite_memory::Error::Io { source, .. })) = table.grow(1) else {
        panic!("no computer has that");
    };
    assert_eq!(source.kind(), ErrorKind::OutOfMemory);
    assert!(table.get(0).is_none());
    table.grow(0).expect("nothing is wanted");
}
