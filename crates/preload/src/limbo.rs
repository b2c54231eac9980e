//! What nobody finds any more, and somebody who pinned before may still be using.
//!
//! Who pinned may stand still: in a handler of a signal, which waits for the very thread that waits here, as collectors of
//! garbage stop all others. So nobody is waited for for long, and what could not be let go of is so behind a later wait.

use std::any::Any;
use std::mem;
use std::time::{Duration, Instant};

use ferrite_memory::{is_pinned, wait_for_pins_until};

use crate::lock::Lock;
use crate::signals;

/// How long pins are waited for: longer than a copy takes unless its thread is not running.
const PATIENCE: Duration = Duration::from_millis(10);

type Things = Vec<Box<dyn Any + Send>>;

static LEFT: Lock<Things> = Lock::new(Vec::new());

/// Waits until every pin of now is gone, but not for long; whether they are.
pub fn wait() -> bool {
    let began = Instant::now();
    wait_for_pins_until(|| began.elapsed() >= PATIENCE)
}

/// The same for who may be called by a handler of a signal, which does not wait for what it interrupted.
pub fn wait_for_others() {
    if !is_pinned() {
        wait();
    }
}

/// Drops `thing` when every pin of now is gone, by a thread that is inside and not pinned.
pub fn let_go(thing: impl Send + 'static) {
    // What is left was so before this wait begins.
    let mut left = mem::take(&mut *LEFT.lock());
    if wait() {
        drop(thing);
        if !left.is_empty() {
            // There may be leases, which are given back to an owner.
            signals::waiting(|| drop(left));
        }
        return;
    }
    left.push(Box::new(thing));
    LEFT.lock().append(&mut left);
}

/// Nobody changes what is left until [`thaw`] or [`forget_in_child`].
pub fn freeze() {
    mem::forget(LEFT.lock());
}

pub fn thaw() {
    LEFT.open();
}

/// In a child: leases are its parent's.
pub fn forget_in_child() {
    LEFT.open();
    mem::forget(mem::take(&mut *LEFT.lock()));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::file::wait_a_little;
    use crate::inside;

    /// As where a handler of a signal interrupts a copy, and waits for who closes a descriptor.
    #[test]
    fn ld5_who_lets_go_of_something_does_not_wait_for_ever_and_nothing_is_dropped_under_a_pin() {
        let thing = Arc::new(());
        let ((pinned, is_pinned), (unpin, may_unpin), (gone_on, has_gone_on)) = (channel(), channel::<()>(), channel());
        let copying = thread::spawn(move || {
            let pin = ferrite_memory::pin();
            pinned.send(()).expect("the test listens");
            let _ = may_unpin.recv();
            drop(pin);
        });
        is_pinned.recv().expect("it pins");
        let let_go_of = |thing| {
            let _inside = inside::enter();
            let_go(thing);
        };
        let kept = Arc::clone(&thing);
        thread::spawn(move || {
            let_go_of(kept);
            gone_on.send(()).expect("the test listens");
        });
        has_gone_on.recv_timeout(Duration::from_secs(30)).expect("it goes on under the pin of another thread");
        assert_eq!(Arc::strong_count(&thing), 2, "which may be using it");
        drop(unpin);
        copying.join().expect("it ends");
        let is_dropped = || {
            let_go_of(Arc::new(()));
            Arc::strong_count(&thing) == 1
        };
        wait_a_little(is_dropped);
        assert!(is_dropped(), "when nobody can be using it any more");
    }
}
