//! What commands ask of a pool's owner, be it this process or another.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ferrite_block::{BufferOptions, StageTotals};
use ferrite_nbd::client::{tcp_uri, unix_uri};
use ferrite_pool::grant::GrantId;
use serde::{Deserialize, Serialize};

use crate::survival::SurvivalReport;
use crate::trees::{Mounting, Which};

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
pub struct Door {
    /// Absolute path of the Unix socket.
    #[serde(with = "crate::paths::exact")]
    pub unix: PathBuf,
    /// A TCP address too.
    pub tcp: Option<TcpDoor>,
}

impl Door {
    /// The addresses of the disk called `name`; `tcp` is the TCP address that it got.
    pub fn uris(&self, name: &str, tcp: Option<SocketAddr>) -> Vec<String> {
        let is_tls = self.tcp.as_ref().is_some_and(|door| door.tls.is_some());
        let tcp = tcp.map(|address| tcp_uri(name, address, is_tls));
        std::iter::once(unix_uri(name, &self.unix)).chain(tcp).collect()
    }
}

/// A TCP address that disks are served at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpDoor {
    /// The address and port.
    pub address: SocketAddr,
    /// The networks that may connect; everybody where it is empty.
    pub allow: Vec<String>,
    /// Absolute paths of the certificate, its key, and the authority of clients' certificates. With them TLS is
    /// required.
    pub tls: Option<(PathBuf, PathBuf, Option<PathBuf>)>,
}

/// A request, as it travels to the owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// A [`PoolReport`].
    PoolInfo,
    /// A check report.
    PoolCheck,
    /// A [`crate::wear::WearReport`].
    PoolWear {
        /// How many of the most written pages to list.
        top: usize,
    },
    /// A backup into a file.
    PoolBackup {
        /// Absolute path of the image.
        #[serde(with = "crate::paths::exact")]
        to: PathBuf,
        /// The power fails: nobody is waited for.
        #[serde(default)]
        now: bool,
    },
    /// A list of [`TagReport`].
    TagList,
    /// Stores what the descriptors that come with it give, one behind the other.
    TagPut {
        /// The tag.
        name: String,
        /// The bytes of the one of that name, which may be lost.
        lose: Option<u64>,
    },
    /// Writes the tag's content to the descriptor that comes with it.
    TagGet {
        /// The tag.
        name: String,
    },
    /// Removes a tag that is no disk, no file system and no database's log, and that nobody uses.
    TagRemove {
        /// The tag.
        name: String,
    },
    /// A list of [`DiskReport`].
    DiskList,
    /// Makes a disk.
    DiskCreate {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// 512 or 4096.
        sector_bytes: u32,
        /// Take space as it is written.
        thin: bool,
        /// Keep a checksum of each 4 KiB.
        checksum: bool,
    },
    /// Removes a disk that nobody uses.
    DiskRemove {
        /// Its name.
        name: String,
    },
    /// Grows a disk, in use or not.
    DiskResize {
        /// Its name.
        name: String,
        /// Its new size in bytes.
        size: u64,
    },
    /// Serves a disk over NBD until the connection that asked ends.
    DiskServe {
        /// Its name.
        name: String,
        /// Where.
        door: Door,
        /// How.
        serving: Serving,
        /// To overwrite all of it: refused while its node is used.
        #[serde(default)]
        overwrite: bool,
    },
    /// Makes a disk a `/dev` node; an [`AttachReport`].
    DiskAttach {
        /// Its name.
        name: String,
        /// How.
        serving: Serving,
    },
    /// Takes the node away.
    DiskDetach {
        /// Its name.
        name: String,
    },
    /// A [`DiskReport`].
    DiskStat {
        /// Its name.
        name: String,
    },
    /// A list of [`crate::trees::FsReport`].
    FsList,
    /// Makes a file system; an [`crate::trees::FsReport`].
    FsCreate {
        /// Its name.
        name: String,
        /// Bytes from which on a file is moved to superpages.
        super_threshold_bytes: Option<u64>,
    },
    /// Removes a file system that is not mounted.
    FsRemove {
        /// Its name.
        name: String,
    },
    /// Mounts a file system; an [`crate::trees::FsReport`].
    FsMount {
        /// Its name.
        name: String,
        /// Where and how.
        mounting: Mounting,
    },
    /// Unmounts a file system that nobody uses.
    FsUnmount(Which),
    /// An [`crate::trees::FsReport`].
    FsStat(Which),
    /// A grant on the pages of a tag of plain bytes: a [`GrantReport`], the pool's memory and the notice.
    Grant {
        /// The tag.
        name: String,
        /// To store too, not only to load.
        write: bool,
    },
    /// Gives a grant back.
    GrantRelease {
        /// Which.
        id: GrantId,
    },
}

