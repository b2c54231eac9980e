//! A service: virtual persistent memory. A guest has more bytes than its part of the pool; the rest lies on a disk.
//!
//! ```text
//!   client ------ GuestDisk -----+
//!   program's stores -- Plane -- GuestEngine --- frames in the pool, with a word each
//!                                            +-- the disk: the guest's bytes in place
//!
//!   page on the disk --promote--> truth --demote--> copy --reclaim--> page on the disk
//!                                   ^-----store------+
//! ```
//!
//! A page is *truth* if its frame alone has the newest bytes, and a *copy* if its frame and the disk have the same bytes.
//!
//! - VR1. Each page has one truth: the frame whose word says so, else the disk. An acknowledged write, and a program's
//!   store that was flushed and fenced, is in the page's truth after a crash.
//! - VR2. A program stores only through a mapping onto the page's truth, made after the word of the frame was durable.
//! - VR3. A word says truth only behind durable bytes: the bytes of the page's earlier truth, or newer bytes of a client.
//! - VR4. A truth becomes a copy, or its frame free, only behind a flush of the disk that began after the page's write had
//!   completed, and only if no store reached the page since its bytes were read.
//! - VR5. A word says copy only if the durable bytes of the frame are the disk's: the lines of the frame are written back
//!   first, and no byte of another page goes into the frame before the word is durably zero. So a copy is right after a
//!   crash.
//! - VR6. One frame at most names a page. A page with a copy is promoted into the frame of the copy.
//! - VR7. One batch at a time writes to the disk, and nothing else does: no older write of a page ends after a newer one.
//! - VR8. The order of copies, the hand, the marks of use and the sizes of runs change speed only.
//! - VR9. While the pool stands still nothing is stored into it. Behind a copy of the pool the tie to the disk moves to a
//!   new generation before the next write of the disk begins.
//! - VR10. No lock is held while the disk works or a plane stages.
//!
//! Source: "Virtual Persistent Memory" (resident types a to d, promotion on a write fault, book-keeping ahead of the
//! change, batches, lazy reallocation, CLOCK).

mod budget;
mod demote;
mod error;
mod frame_change;
mod frame_space;
mod frame_table;
mod frame_word;
mod ghost_pages;
mod guest_disk;
mod guest_engine;
mod guest_header;
mod guest_image;
mod guest_images;
mod guest_layout;
mod guest_region;
mod guest_requests;
mod guest_resize;
mod guest_service;
mod guest_share;
mod guest_size;
mod guest_spec;
mod guest_stats;
mod guest_tie;
mod guest_walk;
mod lent_guest;
mod open_guests;
mod opening_guests;
mod page_frames;
mod para_disk;
mod para_memory;
mod para_region;
mod pending_change;
mod persist_ranges;
mod plane;
mod promote;
mod run_sizer;
mod shared_budget;
mod trap_plane;

use ferrite_pool::TagKind;

pub use demote::{DemotionPolicy, GuestStep};
pub use error::{GuestError, Result};
pub use guest_disk::GuestDisk;
pub use guest_engine::GuestEngine;
pub use guest_layout::GuestLayout;
pub use guest_region::GuestRegion;
pub use guest_requests::{
    BudgetReport, GUEST, GuestDiskPlace, GuestImageReport, GuestReport, GuestRequest, PmRange, ShareReport,
};
pub use guest_service::GuestService;
pub use guest_share::{GuestShare, USUAL_WEIGHT};
pub use guest_spec::GuestSpec;
pub use guest_stats::GuestCounts;
pub use lent_guest::BorrowedGuest;
pub use open_guests::{DiskOpener, OpenGuests};
pub use para_disk::ParaDisk;
pub use para_memory::ParaMemory;
pub use para_region::ParaRegion;
pub use plane::{DirectPlane, Plane};
pub use trap_plane::TrapPlane;

/// The kind of tags of guests.
pub const GUEST_KIND: TagKind = TagKind::GUEST;

/// Pages that a run has at most: 128 KiB.
const RUN_PAGES: u64 = 32;

#[cfg(test)]
pub(crate) mod tests;
