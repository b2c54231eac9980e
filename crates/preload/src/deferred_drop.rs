//! What nobody finds any more, and somebody who pinned before may still be using.
//!
//! Who pinned may stand still: in a handler of a signal, which waits for the very thread that waits here, as collectors of
//! garbage stop all others. So nobody is waited for for long, and what could not be let go of is so behind a later wait.

use std::any::Any;
use std::mem;
use std::time::{Duration, Instant};

use ferrite_memory::{is_pinned, wait_for_pins_until};

use crate::fork_lock::ForkLock;
use crate::signals;

/// How long pins are waited for: longer than a copy takes unless its thread is not running.
const PATIENCE: Duration = Duration::from_millis(10);

type DeferredDrops = Vec<Box<dyn Any + Send>>;

static LEFT: ForkLock<DeferredDrops> = ForkLock::new(Vec::new());

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
pub fn drop_later(thing: impl Send + 'static) {
    // What is left was so before this wait begins.
    let mut left = mem::take(&mut *LEFT.lock());
    if wait() {
        drop(thing);
        if !left.is_empty() {
            // There may be leases, which are given back to an owner.
            signals::with_fatal_signals(|| drop(left));
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
mod tests;
