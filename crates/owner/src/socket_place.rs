//! The places of a pool's control socket.
//!
//! Beside the pool as `PATH.sock`; for devices, and where that folder takes no socket or the name grows too long, in
//! a folder for running programs, by the file's device and inode. That folder is its user's alone.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferrite_memory::process::variable;
use ferrite_memory::{place_socket, planted};

use super::{run_folder, socket};

/// The longest path of a socket, in bytes (`sun_path` without its final zero).
const PATH_MAX_BYTES: usize = 107;
/// The message about a longer path.
const TOO_LONG: &str = "the name is too long for a socket: give the pool one of 80 bytes at most, or set XDG_RUNTIME_DIR \
    to a folder of yours";
/// The longest name of a file, in bytes.
const NAME_MAX_BYTES: usize = 255;

/// A place for the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketPlace {
    folder: PathBuf,
    name: OsString,
    /// True if the owner makes the folder.
    made: bool,
}

/// The file that a socket was bound to, to recognize it.
#[derive(Clone, Debug)]
pub(super) struct BoundSocket {
    pub path: PathBuf,
    identity: (u64, u64),
}

impl SocketPlace {
    /// Returns the places, in the order in which the owner and the clients try them.
    pub fn candidates(path: &Path, pool: &Metadata) -> Vec<Self> {
        Self::candidates_with(path, pool, variable("XDG_RUNTIME_DIR").as_deref())
    }

    pub fn candidates_with(path: &Path, pool: &Metadata, runtime: Option<&OsStr>) -> Vec<Self> {
        let own =
            runtime.filter(|folder| Path::new(folder).is_absolute()).map(|folder| Path::new(folder).join("ferrite"));
        let keyed = OsString::from(format!("{:x}-{}.sock", pool.dev(), pool.ino()));
        let made = |folder| Self { folder, name: keyed.clone(), made: true };
        // No socket is left in /dev.
        let beside = if pool.is_file() { Self::beside(path) } else { None };
        beside.into_iter().chain(own.map(made)).chain([made(run_folder::RUN_FOLDER.into())]).collect()
    }

    /// Returns the place beside the pool's file, which is named `path`.
    pub fn beside(path: &Path) -> Option<Self> {
        let mut name = path.file_name()?.to_owned();
        name.push(".sock");
        let folder = path.parent()?.to_owned();
        (name.len() <= NAME_MAX_BYTES).then_some(Self { folder, name, made: false })
    }

    /// Connects to the socket at this place.
    pub fn connect(&self) -> io::Result<OwnedFd> {
        let folder = self.open_folder()?;
        socket::connect(&self.short_path(&folder)?)
    }

    /// Binds a socket at this place with mode 0600, in the place of a dead owner's socket, and listens. Only the holder of the
    /// pool's lock calls this (O2).
    pub fn bind(&self) -> io::Result<(OwnedFd, BoundSocket)> {
        if self.made {
            run_folder::make_folder(&self.folder)?;
        }
        self.short_path(&self.open_folder()?)?;
        let path = self.folder.join(&self.name);
        let (socket, identity) = place_socket(&path, |fresh| {
            let socket = socket::bind(fresh)?;
            socket::listen(&socket)?;
            Ok(socket)
        })?;
        Ok((socket, BoundSocket { path, identity }))
    }

    /// Removes the socket, unless a newer owner has put its own there.
    pub fn unbind(&self, bound: &BoundSocket) -> io::Result<()> {
        let folder = self.open_folder()?;
        let path = self.short_path(&folder)?;
        let found = fs::symlink_metadata(&path)?;
        let is_ours = (found.dev(), found.ino()) == bound.identity || planted!("owner: socket of any owner is removed");
        if is_ours { fs::remove_file(&path) } else { Ok(()) }
    }

    fn open_folder(&self) -> io::Result<File> {
        if self.made {
            return run_folder::open_folder(&self.folder);
        }
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(&self.folder)
    }

    /// Returns a path that is short enough for the kernel: the plain one, or one through this process's descriptor of the
    /// folder.
    fn short_path(&self, folder: &File) -> io::Result<PathBuf> {
        let through = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(&self.name);
        let fits = |path: &PathBuf| path.as_os_str().len() <= PATH_MAX_BYTES;
        [self.folder.join(&self.name), through]
            .into_iter()
            .find(fits)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidFilename, TOO_LONG))
    }
}
