//! The built-in services: each owner answers them, whatever its program links.

mod lease;
mod pool;
mod tag;

pub use lease::LeaseRequest;
pub(crate) use lease::answer as answer_lease;
pub use pool::{BackupOutside, BackupReport, PoolRequest};
pub(crate) use pool::{answer as answer_pool, report as pool_report};
pub(crate) use tag::answer as answer_tag;
pub use tag::{GrantReport, TagRequest};

use ferrite_pool::{Failure, FailureKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ServiceReply;

/// The requests about the pool as a whole.
pub const POOL: &str = "pool";
/// The requests about tags by their names, and grants on plain bytes.
pub const TAG: &str = "tag";
/// The requests of processes that store into tags by themselves.
pub const LEASE: &str = "lease";

/// The names of the built-in services.
pub(crate) const BUILT_IN: [&str; 3] = [POOL, TAG, LEASE];

/// Reads a request of `service`.
///
/// # Errors
/// [`FailureKind::BadRequest`].
pub fn parse<T: DeserializeOwned>(service: &str, request: Value) -> Result<T, Failure> {
    serde_json::from_value(request).map_err(|error| {
        let why = format!("the service {service:?} of this version has no such request: {error}");
        Failure::new(FailureKind::BadRequest, why)
    })
}

/// Returns a reply of `value`, without descriptors.
///
/// # Errors
/// [`FailureKind::Failed`] if `value` has no JSON.
pub fn reply(value: &impl Serialize) -> Result<ServiceReply, Failure> {
    Ok(ServiceReply { value: serde_json::to_value(value).map_err(Failure::failed)?, fds: Vec::new() })
}

#[cfg(test)]
mod tests;
