//! An example of a service: it stores counters in a tag of the pool. The page docs/add-a-service.md goes through it.
//!
//! ```text
//! tag     kind 0x7f01, one DATA page
//!   slot n   0 word u64   16 name [48], zeros behind it; 64 bytes each
//!
//! word    the count, as a checked word (see `ferrite_pool::checked_word`) of the low half of the tag's generation
//! ```
//!
//! A slot is free while the first byte of its name is zero.
//!
//! - CN1. A count that an addition returned is durable. A crash leaves each count old or new.
//! - CN2. A name is whole or absent: the word and the other bytes of the name are durable before its first byte.
//! - CN3. What a crash leaves in a free slot never shows in the counter that takes the slot later.
//! - CN4. The file with the sum is replaced whole, and the tie of pool and file moves on with each new sum. After a crash
//!   at any instant the two match, and the file has the last sum that was written durably or a later one.
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
