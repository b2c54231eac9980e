//! A check that the paths of a request mean the same to the caller and to the owner.
//!
//! A process resolves a path by its own root, mounts and descriptors. If the owner's are others, the owner would work at
//! another place than the caller's report names. So a caller sends what its paths lead to, and the owner compares.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferrite_pool::{Failure, resolve_links};
use serde::{Deserialize, Serialize};

/// A file by its device and its inode there.
type FileId = (u64, u64);

/// The places that a request names.
#[derive(Clone, Debug, Default)]
pub struct NamedPlaces<'a> {
    /// The paths, in the order of the request.
    pub paths: Vec<&'a Path>,
    /// True if the request changes what is mounted.
    pub mounts: bool,
    /// True if the request opens an address of the network.
    pub listens: bool,
}

impl<'a> NamedPlaces<'a> {
    /// Returns places that are paths alone.
    pub fn of_paths(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        Self { paths: paths.into_iter().collect(), ..Self::default() }
    }

    /// Returns true if the request names no place.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.mounts && !self.listens
    }
}

/// What a process sees of the places of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamespaceView {
    /// In the order of [`NamedPlaces::paths`].
    places: Vec<Option<PathPlace>>,
    /// The mount namespace, if the request changes what is mounted.
    mounts: Option<FileId>,
    /// The network namespace, if the request opens an address.
    #[serde(default)]
    network: Option<FileId>,
}

/// The end of a path: an existing folder, and the names below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PathPlace {
    folder: FileId,
    #[serde(with = "crate::paths::exact")]
    below: PathBuf,
}

impl PathPlace {
    /// Returns where `path` leads, as far as this process may look.
    fn of(path: &Path) -> Option<Self> {
        let path = resolve_links(path);
        let mut folder = path.parent().unwrap_or(&path);
        loop {
            match id(folder) {
                Ok(id) => {
                    let below = path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or_default();
                    return Some(Self { folder: id, below });
                }
                Err(why) if why.kind() == ErrorKind::NotFound => folder = folder.parent()?,
                Err(_) => return None,
            }
        }
    }
}

fn id(path: &Path) -> std::io::Result<FileId> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

impl NamespaceView {
    /// Returns what this process sees of `named`.
    pub fn of(named: &NamedPlaces<'_>) -> Self {
        let places = named.paths.iter().map(|path| PathPlace::of(path)).collect();
        let namespace = |name: &str| id(&Path::new("/proc/self/ns").join(name)).ok();
        let mounts = named.mounts.then(|| namespace("mnt")).flatten();
        let network = named.listens.then(|| namespace("net")).flatten();
        Self { places, mounts, network }
    }

    /// Refuses a request that names `named` if its caller, which sees this, sees other places than this process.
    ///
    /// # Errors
    /// [`ferrite_pool::FailureKind::RefusedTags`], with a way out.
    pub fn ensure_shared(&self, named: &NamedPlaces<'_>) -> Result<(), Failure> {
        let (here, pid) = (Self::of(named), std::process::id());
        if differs(self.mounts.as_ref(), here.mounts.as_ref()) {
            return Err(Failure::refused(format!(
                "the pool's owner (process {pid}) is in another mount namespace, and what it mounts is not seen in this \
                 one: ask from there, as by `nsenter -m -t {pid}`, or end it and mount from here"
            )));
        }
        if differs(self.network.as_ref(), here.network.as_ref()) {
            return Err(Failure::refused(format!(
                "the pool's owner (process {pid}) is in another network namespace, and would open the address there: ask from \
                 there, as by `nsenter -n -t {pid}`, or serve it by a socket file, with --unix"
            )));
        }
        let mut all = named.paths.iter().zip(self.places.iter().zip(&here.places));
        match all.find(|(_, (theirs, ours))| differs(theirs.as_ref(), ours.as_ref())) {
            None => Ok(()),
            Some((path, _)) => Err(Failure::refused(format!(
                "{} is another place to the pool's owner (process {pid}), whose root, mounts or descriptors are others: name \
                 a file by a path that leads both there, or ask from where the owner runs",
                path.display()
            ))),
        }
    }
}

/// Returns true if both sides could look and saw different things.
fn differs<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

#[cfg(test)]
mod tests;
