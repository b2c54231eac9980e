//! An example of a service: it stores counters in a tag of the pool. The page docs/add-a-service.md goes through it.
//!
//! ```text
//! tag     kind 0x7f01, one DATA page
//!   slot n   0 word u64   16 name [48], zeros behind it; 64 bytes each
//!
//! word    the count, sealed (see `ferrite_pool::sealed`) with the low half of the tag's generation
//! ```
//!
//! A slot is free while its name is empty. A new counter's word is durable before its name is, and a count changes by one
//! atomic store, so a crash leaves each counter old or new.
//!
//! The tag is also a disk, read-only: eight sectors with the bytes of the page. In the background the service writes the
//! sum of all counters to a file that is a member of the pool.

mod disk;
mod member;
mod page;
mod requests;
mod service;

pub use member::{MemberFile, read_sum};
pub use requests::{COUNTERS, CounterReport, CounterRequest};
pub use service::{COUNTER_KIND, CounterService, OpenCounters};
