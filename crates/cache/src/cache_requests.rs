//! Requests to the service of caches.

use std::path::{Path, PathBuf};

use ferrite_owner::{NamedPlaces, TypedRequest};
use serde::{Deserialize, Serialize};

use crate::settings_change::SettingsChange;
use crate::{CacheCheckOptions, StampPlace};

/// The name of the service.
pub const CACHE: &str = "cache";

/// A request of the service of caches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum CacheRequest {
    /// Lists the caches: [`crate::CacheReport`]s. Opens none.
    List,
    /// Makes a cache, durable when the call returns: a [`crate::CreatedCache`].
    Create {
        /// The name of the cache.
        name: String,
        /// The disks.
        disks: Vec<NewCacheDisk>,
        /// The SSDs.
        ssds: Vec<MemberAddress>,
        /// The settings that are not the defaults.
        #[serde(default)]
        settings: SettingsChange,
        /// Bytes of a LEB.
        leb_bytes: u64,
        /// Bytes of all buffers.
        buffer_bytes: u64,
        /// The bytes of SSDs with content that may be lost.
        lose: Option<u64>,
    },
    /// Opens all caches: [`crate::CacheReport`]s.
    OpenAll,
    /// Opens and describes a cache: a [`crate::CacheStats`].
    Stat {
        /// The name of the cache.
        name: String,
    },
    /// Changes settings: a [`crate::CacheReport`].
    Set {
        /// The name of the cache.
        name: String,
        /// The settings that change.
        settings: SettingsChange,
    },
    /// Writes all dirty data to the disks: a [`crate::CacheReport`]. A cancelled call loses nothing.
    Clean {
        /// The name of the cache.
        name: String,
    },
    /// Checks a cache: a [`crate::CacheCheckReport`].
    Check {
        /// The name of the cache.
        name: String,
        /// What is checked besides the pool.
        #[serde(flatten)]
        options: CacheCheckOptions,
    },
    /// Empties the clean part of a cache: a [`crate::DroppedContent`].
    Drop {
        /// The name of the cache.
        name: String,
    },
    /// Adds an SSD while the cache is used: its [`crate::SsdStats`].
    AddSsd {
        /// The name of the cache.
        name: String,
        /// The SSD.
        ssd: MemberAddress,
        /// The bytes of an SSD with content that may be lost.
        lose: Option<u64>,
    },
    /// Removes an SSD while the cache is used, after its pages have moved: a [`crate::CacheReport`]. A cancelled call leaves
    /// the SSD leaving.
    RemoveSsd {
        /// The name of the cache.
        name: String,
        /// The number of the SSD.
        id: u8,
        /// The dirty bytes of this SSD that no SSD gives, which are lost.
        #[serde(default)]
        lose: Option<u64>,
    },
    /// Keeps an SSD that is leaving: its [`crate::SsdStats`].
    KeepSsd {
        /// The name of the cache.
        name: String,
        /// The number of the SSD.
        id: u8,
    },
    /// Uses an SSD again that failed or is missing: a [`crate::ReturnedSsd`].
    Online {
        /// The name of the cache.
        name: String,
        /// The number of the SSD.
        id: u8,
        /// The dirty bytes that may be lost if it comes back empty.
        lose: Option<u64>,
    },
    /// Adds a disk while the cache is used: its [`crate::DiskStats`].
    AddDisk {
        /// The name of the cache.
        name: String,
        /// The disk, with a name.
        disk: NewCacheDisk,
    },
    /// Removes a disk that no client uses, after its dirty data is written to it: a [`crate::CacheReport`].
    RemoveDisk {
        /// The name of the cache.
        name: String,
        /// The name of the disk.
        export: String,
    },
    /// Removes a cache that no client uses, after its dirty data is written to the disks, and releases its members: a
    /// [`crate::CacheReport`] of the cache as it was. With `lose`, nothing is written.
    Remove {
        /// The name of the cache.
        name: String,
        /// The dirty bytes that may be lost.
        lose: Option<u64>,
    },
    /// Drops the content of a cache whose pool or members are of another time: a [`crate::ForgottenContent`].
    Forget {
        /// The name of the cache.
        name: String,
        /// The dirty bytes that may be lost; 0 for clean content alone.
        lose: u64,
    },
}

/// The address of an SSD or a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAddress {
    /// The address, with absolute paths.
    pub address: String,
    /// The absolute path of the file or device in it; empty if it names none.
    #[serde(default, with = "ferrite_owner::paths::exact")]
    pub path: PathBuf,
}

impl MemberAddress {
    /// Returns true if the address names a file or a device.
    pub(crate) fn has_path(&self) -> bool {
        self.path != Path::new("")
    }
}

/// A disk of a new cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCacheDisk {
    /// The name by which users open it; `None`: the name of the cache.
    pub export: Option<String>,
    /// The address.
    #[serde(flatten)]
    pub at: MemberAddress,
    /// Where its stamp goes.
    #[serde(default)]
    pub stamp: StampPlace,
}

impl CacheRequest {
    /// Returns the members that the request names.
    pub(crate) fn members(&self) -> Vec<&MemberAddress> {
        match self {
            Self::Create { disks, ssds, .. } => disks.iter().map(|disk| &disk.at).chain(ssds).collect(),
            Self::AddSsd { ssd, .. } => vec![ssd],
            Self::AddDisk { disk, .. } => vec![&disk.at],
            _ => Vec::new(),
        }
    }
}

impl TypedRequest for CacheRequest {
    const SERVICE: &'static str = CACHE;

    fn places(&self) -> NamedPlaces<'_> {
        let members = self.members().into_iter().filter(|member| member.has_path());
        NamedPlaces::of_paths(members.map(|member| member.path.as_path()))
    }
}
