//! Where who asks stands: what the paths of a request are to it, by which the owner sees whether they are the same here.
//!
//! A path is resolved by who uses it. To an owner with another root, other mounts or other descriptors it may be another
//! place, and what the command reports as done would be done there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferrite_pool::led_to;
use serde::{Deserialize, Serialize};

use crate::request::Request;

/// The key under which it travels with a request.
pub const STANDPOINT: &str = "standpoint";

/// A file by its device and its number there.
type Id = (u64, u64);

/// What a process sees of the paths of a request.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standpoint {
    /// In the order of [`Request::paths`].
    places: Vec<Option<Place>>,
    /// The mount namespace, where the request changes what is mounted.
    mounts: Option<Id>,
    /// The network namespace, where the request opens an address of it.
    #[serde(default)]
    network: Option<Id>,
}

/// Where a path leads: a folder that is there, and what is named below it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Place {
    folder: Id,
    #[serde(with = "crate::paths::exact")]
    below: PathBuf,
}

impl Place {
    /// Where `path` leads, as far as this process may look.
    fn of(path: &Path) -> Option<Self> {
        let path = led_to(path);
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

/// Whether who asks is to see what `request` mounts.
fn mounts(request: &Request) -> bool {
    matches!(request, Request::FsMount { .. })
}

/// Whether `request` opens an address of the network of who asks.
fn listens(request: &Request) -> bool {
    matches!(request, Request::DiskServe { door, .. } if door.tcp.is_some())
}

fn id(path: &Path) -> std::io::Result<Id> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Standpoint {
    /// This process's, for `request`.
    pub fn of(request: &Request) -> Self {
        let places = request.paths().into_iter().map(Place::of).collect();
        let namespace = |name: &str| id(&Path::new("/proc/self/ns").join(name)).ok();
        let mounts = mounts(request).then(|| namespace("mnt")).flatten();
        let network = listens(request).then(|| namespace("net")).flatten();
        Self { places, mounts, network }
    }

    /// Refuses `request`, of who stands there, where it would mean something else here.
    pub fn ensure_shared(&self, request: &Request) -> Result<(), String> {
        let (here, pid) = (Self::of(request), std::process::id());
        if differs(self.mounts.as_ref(), here.mounts.as_ref()) {
            return Err(format!(
                "the pool's owner (process {pid}) is in another mount namespace, and what it mounts is not seen in this \
                 one: ask from there, as by `nsenter -m -t {pid}`, or end it and mount from here"
            ));
        }
        if differs(self.network.as_ref(), here.network.as_ref()) {
            return Err(format!(
                "the pool's owner (process {pid}) is in another network namespace, and would open the address there: ask from \
                 there, as by `nsenter -n -t {pid}`, or serve it by a socket file, with --unix"
            ));
        }
        let mut all = request.paths().into_iter().zip(self.places.iter().zip(&here.places));
        match all.find(|(_, (theirs, ours))| differs(theirs.as_ref(), ours.as_ref())) {
            None => Ok(()),
            Some((path, _)) => Err(format!(
                "{} is another place to the pool's owner (process {pid}), whose root, mounts or descriptors are others: name \
                 a file by a path that leads both there, or ask from where the owner runs",
                path.display()
            )),
        }
    }
}

/// Whether two say different things; who could not look says nothing.
fn differs<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn backup(to: &Path) -> Request {
        Request::PoolBackup { to: to.into(), now: false }
    }

    #[test]
    fn a_path_is_the_same_place_if_its_folder_is_and_what_is_below_has_the_same_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).expect("made");
        symlink(at("real"), at("link")).expect("linked");
        symlink("real/image", at("to image")).expect("linked");
        let image = Standpoint::of(&backup(&at("real/image")));
        for same in ["real/image", "link/image", "to image"] {
            assert_eq!(image.ensure_shared(&backup(&at(same))), Ok(()), "{same}");
        }
        for other in ["image", "real/other", "real/image/x", "gone/image"] {
            let said = image.ensure_shared(&backup(&at(other))).expect_err(other);
            assert!(said.contains("another place"), "{said}");
        }
        // What is not there yet is told apart too.
        let new = Standpoint::of(&backup(&at("new/image")));
        assert!(
            new.ensure_shared(&backup(&at("new/image"))).is_ok() && new.ensure_shared(&backup(&at("image"))).is_err()
        );
    }

    #[test]
    fn a_client_of_before_says_nothing_and_is_believed() {
        let told = serde_json::from_str::<Standpoint>(r#"{"places": [], "mounts": null}"#).expect("it is read");
        assert_eq!(told, Standpoint::default());
        assert_eq!(told.ensure_shared(&backup("/image".as_ref())), Ok(()));
    }
}
