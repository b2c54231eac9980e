//! Errors of addresses and of opening disks by them.

use std::io;
use std::path::PathBuf;

use ferrite_disk::FaultPlanError;
use ferrite_nbd::client::ConnectError;

use crate::drive_model::MODEL_NAMES;

/// Result of parsing an address or of opening a disk by it.
pub type Result<T> = std::result::Result<T, AddressError>;

/// An error of an address, or of opening a disk by it. Each message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The text is empty.
    #[error("the disk's address is empty: name POOL:NAME, a file, a block device or an NBD export")]
    Empty,
    /// The text names a standard stream.
    #[error("- is not a disk, which is read and written at any place: name a file (./- if it is called so)")]
    Stream,
    /// A drive to simulate is named without a disk behind it.
    #[error("{0}: has no disk behind it: write {0}:FILE, or another address in place of FILE")]
    NoDisk(&'static str),
    /// A setting of an aged drive is unknown or has an impossible value.
    #[error(
        "{name}@ has no setting {setting:?}: settings, with commas between them, are filled=PERCENT, \
             order=random|sequential, spare=PERCENT and ftl=page|fast"
    )]
    AgedDrive {
        /// The name of the drive.
        name: &'static str,
        /// The setting.
        setting: String,
    },
    /// There is no plan behind `fault:`, or no disk behind the plan.
    #[error("fault: needs a plan and a disk: write fault:PLAN:FILE, or another address in place of FILE")]
    NoFaultPlan,
    /// The plan behind `fault:` is wrong.
    #[error(transparent)]
    FaultPlan(FaultPlanError),
    /// No open disk behind `fault:` has the name.
    #[error("process {} has no open disk behind fault:{}", std::process::id(), called(name, open))]
    NotFaulty {
        /// The unknown name.
        name: String,
        /// The names of the faulty disks that are open in this process.
        open: Vec<String>,
    },
    /// The text begins as a drive to simulate that does not exist.
    #[error(
        "no simulated drive is called {0:?}: choose one of {models}; a pool or file of that name is ./{0}",
        models = MODEL_NAMES.join(", ")
    )]
    UnknownModel(String),
    /// The text has no pool before the name of the disk.
    #[error("{0:?} has no pool before its colon, the pool's path is empty: name its file, as in POOL:NAME")]
    NoPool(String),
    /// The text has no name of a disk behind the pool.
    #[error("{pool}: names no disk of that pool: write {pool}:NAME (`ferrite disk list` prints the names)")]
    NoName {
        /// The path of the pool.
        pool: String,
    },
    /// The file does not exist.
    #[error("there is no file {}: name one that exists, or POOL:NAME for a disk in a pool", .0.display())]
    Missing(PathBuf),
    /// The path names a folder.
    #[error("{} is a folder: name a file in it, or a block device", .0.display())]
    Folder(PathBuf),
    /// The file does not end at the end of a sector.
    #[error(
        "{} has {bytes} bytes, which are not whole sectors: what is behind byte {whole_bytes} would be left out; \
         `truncate --size=%512` fills the last sector up",
        path.display()
    )]
    PartSector {
        /// The file.
        path: PathBuf,
        /// The length of the file in bytes.
        bytes: u64,
        /// The length of its whole sectors in bytes.
        whole_bytes: u64,
    },
    /// A new file cannot be made.
    #[error("making {}: {source}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The disk cannot be served as a flash drive of its size.
    #[error("{name}: {source}")]
    Flash {
        /// The name of the drive in the address.
        name: &'static str,
        /// The error of the simulator.
        source: ferrite_sim::Error,
    },
    /// The file holds a pool, is an SSD or a disk of a pool, or cannot be looked into.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The NBD export cannot be used.
    #[error(transparent)]
    Nbd(#[from] ConnectError),
    /// The file or device cannot be opened.
    #[error(transparent)]
    Disk(#[from] ferrite_memory::Error),
}

/// Returns the end of a message about the unknown `name` of a faulty disk, beside those that are `open`.
fn called(name: &str, open: &[String]) -> String {
    if open.is_empty() { String::new() } else { format!(" called {name:?}: name one of {}", open.join(", ")) }
}
