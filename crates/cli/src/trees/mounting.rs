//! Messages about a mount to the owner of its pool.

use std::path::PathBuf;

use ferrite_fs::DataMode;
use serde::{Deserialize, Serialize};

/// How a file system is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mounting {
    /// Absolute path of the folder.
    #[serde(with = "crate::paths::exact")]
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
    pub seen: Option<Seen>,
}

/// A mount of a file system, as the kernel lists it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// The folder.
    #[serde(with = "crate::paths::exact")]
    pub point: PathBuf,
    /// Its device number.
    pub device: u64,
}
