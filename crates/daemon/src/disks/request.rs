//! Requests to the service of disks, and its answers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ferrite_block::{BufferOptions, StageTotals};
use ferrite_devnode::FileOwner;
use ferrite_memory::Scheme;
use ferrite_nbd::client::{tcp_uri, unix_uri};
use ferrite_owner::{NamedPlaces, RUN_FOLDER, TypedRequest};
use serde::{Deserialize, Serialize};

/// Where the nodes of disks are.
const NODES: &str = "/dev/ferrite";

/// How a disk is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// The write scheme's name; the default one where `None`.
    pub scheme: Option<String>,
    /// Overwrite in place.
    pub in_place: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Read back what was written.
    pub verify: bool,
    /// Count cycles per stage.
    pub stages: bool,
    /// Hold writes back in DRAM.
    pub buffering: Option<Buffering>,
}

/// How writes are held back in DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffering {
    /// Buffers.
    pub buffers: usize,
    /// Bytes of each.
    pub buffer_bytes: u64,
    /// Write contiguous pages together.
    pub batch: bool,
    /// Where a buffer is emptied from: this part of it is dirty.
    pub high: f64,
    /// And where to.
    pub low: f64,
}

impl From<&Buffering> for BufferOptions {
    fn from(it: &Buffering) -> Self {
        let Buffering { buffers, buffer_bytes, batch, high, low } = *it;
        Self { buffers, buffer_bytes, batch, high, low, ..Self::default() }
    }
}

/// Where disks are served.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NbdAddresses {
    /// Absolute path of the Unix socket.
    #[serde(with = "ferrite_owner::paths::exact")]
    pub unix: PathBuf,
    /// A TCP address too.
    pub tcp: Option<TcpAddress>,
}

impl NbdAddresses {
    /// The addresses of the disk called `name`; `tcp` is the TCP address that it got.
    pub fn uris(&self, name: &str, tcp: Option<SocketAddr>) -> Vec<String> {
        let is_tls = self.tcp.as_ref().is_some_and(|tcp| tcp.tls.is_some());
        let tcp = tcp.map(|address| tcp_uri(name, address, is_tls));
        std::iter::once(unix_uri(name, &self.unix)).chain(tcp).collect()
    }
}

/// A TCP address that disks are served at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpAddress {
    /// The address and port.
    pub address: SocketAddr,
    /// The networks whose clients may connect. An empty list admits every client.
    pub allow: Vec<String>,
    /// The files of TLS, which clients must use if these are given.
    pub tls: Option<TlsPaths>,
}

/// Absolute paths of the files of TLS.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TlsPaths {
    /// The certificate of the server, in PEM.
    pub certificate: PathBuf,
    /// The key of that certificate, in PEM.
    pub key: PathBuf,
    /// The authority that has to have signed the certificates of clients, in PEM; without it clients need none.
    pub client_authority: Option<PathBuf>,
}

/// The place and the owner of a file that shows a disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileSpec {
    /// The absolute path; empty: one below the runtime folder, which only root reaches.
    #[serde(default, with = "ferrite_owner::paths::exact")]
    pub path: PathBuf,
    /// The user that may open the file beside root.
    #[serde(default)]
    pub uid: u32,
    /// The group of that user.
    #[serde(default)]
    pub gid: u32,
}

impl FileSpec {
    /// Returns the path, if the caller named one.
    pub fn named_path(&self) -> Option<&Path> {
        Some(self.path.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// Returns the owner of the file.
    pub fn owner(&self) -> FileOwner {
        FileOwner { uid: self.uid, gid: self.gid }
    }
}

/// A disk as a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileReport {
    /// The path of the file.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub path: PathBuf,
    /// The bytes of the file.
    pub size: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The name of the service of disks.
pub const DISK: &str = "disk";

/// A request of the service of disks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum DiskRequest {
    /// Lists the disks: [`DiskReport`]s.
    List,
    /// Makes a disk; a [`DiskReport`].
    Create {
        /// The name of the disk.
        name: String,
        /// The size in bytes.
        size: u64,
        /// Bytes of a sector: 512 or 4096.
        sector_bytes: u32,
        /// True to allocate space as it is written.
        thin: bool,
        /// True to keep a checksum of each 4 KiB.
        checksum: bool,
    },
    /// Removes a disk that is not in use.
    Remove {
        /// The name of the disk.
        name: String,
    },
    /// Grows a disk, which may be in use; a [`DiskReport`].
    Resize {
        /// The name of the disk.
        name: String,
        /// The new size in bytes.
        size: u64,
    },
    /// Serves a disk over NBD until the caller's connection ends; the answer is the TCP address, or null.
    Serve {
        /// The name of the disk.
        name: String,
        /// The addresses.
        nbd_addresses: NbdAddresses,
        /// The options.
        serving: Serving,
        /// True to overwrite the whole disk: refused while its node is used.
        #[serde(default)]
        overwrite: bool,
    },
    /// Makes a `/dev` node of a disk; an [`AttachReport`].
    Attach {
        /// The name of the disk.
        name: String,
        /// The options.
        serving: Serving,
    },
    /// Removes the node of a disk.
    Detach {
        /// The name of the disk.
        name: String,
    },
    /// Makes a disk that no client uses a file that programs map; a [`FileReport`].
    AttachFile {
        /// The name of the disk.
        name: String,
        /// The place and the owner of the file.
        spec: FileSpec,
    },
    /// Removes the file of a disk; true if it was one.
    DetachFile {
        /// The name of the disk.
        name: String,
    },
    /// Describes the file of a disk: a [`FileReport`], or null if it is no file.
    File {
        /// The name of the disk.
        name: String,
    },
    /// Describes a disk: a [`DiskReport`].
    Stat {
        /// The name of the disk.
        name: String,
    },
    /// Lists the disks behind `fault:PLAN:` that are open in the owner's process, in and outside of the pool:
    /// [`FaultyDiskReport`]s.
    Faults,
    /// Replaces the fault plan of such a disk; [`FaultyDiskReport`]s of all.
    SetFaults {
        /// The address behind `fault:PLAN:`.
        address: String,
        /// The plan, as text.
        plan: String,
    },
}

impl DiskRequest {
    /// Returns the disk that has to exist for the request.
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::Remove { name }
            | Self::Resize { name, .. }
            | Self::Serve { name, .. }
            | Self::Attach { name, .. }
            | Self::AttachFile { name, .. }
            | Self::File { name }
            | Self::Stat { name } => Some(name),
            Self::List
            | Self::Create { .. }
            | Self::Detach { .. }
            | Self::DetachFile { .. }
            | Self::Faults
            | Self::SetFaults { .. } => None,
        }
    }

    /// Returns true if the caller is going to use the disk, so that the advice to make it helps.
    pub fn wants_to_use(&self) -> bool {
        matches!(self, Self::Serve { .. } | Self::Attach { .. } | Self::AttachFile { .. })
    }
}

