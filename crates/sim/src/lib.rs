//! Trace-driven models: what a cache policy or a flash layer does to the life of a memory, before anyone buys it.
//!
//! Deterministic to the bit: the same input gives the same figures on any number of threads.

pub mod cache;
mod error;
mod input;

pub use error::{Error, Result};
pub use input::Input;
