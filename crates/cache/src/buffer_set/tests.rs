//! The buffers (WB3).

use super::*;

#[test]
fn buffers_are_granted_slot_by_slot_and_sealed_when_all_grants_have_ended() {
    let set = BufferSet::new(4, 2);
    let take = |slot_use| set.take(slot_use, false, |_, _| {});
    let (one, two) = (take(SlotUse::Dirty).unwrap(), take(SlotUse::Dirty).unwrap());
    assert_eq!(one.epoch, two.epoch);
    assert!(!set.finish(two) && set.take_full().is_none(), "one grant has not ended");
    assert!(set.finish(one));
    let buffer = set.take_full().expect("it is full");
    assert_eq!(set.take_full(), None);
    set.free(buffer);
    assert_eq!(set.free_and_full(), (4, 0));
}

#[test]
fn worker_finds_a_buffer_when_clients_find_none() {
    let set = BufferSet::new(4, 1);
    let take = |is_worker| set.take(SlotUse::Dirty, is_worker, |_, _| {});
    assert!(take(false).is_some() && take(false).is_some());
    assert!(take(false).is_none(), "the last two are the worker's");
    assert!(take(true).is_some() && take(true).is_some() && take(true).is_none());
}
