//! Bugs that tests plant in product code.
//!
//! A canary test plants a bug to show that a proof notices it. The place of the bug is one line:
//! `planted!("block: word before data" => return Ok(()));`, or `if planted!("block: word before data") { ... }`. The feature
//! `planted` enables the macro, and only dev-dependencies turn the feature on. Without the feature the macro is the
//! constant `false`, and no name of a bug reaches the program. With the feature each name is stored as `planted: NAME`, so
//! a search of a program for `planted: ` shows whether it can misbehave.
//!
//! A bug is planted either in the calling thread or in all threads of the process. The `_with` functions
//! take a closure instead, which runs at each visit of the place and returns whether the bug acts. A closure
//! can count visits, and can pause a thread at the place.

/// Returns true if the bug of this name is planted for the calling thread. See [`planted`](mod@crate::planted).
#[cfg(any(test, feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is_planted(concat!("planted: ", $name))
    };
    ($name:literal => $body:expr) => {
        if $crate::planted!($name) {
            $body
        }
    };
}

/// Always `false`: the feature `planted` is off.
#[cfg(not(any(test, feature = "planted")))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        false
    };
    ($name:literal => $body:expr) => {
        if false {
            $body
        }
    };
}

#[cfg(any(test, feature = "planted"))]
pub use registry::{PlantedBug, is_planted, plant, plant_in_process, plant_in_process_with, plant_with};

#[cfg(any(test, feature = "planted"))]
mod registry;
#[cfg(test)]
mod tests;
