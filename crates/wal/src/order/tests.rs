//! Proofs of WO1 to WO4: every interleaving of a few threads, under the C11 memory model (loom).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use loom::sync::atomic::AtomicU64 as LoomWord;
use loom::thread;

use super::*;

impl AtomicWord for LoomWord {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }
}

/// The planted bug: marks are stored without order, so that a mark may be visible before its record.
#[derive(Debug)]
struct RelaxedWord(LoomWord);

impl AtomicWord for RelaxedWord {
    fn new(value: u64) -> Self {
        Self(LoomWord::new(value))
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        AtomicWord::replace(&self.0, old, new)
    }

    fn raise(&self, value: u64) {
        AtomicWord::raise(&self.0, value);
    }
}

/// A ring of lines that are stored and loaded without order of their own: a line that the order shows too early, or
/// reserves too early, has another value.
struct Ring<W> {
    order: RecordOrder<W>,
    lines: Vec<LoomWord>,
}

impl<W: AtomicWord> Ring<W> {
    fn new(lines: u64, window: u64) -> Self {
        let order = RecordOrder::with_window(RingStart { head: 0, end: 0, lines }, window);
        Self { order, lines: (0..lines).map(|_| LoomWord::new(0)).collect() }
    }

    fn line(&self, position: u64) -> &LoomWord {
        &self.lines[(position % self.lines.len() as u64) as usize]
    }

    /// Appends `lines` lines that hold their position plus 1. If no place is free, advances the durable end and
    /// retries.
    fn append(&self, lines: u64) -> u64 {
        let start = loop {
            match self.order.reserve(lines, u64::MAX >> 2) {
                Ok(start) => break start,
                Err(ReserveRefusal::Closed) => thread::yield_now(),
                Err(_) => {
                    self.advance_durable();
                    thread::yield_now();
                }
            }
        };
        for position in start..start + lines {
            self.line(position).store(position + 1, Ordering::Relaxed);
        }
        self.order.finish(start, start + lines, true);
        self.advance_durable();
        start
    }

    fn advance_durable(&self) {
        let reach = self.order.reach();
        assert!(reach.persisted);
        self.order.set_durable(reach.end);
    }

    /// Reads every line from `from` to the durable end; each is whole and has its own position (WO2, WO3).
    fn read(&self, from: u64) -> u64 {
        let end = self.order.durable();
        for position in from..end {
            assert_eq!(self.line(position).load(Ordering::Relaxed), position + 1, "WO2: a hole");
        }
        end
    }
}

/// Two writers and a reader that drains.
fn writers_and_reader<W: AtomicWord + 'static>(lines: u64, window: u64, each: [u64; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let ring = Arc::new(Ring::<W>::new(lines, window));
        let writers = each.map(|lines| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.append(lines))
        });
        let end = ring.read(0);
        ring.order.cut(end);
        let starts = writers.map(|writer| writer.join().unwrap());
        assert_ne!(starts[0], starts[1], "WO1: one place twice");
        ring.advance_durable();
        assert_eq!(ring.read(end), each.iter().sum::<u64>(), "all that was appended is there");
    });
}

#[test]
fn wo1_wo2_two_writers_and_a_reader_in_every_order() {
    writers_and_reader::<LoomWord>(4, 4, [1, 2]);
}

/// A window of one mark: the second writer waits until the durable end has passed the mark of the first.
#[test]
fn wo3_a_mark_is_not_reused_before_it_was_passed() {
    writers_and_reader::<LoomWord>(4, 1, [1, 1]);
}

#[test]
#[should_panic(expected = "WO2: a hole")]
fn canary_marks_without_release_are_caught() {
    writers_and_reader::<RelaxedWord>(4, 4, [1, 2]);
}

thread_local! {
    /// The operation of another thread, run right after the next load.
    static BETWEEN: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// A word whose loader is interrupted right after the load. (The model checker remembers only the newest access to a
/// word, and so misses this order.)
struct Interrupted(AtomicU64);

impl AtomicWord for Interrupted {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    fn load(&self) -> u64 {
        let value = AtomicWord::load(&self.0);
        if let Some(between) = BETWEEN.take() {
            between();
        }
        value
    }

    fn store(&self, value: u64) {
        AtomicWord::store(&self.0, value);
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        AtomicWord::replace(&self.0, old, new)
    }

    fn raise(&self, value: u64) {
        AtomicWord::raise(&self.0, value);
    }
}

/// A reader that starts at a durable end which has moved on since does not trust the mark of a later record there.
#[test]
fn wo3_a_mark_of_a_later_record_is_not_believed() {
    let order = Rc::new(RecordOrder::<Interrupted>::with_window(RingStart { head: 0, end: 0, lines: 4 }, 2));
    assert_eq!(order.reserve(1, 1000), Ok(0));
    order.finish(0, 1, true);
    let other = Rc::clone(&order);
    BETWEEN.set(Some(Box::new(move || {
        other.set_durable(other.reach().end);
        // Line 1 is still being copied; line 2 has the mark that line 0 had.
        assert_eq!((other.reserve(1, 1000), other.reserve(1, 1000)), (Ok(1), Ok(2)));
        other.finish(2, 3, true);
    })));
    assert_eq!(order.reach().end, 1, "WO2: a hole");
}

/// A ring of two lines that three appends go around: the next line takes the place of a drained one.
#[test]
fn wo1_a_line_is_written_again_only_after_the_head_has_passed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let ring = Arc::new(Ring::<LoomWord>::new(2, 2));
        let writer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || (0..3).map(|_| ring.append(1)).collect::<Vec<_>>()
        });
        let mut read = 0;
        while read < 1 {
            let end = ring.read(read);
            ring.order.cut(end);
            read = end;
            thread::yield_now();
        }
        assert_eq!(writer.join().unwrap(), [0, 1, 2]);
        assert_eq!(ring.read(read), 3);
    });
}

/// WO4: after a close no place is reserved until the order opens, and reserved places are finished.
#[test]
fn wo4_a_closed_order_gives_out_nothing() {
    loom::model(|| {
        let ring = Arc::new(Ring::<LoomWord>::new(4, 4));
        let writer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.append(1)
        });
        ring.order.close();
        while ring.order.reach().end < ring.order.tail() {
            thread::yield_now();
        }
        let still = ring.order.tail();
        thread::yield_now();
        assert_eq!(ring.order.tail(), still, "WO4: a place was given out");
        ring.order.open();
        writer.join().unwrap();
    });
}

#[test]
fn refusals_say_what_is_the_matter() {
    let order = RecordOrder::<AtomicU64>::with_window(RingStart { head: 5, end: 6, lines: 8 }, 2);
    assert_eq!(order.reserve(8, 1000), Err(ReserveRefusal::Full { free: 7 }));
    assert_eq!(order.reserve(7, 10), Err(ReserveRefusal::Exhausted));
    assert_eq!(order.reserve(2, 1000), Ok(6));
    assert_eq!(order.reserve(1, 1000), Err(ReserveRefusal::Behind));
    order.finish(6, 8, false);
    assert_eq!(order.reach(), FinishedReach { end: 8, persisted: false });
    order.set_durable(8);
    assert_eq!((order.reserve(1, 1000), order.tail(), order.durable()), (Ok(8), 9, 8));
}