impl TypedRequest for DiskRequest {
    const SERVICE: &'static str = DISK;

    fn places(&self) -> NamedPlaces<'_> {
        match self {
            Self::Attach { .. } => NamedPlaces::of_paths([Path::new(NODES)]),
            Self::AttachFile { spec, .. } => NamedPlaces {
                paths: vec![spec.named_path().unwrap_or(Path::new(RUN_FOLDER))],
                mounts: true,
                listens: false,
            },
            Self::Serve { nbd_addresses, .. } => {
                let tls = nbd_addresses.tcp.as_ref().and_then(|tcp| tcp.tls.as_ref());
                let files = tls.map(|it| [Some(&it.certificate), Some(&it.key), it.client_authority.as_ref()]);
                let files = files.into_iter().flatten().flatten();
                let paths = std::iter::once(&nbd_addresses.unix).chain(files).map(PathBuf::as_path).collect();
                NamedPlaces { paths, mounts: false, listens: nbd_addresses.tcp.is_some() }
            }
            _ => NamedPlaces::default(),
        }
    }
}

/// What a disk is and has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskReport {
    /// Its name.
    pub name: String,
    /// The service that has it; `None` for a disk of this service.
    #[serde(default)]
    pub service: Option<String>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of a sector; 0 while a disk of another service is not open.
    pub sector_bytes: u32,
    /// Space is taken as it is written.
    pub thin: bool,
    /// It keeps a checksum of each 4 KiB.
    pub checksum: bool,
    /// Bytes of the pool it takes.
    pub space_bytes: u64,
    /// The addresses of the disk, and the link to its node.
    pub reached_at: Vec<String>,
    /// The options for clients that name none.
    #[serde(default)]
    pub usual: Serving,
    /// Its use since the owner's start; `None` before the first use.
    pub open: Option<OpenReport>,
}

/// What an open disk does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenReport {
    /// True if the disk is in use.
    pub in_use: bool,
    /// The options of its use, or of the last one.
    pub serving: Serving,
    /// The node, and the sockets that serve no other disk.
    #[serde(default)]
    pub served_at: Vec<String>,
    /// Bytes that hold something.
    pub used_bytes: u64,
    /// Bytes held back in DRAM, which an unclean stop now would lose; none where none are held back.
    pub unsaved_bytes: Option<u64>,
    /// Cycles per stage, where they are counted.
    pub stages: Option<StageTotals>,
    /// Whether a completed write may be lost before a flush.
    pub volatile_cache: bool,
    /// Reads since it was opened.
    pub reads: u64,
    /// Bytes they gave.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes they took.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Writes, trims and zeroings that were durable on return because they asked.
    pub fua: u64,
    /// Trims.
    pub trims: u64,
    /// Zeroings.
    pub zeroings: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// The faults of an open disk behind `fault:PLAN:`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultyDiskReport {
    /// The address behind `fault:PLAN:`.
    pub address: String,
    /// The current plan, as text.
    pub plan: String,
    /// Requests since the opening.
    pub requests: u64,
}

/// The node of an attached disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachReport {
    /// The node.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub device: PathBuf,
    /// The shortest link that leads to it.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub link: PathBuf,
    /// The link that leads to it whatever other pools are served.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub stable_link: PathBuf,
    /// The driver between the node and the disk.
    pub way: String,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Serving {
    /// Whether a write that completed waits for a flush, whatever the pool lies in.
    pub fn has_volatile_cache(&self) -> bool {
        let scheme = self.scheme.as_ref().and_then(|name| Scheme::from_name(name)).unwrap_or_default();
        self.buffering.is_some() || !scheme.is_durable_at_fence()
    }
}
