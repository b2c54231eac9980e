//! Bytes that persist, and sectors that persist: the two waists everything in Ferrite rests on.
//!
//! [`Memory`] is what persistent memory is: load, store, flush, fence, barrier. [`Disk`] is what every
//! block-shaped thing is: read, write, flush, trim. Services are written against these two traits alone.

mod area;
pub mod copy;
mod cpu;
mod disk;
mod error;
pub mod fault;
mod guard;
mod mapped;
mod memory;
mod scheme;
mod shard;
mod span;

pub use cpu::{Cpu, LineFlush, StreamWidth};
pub use disk::{Access, Completion, Disk, Geometry, Op, Request, Run, Zeroing};
pub use error::{Error, Result};
pub use guard::Guard;
pub use mapped::{Backing, MapOptions, Mapped};
pub use memory::{Memory, Shared, Survival};
pub use scheme::Scheme;
pub use span::Span;
