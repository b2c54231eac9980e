//! Planted bugs, and places where tests stop a thread.
//!
//! The feature `planted` compiles them in, and only dev-dependencies turn it on. Without it both macros expand to
//! nothing. With it each name is stored as `planted: fs: NAME`, so a search of a released program finds it.

#[cfg(feature = "planted")]
use std::cell::{Cell, RefCell};

/// Runs `$body` at a place where a test has planted the bug called `$bug`, or takes `$bad` for `$good` there.
#[macro_export]
macro_rules! planted {
    ($bug:ident => $body:expr) => {
        #[cfg(feature = "planted")]
        if $crate::planted::is_planted(concat!("planted: fs: ", stringify!($bug))) {
            $body
        }
    };
    ($bug:ident, $bad:expr, $good:expr) => {{
        #[cfg(feature = "planted")]
        let value = if $crate::planted::is_planted(concat!("planted: fs: ", stringify!($bug))) { $bad } else { $good };
        #[cfg(not(feature = "planted"))]
        let value = $good;
        value
    }};
}

/// Calls the test's hook at the place called `$point`.
#[macro_export]
macro_rules! stop_point {
    ($point:ident) => {
        #[cfg(feature = "planted")]
        $crate::planted::stop_at(concat!("planted: fs: ", stringify!($point)));
    };
}

#[cfg(feature = "planted")]
type StopHook = Box<dyn Fn(&str)>;

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    static STOP_HOOK: RefCell<Option<StopHook>> = const { RefCell::new(None) };
}

/// Plants the bug called `bug` for the calling thread, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<&'static str>) {
    PLANTED.set(bug);
}

/// The text before each name in the program.
#[cfg(feature = "planted")]
const MARKER: &str = "planted: fs: ";

/// Returns true if the calling thread has planted the bug of `place`, which is the marker and the name.
#[cfg(feature = "planted")]
pub fn is_planted(place: &str) -> bool {
    PLANTED.get().is_some() && PLANTED.get() == place.strip_prefix(MARKER)
}

/// Calls the hook of the calling thread, if it has one, with the name of `place`, which is the marker and the name.
#[cfg(feature = "planted")]
pub fn stop_at(place: &str) {
    STOP_HOOK.with_borrow(|hook| {
        if let Some((hook, point)) = hook.as_ref().zip(place.strip_prefix(MARKER)) {
            hook(point);
        }
    });
}

/// Has the calling thread call `hook` at each stop point from now on.
#[cfg(feature = "planted")]
pub fn stop_by(hook: impl Fn(&str) + 'static) {
    STOP_HOOK.set(Some(Box::new(hook)));
}
