//! Requests to the service of file systems, and its answers.

use std::path::{Path, PathBuf};

use ferrite_cache::MemberAddress;
use ferrite_fs::{DataMode, Statfs, TierReport};
use ferrite_owner::{NamedPlaces, TypedRequest};
use serde::{Deserialize, Serialize};

use super::tier_service::TierRequest;

/// How a file system is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mounting {
    /// Absolute path of the folder.
    #[serde(with = "ferrite_owner::paths::exact")]
    pub point: PathBuf,
    /// Allow the kernel to keep writes back.
    pub cached: bool,
    /// When written data is durable; as the medium has it where `None`.
    pub data: Option<DataMode>,
    /// Let other users in.
    pub allow_other: bool,
    /// Refuse changes.
    pub read_only: bool,
    /// Let set-user-id, set-group-id and file capabilities take effect.
    #[serde(default)]
    pub suid: bool,
    /// Let device nodes be opened.
    #[serde(default)]
    pub dev: bool,
    /// Percent of the space that only root and the owner's user take.
    #[serde(default)]
    pub reserve_percent: u8,
}

/// Which file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Which {
    /// Its name.
    pub name: String,
    /// The mount by which it was found, if the user named a folder.
    #[serde(default)]
    pub seen: Option<SeenMount>,
}

/// A mount of a file system, as the kernel lists it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SeenMount {
    /// The folder.
    #[serde(with = "ferrite_owner::paths::exact")]
    pub point: PathBuf,
    /// Its device number.
    pub device: u64,
}

/// The name of the service of file systems.
pub const FS: &str = "fs";

/// A request of the service of file systems.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum FsRequest {
    /// Lists the file systems: [`FsReport`]s.
    List,
    /// Makes a file system; an [`FsReport`].
    Create {
        /// The name of the file system.
        name: String,
        /// Size in bytes from which files move to superpages; `None` for no file.
        super_threshold_bytes: Option<u64>,
        /// The SSDs of its tier.
        #[serde(default)]
        ssds: Vec<MemberAddress>,
        /// Bytes of SSDs that may hold data, which are lost.
        #[serde(default)]
        lose: Option<u64>,
    },
    /// Gives a file system SSDs; the first ones while it is not mounted. An [`FsReport`].
    AddSsds {
        /// The file system.
        which: Which,
        /// The SSDs.
        ssds: Vec<MemberAddress>,
        /// Bytes of SSDs that may hold data, which are lost.
        #[serde(default)]
        lose: Option<u64>,
    },
    /// Destages all content of a mounted file system that may leave the pool; an [`FsReport`].
    Drain(Which),
    /// Looks at the tier of a file system, or maintains it.
    Tier {
        /// The file system.
        which: Which,
        /// What to do.
        tier: TierRequest,
    },
    /// Removes a file system that is not mounted.
    Remove {
        /// The name of the file system.
        name: String,
    },
    /// Mounts a file system; an [`FsReport`].
    Mount {
        /// The name of the file system.
        name: String,
        /// The folder and the options.
        mounting: Mounting,
    },
    /// Unmounts a file system that is not in use.
    Unmount(Which),
    /// Describes a file system: an [`FsReport`].
    Stat(Which),
}

impl FsRequest {
    /// Returns the file system that has to exist for the request.
    pub fn file_system(&self) -> Option<&str> {
        match self {
            Self::Remove { name } | Self::Mount { name, .. } => Some(name),
            Self::Unmount(which)
            | Self::Stat(which)
            | Self::Drain(which)
            | Self::AddSsds { which, .. }
            | Self::Tier { which, .. } => Some(&which.name),
            Self::List | Self::Create { .. } => None,
        }
    }
}

impl TypedRequest for FsRequest {
    const SERVICE: &'static str = FS;

    fn places(&self) -> NamedPlaces<'_> {
        match self {
            Self::Mount { mounting, .. } => NamedPlaces { paths: vec![&mounting.point], mounts: true, listens: false },
            Self::Create { ssds, .. } | Self::AddSsds { ssds, .. } => {
                let paths = ssds.iter().filter(|ssd| ssd.path != Path::new("")).map(|ssd| &*ssd.path).collect();
                NamedPlaces { paths, mounts: false, listens: false }
            }
            _ => NamedPlaces::default(),
        }
    }
}

/// What a file system is and holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FsReport {
    /// Its name.
    pub name: String,
    /// The folder it is mounted on.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub mounted_on: Option<PathBuf>,
    /// True if a user unmounted it while it was in use, and it still is in use.
    pub out_of_sight: bool,
    /// The kernel keeps writes back.
    pub cached: bool,
    /// It is mounted so that nothing changes it.
    pub read_only: bool,
    /// When written data is durable.
    pub data: DataMode,
    /// How full it is.
    pub space: Statfs,
    /// The processes that keep `awaited_bytes` of that.
    #[serde(default)]
    pub awaited_processes: Vec<u32>,
    /// Its tier, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierReport>,
}
