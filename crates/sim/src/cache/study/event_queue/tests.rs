use super::*;
use std::sync::mpsc::{Receiver, channel};

/// A source of as many events as it is sent.
struct Sent(Receiver<u64>, u64);

impl EventSource for Sent {
    fn read(&mut self, into: &mut Vec<CacheEvent>) -> Result<bool> {
        let Ok(count) = self.0.recv() else { return Ok(false) };
        into.extend((self.1..self.1 + count).map(|line| CacheEvent::new(line, false, 0)));
        self.1 += count;
        Ok(true)
    }

    fn accesses(&self) -> u64 {
        self.1
    }
}

#[test]
fn what_a_source_gave_before_it_said_nothing_is_there_in_its_order() {
    let (sender, receiver) = channel();
    let gathered = EventQueue::of(Box::new(Sent(receiver, 0))).expect("a thread");
    for count in [5, 7] {
        sender.send(count).expect("it is read");
    }
    let mut lines = Vec::new();
    while lines.len() < 12 {
        let batch = gathered.take();
        assert!(batch.end.is_none());
        lines.extend(batch.events.iter().map(|event| event.line()));
    }
    assert!(lines.into_iter().eq(0..12));
    drop(sender);
    let end = (0..100).find_map(|_| gathered.take().end);
    assert!(matches!(end, Some(Ok(()))));
}

/// A source that panics.
struct Broken;

impl EventSource for Broken {
    fn read(&mut self, _: &mut Vec<CacheEvent>) -> Result<bool> {
        panic!("it is broken");
    }

    fn accesses(&self) -> u64 {
        0
    }
}

#[test]
fn a_source_that_panics_is_an_error_in_the_end() {
    let gathered = EventQueue::of(Box::new(Broken)).expect("a thread");
    let end = (0..100).find_map(|_| gathered.take().end);
    assert!(matches!(end, Some(Err(Error::Reader))));
}

#[test]
fn who_goes_ends_a_source_that_waits_for_room() {
    let (sender, receiver) = channel();
    let gathered = EventQueue::of(Box::new(Sent(receiver, 0))).expect("a thread");
    sender.send(MOST as u64).expect("it is read");
    sender.send(1).expect("it is read");
    drop(gathered);
    let ended = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        sender.send(1).is_err()
    });
    assert!(ended, "the source is dropped");
}
