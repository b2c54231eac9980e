//! A wait that ends soon, whatever another process does.

use std::time::Duration;

/// Looks at a pin before a sleep.
const SPINS: u32 = 2000;
/// Sleeps between looks, and how many: some 10 ms.
const NAP: Duration = Duration::from_micros(50);
const NAPS: u32 = 200;

/// Waits until `is_done` returns true, for at most some 10 ms. Returns false if it did not.
pub fn wait_briefly(is_done: impl Fn() -> bool) -> bool {
    for _ in 0..SPINS {
        if is_done() {
            return true;
        }
        std::hint::spin_loop();
    }
    (0..NAPS).any(|_| {
        std::thread::sleep(NAP);
        is_done()
    })
}
