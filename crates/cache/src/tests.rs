//! A cache over members that lie, against a model, and through crashes.

mod cache_rig;
mod crashes;
mod failures;
mod golden;
mod late_buffers;
mod model;
mod openings;
mod rules;

pub(crate) use cache_rig::{BLOCKS, CacheRig, LEB, RigOpener, RigShape, block_of, geometry, members_of, open_pool};
pub(crate) use crashes::{kill_options, options};
pub(crate) use failures::TestClock;
