//! The exports of a server: their names, disks and the properties reported to clients.

use std::sync::Arc;

use ferrite_disk::{Disk, Geometry};

use super::consts::transmission;
use super::session::REQUEST_MAX_BYTES;

/// The reason why an export is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no export of this name.
    #[error("no such export")]
    Unknown,
    /// The export exists, but the server denies it; the text is for the client.
    #[error("{0}")]
    Denied(String),
}

/// The exports of a server. Connection threads call it, only during the handshake.
pub trait Exports: Send + Sync {
    /// Returns the names of the exports. The first is the default export, which clients request by the empty name.
    fn list(&self) -> Vec<String>;

    /// Returns the disk of that name, which the connection keeps until it ends.
    ///
    /// # Errors
    /// Returns [`Refusal`], which the server reports to the client.
    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Refusal>;

    /// Returns a line for people that describes the export of that name.
    fn description(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// An opened export.
pub(super) struct Export {
    /// The export's own name, even if the client requested it by the empty name.
    pub name: String,
    /// The disk of the export.
    pub disk: Arc<dyn Disk>,
}

impl Export {
    /// Opens the export that a client requests as `asked`.
    pub fn open(exports: &dyn Exports, asked: &str) -> Result<Self, Refusal> {
        let name = resolve(exports, asked)?;
        let disk = exports.open(&name)?;
        Ok(Self { name, disk })
    }
}

/// Returns the name of the export that a client requests as `asked`.
fn resolve(exports: &dyn Exports, asked: &str) -> Result<String, Refusal> {
    if asked.is_empty() { exports.list().into_iter().next().ok_or(Refusal::Unknown) } else { Ok(asked.to_owned()) }
}

/// Returns the transmission flags of a disk. Multi-conn holds for every [`Disk`], by its rule D2.
pub(super) fn transmission_flags(geometry: &Geometry, structured: bool) -> u16 {
    use transmission as flag;
    let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN | flag::SEND_CACHE;
    if structured {
        flags |= flag::SEND_DF;
    }
    if geometry.read_only {
        return flags | flag::READ_ONLY;
    }
    if geometry.trim {
        flags |= flag::SEND_TRIM;
    }
    flags | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO
}

/// Returns the smallest, preferred and largest request in bytes in the form that BLOCK_SIZE requires: powers of two, in
/// this order.
pub(super) fn block_sizes(geometry: &Geometry) -> [u32; 3] {
    let least = geometry.sector_bytes;
    let most = REQUEST_MAX_BYTES as u32;
    let preferred = geometry.preferred_bytes.clamp(least.max(512), most / 2).next_power_of_two();
    [least, preferred, most]
}

#[cfg(test)]
mod tests;
