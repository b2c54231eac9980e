//! Trace-driven models: what a cache policy or a flash layer does to the life of a memory, before anyone buys it.
//!
//! Deterministic to the bit: the same input gives the same figures on any number of threads.

mod ahead;
pub mod block_trace;
pub mod cache;
mod detect;
mod error;
pub mod ftl;
mod hint;
mod host_memory;
mod input;
#[cfg(test)]
mod proof;
pub mod record;
pub mod trace;

pub use ahead::{Next, Parts};
pub use error::{Error, Result};
pub use input::Input;
