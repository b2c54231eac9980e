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
        /// The bytes of the pool that hold its pages; `None`: from one chunk to the guest's size.
        pm: Option<PmRange>,
        /// Its weight beside other guests; `None`: the usual one.
        weight: Option<u32>,
        /// The disk.
        disk: GuestDiskPlace,
    },
    /// Changes the share of a guest, also while it is in use, durable when the call returns: a [`GuestReport`]. Its
    /// memory follows later.
    Set {
        /// The name of the guest.
        name: String,
        /// The bytes of the pool that hold its pages; `None`: as before.
        pm: Option<PmRange>,
        /// Its weight; `None`: as before.
        weight: Option<u32>,
    },
    /// Describes the memory that the guests share: a [`BudgetReport`]. Opens none.
    Budget {
        /// Sets the bytes for all guests together, durable when the call returns; 0: half of what the pool has free
        /// beside them; `None`: as before.
        #[serde(default)]
        set_bytes: Option<u64>,
    },
    /// Flushes a guest that no client uses and closes it: a [`GuestReport`]. Its memory is for others from then on.
    Detach {
        /// The name of the guest.
        name: String,
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
    /// Changes the bytes of a guest that no client uses, durable when the call returns: a [`GuestReport`]. A larger guest
    /// needs a disk that is long enough. A cancelled call changes nothing.
    SetSize {
        /// The name of the guest.
        name: String,
        /// The bytes of the guest.
        size: u64,
        /// The bytes that are cut off, in pages that are not zeros; `None`: none are.
        #[serde(default)]
        lose: Option<u64>,
    },
    /// Writes the content of a guest, of one moment, to the empty file whose descriptor comes with the call: a
    /// [`GuestImageReport`]. Clients of the guest wait to write meanwhile.
    Export {
        /// The name of the guest.
        name: String,
    },
    /// Replaces the content of a guest that no client uses by the file whose descriptor comes with the call, durable when
    /// the call returns: a [`GuestImageReport`]. After a failure the guest is refused until an import has ended.
    Import {
        /// The name of the guest.
        name: String,
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

/// The least and the most bytes of the pool for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmRange {
    /// The least, while the guest is in use.
    pub min_bytes: u64,
    /// The most.
    pub max_bytes: u64,
}

impl PmRange {
    /// Returns the range of a guest that always has `bytes`.
    pub fn fixed(bytes: u64) -> Self {
        Self { min_bytes: bytes, max_bytes: bytes }
    }
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
    /// The bytes that it keeps while it is in use.
    pub min_bytes: u64,
    /// The bytes that it never exceeds.
    pub max_bytes: u64,
    /// Its weight beside other guests.
    pub weight: u32,
    /// The address of the disk; `None` if it is damaged.
    pub disk: Option<String>,
    /// The counts since the guest was opened, here or in another process; `None` if it is not open.
    pub counts: Option<GuestCounts>,
    /// The error of the last batch, if it failed.
    pub why: Option<String>,
    /// The process that has the guest as a region, if one has.
    pub pid: Option<u32>,
    /// A change that began and has not ended: `import` or `size`. A guest with an unfinished import does not open.
    pub pending: Option<String>,
}

/// The result of an export or an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestImageReport {
    /// The name of the guest.
    pub name: String,
    /// The bytes of the guest.
    pub size_bytes: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes that are zeros.
    pub zeroed_bytes: u64,
}

/// The memory that the guests of a pool share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// The bytes for all guests together.
    pub bytes: u64,
    /// True if a user set them; else they are half of what guests have and the pool has free, at least what they have.
    pub is_set: bool,
    /// The bytes that the guests have.
    pub given_bytes: u64,
    /// The guests, by name.
    pub guests: Vec<ShareReport>,
}

/// The part of a guest in the memory that guests share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareReport {
    /// The name.
    pub name: String,
    /// The bytes that it has.
    pub pm_bytes: u64,
    /// The bytes that it may have now.
    pub target_bytes: u64,
    /// The bytes that it should have once others have given them.
    pub wanted_bytes: u64,
    /// The bytes that it keeps while it is in use.
    pub min_bytes: u64,
    /// The bytes that it never exceeds.
    pub max_bytes: u64,
    /// Its weight.
    pub weight: u32,
    /// True if a client uses it.
    pub is_used: bool,
    /// Pages of the last second or so that returned from the disk a short while after they had lost their frames.
    pub missed_pages: u64,
    /// What it waits for, or what is waited for from it.
    pub waits_for: Option<String>,
}
