//! Tags that the owner lends to this process: the client's side of the service "lease".

mod orphans;
mod remote_tags;
mod tag_access;

#[cfg(test)]
mod tests;

pub use orphans::end_orphans;
pub use remote_tags::RemoteTags;
pub use tag_access::TagAccess;
