//! Tags that are lent to processes beside the owner: both ends of it.

mod office;
mod orphans;
mod tenant;

pub use office::{Request, answer};
pub use orphans::end_orphans;
pub use tenant::Tenant;
