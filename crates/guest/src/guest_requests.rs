//! Requests to the service of guests, and its reports.

use std::path::{Path, PathBuf};

use ferrite_owner::{NamedPlaces, TypedRequest};
use serde::{Deserialize, Serialize};

use crate::guest_stats::GuestCounts;

/// The name of the service.
pub const GUEST: &str = "guest";

/// A request of the service of guests.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum GuestRequest {
    /// Lists the guests: [`GuestReport`]s. Opens none.
    List,
    /// Makes a guest, durable when the call returns: a [`GuestReport`].
    Create {
        /// The name of the guest.
        name: String,
        /// The bytes of the guest.
        size: u64,
        /// The bytes of the pool that hold its pages; `None`: half of what is free.
        pm_bytes: Option<u64>,
        /// The disk.
        disk: GuestDiskPlace,
    },
    /// Opens and describes a guest: a [`GuestReport`].
    Stat {
        /// The name of the guest.
        name: String,
    },
    /// Writes all newer pages to the disk: a [`GuestReport`]. A cancelled call loses nothing.
    Flush {
        /// The name of the guest.
        name: String,
    },
    /// Changes the bytes of the pool that hold a guest's pages, durable when the call returns: a [`GuestReport`]. A guest
    /// that becomes smaller is flushed first.
    Resize {
        /// The name of the guest.
        name: String,
        /// The bytes of the pool.
        pm_bytes: u64,
    },
    /// Lends a guest to the calling process: a [`ferrite_pool::holding::Loan`], with the pool's memory and the words that
    /// the owner shares.
    Lend {
        /// The name of the guest.
        name: String,
    },
    /// Flushes a guest and removes it.
    Remove {
        /// The name of the guest.
        name: String,
        /// The bytes that the pool alone has, which are lost: nothing is written to the disk then.
        #[serde(default)]
        lose: Option<u64>,
    },
}

/// The disk of a new guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestDiskPlace {
    /// The address, with absolute paths.
    pub address: String,
    /// The absolute path of the file or device in it; empty if it names none.
    #[serde(default, with = "ferrite_owner::paths::exact")]
    pub path: PathBuf,
}

impl TypedRequest for GuestRequest {
    const SERVICE: &'static str = GUEST;

    fn places(&self) -> NamedPlaces<'_> {
        let path = match self {
            Self::Create { disk, .. } if disk.path != Path::new("") => Some(disk.path.as_path()),
            _ => None,
        };
        NamedPlaces::of_paths(path)
    }
}

/// A guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestReport {
    /// The name.
    pub name: String,
    /// The bytes of the guest.
    pub size: u64,
    /// The bytes of the pool that hold its pages.
    pub pm_bytes: u64,
    /// The address of the disk; `None` if it is damaged.
    pub disk: Option<String>,
    /// The counts since the guest was opened, here or in another process; `None` if it is not open.
    pub counts: Option<GuestCounts>,
    /// The error of the last batch, if it failed.
    pub why: Option<String>,
    /// The process that has the guest as a region, if one has.
    pub pid: Option<u32>,
}
