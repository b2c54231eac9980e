//! The engine on memories and disks that lie, with a simulated page table.

mod crashes;
mod disk_model;
mod engine_failures;
pub(crate) mod guest_rig;
mod guest_sizes;
mod imports;
mod lent_region;
mod live_frames;
mod mapped_program;
mod para_crashes;
mod para_pool_crashes;
mod para_program;
mod pool_guest;
mod region_rig;
mod resized;
pub(crate) mod seeded;
mod service;
mod service_images;
mod shared;
