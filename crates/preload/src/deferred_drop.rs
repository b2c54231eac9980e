//! Values that no thread finds any more, but a thread that pinned before may still use.
//!
//! A pinned thread may stand still: in a signal handler that waits for the very thread that waits here, as garbage
//! collectors stop all others. So waits are short, and a value that could not be dropped is dropped after a later wait.

use std::any::Any;
use std::mem;
use std::time::{Duration, Instant};

use ferrite_memory::{is_pinned, wait_for_pins_until};

use crate::fork_lock::ForkLock;
use crate::signals;

/// The longest wait for pins: longer than a copy takes unless its thread is not running.
const PATIENCE: Duration = Duration::from_millis(10);

type DeferredDrops = Vec<Box<dyn Any + Send>>;

static LEFT: ForkLock<DeferredDrops> = ForkLock::new(Vec::new());

/// Waits briefly until every current pin has ended. Returns true if they have.
pub fn wait() -> bool {
    let began = Instant::now();
    wait_for_pins_until(|| began.elapsed() >= PATIENCE)
}

/// Waits as [`wait`] does, unless this thread is pinned: a signal handler must not wait for the code that it
/// interrupted.
pub fn wait_for_others() {
    if !is_pinned() {
        wait();
    }
}

/// Drops `thing` after every current pin has ended, by a thread that is inside and not pinned.
pub fn drop_later(thing: impl Send + 'static) {
    // The remaining values were deferred before this wait begins.
    let mut left = mem::take(&mut *LEFT.lock());
    if wait() {
        drop(thing);
        if !left.is_empty() {
            // Leases may be among them, which are released to an owner.
            signals::with_fatal_signals(|| drop(left));
        }
        return;
    }
    left.push(Box::new(thing));
    LEFT.lock().append(&mut left);
}

/// Locks the deferred values until [`thaw`] or [`forget_in_child`].
pub fn freeze() {
    mem::forget(LEFT.lock());
}

pub fn thaw() {
    LEFT.open();
}

/// Forgets the deferred values in a child: leases are its parent's.
pub fn forget_in_child() {
    LEFT.open();
    mem::forget(mem::take(&mut *LEFT.lock()));
}

#[cfg(test)]
mod tests;