impl Request {
    /// Whether what it is about is to be used, so that it might be made where it is not there.
    pub fn wants_to_use(&self) -> bool {
        matches!(self, Self::DiskServe { .. } | Self::DiskAttach { .. } | Self::FsMount { .. })
    }

    /// The paths in it, each with the meaning that it has to who asks.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Self::PoolBackup { to, .. } => vec![to],
            Self::FsMount { mounting, .. } => vec![&mounting.point],
            Self::DiskAttach { .. } => vec![Path::new(NODES)],
            Self::DiskServe { door, .. } => {
                let tls = door.tcp.as_ref().and_then(|tcp| tcp.tls.as_ref());
                let files = tls.map(|(certificate, key, authority)| [Some(certificate), Some(key), authority.as_ref()]);
                let files = files.into_iter().flatten().flatten();
                std::iter::once(&door.unix).chain(files).map(PathBuf::as_path).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The disk it is about, which has to be there.
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::DiskRemove { name }
            | Self::DiskResize { name, .. }
            | Self::DiskServe { name, .. }
            | Self::DiskAttach { name, .. }
            | Self::DiskStat { name } => Some(name),
            _ => None,
        }
    }

    /// The file system it is about, which has to be there.
    pub fn file_system(&self) -> Option<&str> {
        match self {
            Self::FsRemove { name } | Self::FsMount { name, .. } => Some(name),
            Self::FsUnmount(which) | Self::FsStat(which) => Some(&which.name),
            _ => None,
        }
    }
}

/// What was granted. With it come two descriptors: the pool's memory, and a notice that becomes readable when the
/// grant is asked back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantReport {
    /// Which grant it is.
    pub id: GrantId,
    /// Where the tag's bytes lie in the memory: first byte and length of each run, in order.
    pub runs: Vec<(u64, u64)>,
    /// Bytes of the tag.
    pub size_bytes: u64,
}

/// What a pool is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    /// Who it is.
    pub uuid: String,
    /// Its format version.
    pub version: u32,
    /// Its file.
    #[serde(serialize_with = "crate::paths::show")]
    pub path: PathBuf,
    /// What it lies in, what that survives, and whether stray writes are held off, in one line.
    pub medium: String,
    /// What of it a program can tell apart.
    pub survives: SurvivalReport,
    /// The process that owns it, where that is another one.
    pub owner_pid: Option<u32>,
    /// How its space is used.
    pub usage: ferrite_pool::SpaceUsage,
    /// Tags in it.
    pub tags: u64,
}

/// What a tag is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TagReport {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its size in bytes as its users see it.
    pub size_bytes: u64,
    /// Bytes of the pool it takes.
    pub space_bytes: u64,
    /// Its generation.
    pub generation: u64,
}

/// What a disk is and has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskReport {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Space is taken as it is written.
    pub thin: bool,
    /// It keeps a checksum of each 4 KiB.
    pub checksum: bool,
    /// Bytes of the pool it takes.
    pub space_bytes: u64,
    /// Where it is reached: by sockets, and by the link to its node.
    pub reached_at: Vec<String>,
    /// How its owner serves it to who does not say how.
    #[serde(default)]
    pub usual: Serving,
    /// What it does, from its first use after the owner's start.
    pub open: Option<OpenReport>,
}

/// What an open disk does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenReport {
    /// Whether somebody uses it now.
    pub in_use: bool,
    /// How it is served, or was when it was used last.
    pub serving: Serving,
    /// Where it is served so: a node, and sockets that show no other disk.
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

/// Where an attached disk is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachReport {
    /// The node.
    #[serde(serialize_with = "crate::paths::show")]
    pub device: PathBuf,
    /// The shortest link that leads to it.
    #[serde(serialize_with = "crate::paths::show")]
    pub link: PathBuf,
    /// The link that leads to it whatever other pools are served.
    #[serde(serialize_with = "crate::paths::show")]
    pub stable_link: PathBuf,
    /// What lies between it and the disk.
    pub way: String,
    /// What is to be known besides.
    pub notes: Vec<String>,
}
