//! Trace-driven models that show how a cache policy or a flash layer affects the life of a memory.
//!
//! Results are deterministic to the bit: the same input gives the same figures on any number of threads.

pub mod block_trace;
pub mod cache;
mod detect;
mod error;
pub mod ftl;
mod host_memory;
mod prefetch;
mod read_ahead;
pub mod record;
mod split_mix;
#[cfg(test)]
#[path = "tests/support.rs"]
mod support;
pub mod trace;
mod trace_input;

pub use error::{Error, Result};
pub use read_ahead::{NextPart, PartStream};
pub use trace_input::TraceInput;
