//! The `/dev` nodes of disks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_devnode::{self as attach, Attached};
use ferrite_owner::{RUN_FOLDER, make_private_folder};
use ferrite_pool::Failure;
use parking_lot::{RwLock, RwLockUpgradableReadGuard};

use super::{AttachReport, OpenDisks, Serving};

/// Returns the folder in which the nodes of the pool with this identity are mounted: private, and the same from run to
/// run.
pub fn attach_directory(pool: [u8; 16]) -> PathBuf {
    Path::new(RUN_FOLDER).join(ferrite_pool::show_uuid(&pool))
}

/// An attached disk. Other threads may inspect it while one waits for the node's users; no thread waits with the lock
/// of all nodes.
pub(super) type NodeHandle = Arc<RwLock<Attached>>;

impl OpenDisks {
    /// Makes a node of the disk called `name`. If there is a node, `serving` must be its options or the default.
    ///
    /// # Errors
    /// As [`OpenDisks::open`]. The kind [`ferrite_pool::FailureKind::Refused`] if the pool lies on the disk itself,
    /// [`ferrite_pool::FailureKind::Failed`] if the kernel cannot make the node.
    pub fn attach(&self, name: &str, serving: &Serving) -> Result<AttachReport, Failure> {
        let _turn = self.attaching.lock();
        if let Some(node) = self.node(name) {
            if let Some(known) = report(&node.read()) {
                if *serving != Serving::default() {
                    self.open(name, serving)?;
                }
                return Ok(known);
            }
            // The node was removed by hand: the rest of it goes as well.
            self.take_away(&node)?;
        }
        let front = self.open(name, serving)?;
        attach::check().map_err(Failure::failed)?;
        let making = |error| Failure::failed(format!("making {RUN_FOLDER}: {error}"));
        make_private_folder(Path::new(RUN_FOLDER)).map_err(making)?;
        let directory = attach_directory(self.pool.superblock().uuid);
        let uuid = ferrite_pool::show_uuid(&self.pool.superblock().uuid);
        let options = attach::Options::in_pool(&uuid, name, directory);
        let node = Attached::new(front, options).map_err(Failure::failed)?;
        let lies_on = attach::lies_on(&self.path, node.device()).map_err(Failure::failed)?;
        if lies_on {
            return Err(Failure::refused(format!("the pool {} lies on {name:?} itself", self.path.display())));
        }
        let gone = || {
            Failure::busy(format!("another program removed the node of {name:?} as it was made: attach {name:?} again"))
        };
        let made = report(&node).ok_or_else(gone)?;
        self.nodes.lock().insert(name.into(), Arc::new(RwLock::new(node)));
        Ok(made)
    }

    pub(super) fn node(&self, name: &str) -> Option<NodeHandle> {
        self.nodes.lock().get(name).cloned()
    }

    fn all_nodes(&self) -> Vec<(String, NodeHandle)> {
        self.nodes.lock().iter().map(|(name, node)| (name.clone(), Arc::clone(node))).collect()
    }

    /// Returns the link to the node of the disk called `name`, if it has a node.
    pub(super) fn node_link(&self, name: &str) -> Option<String> {
        Some(report(&self.node(name)?.read())?.link.display().to_string())
    }

    /// Returns true if a disk has a node, or is about to get one.
    pub(super) fn is_attached(&self) -> bool {
        self.attaching.is_locked() || self.all_nodes().iter().any(|(_, node)| node.read().is_there())
    }

    /// Refuses a file on a disk that is attached here: a write to it while the pool stands still would wait forever.
    pub(super) fn refuse_on_own_node(&self, file: &Path) -> Result<(), Failure> {
        self.refuse_own_file(file)?;
        for (name, node) in self.all_nodes() {
            let node = node.read();
            if !node.is_there() {
                continue;
            }
            if attach::lies_on(&ferrite_pool::resolve_links(file), node.device()).map_err(Failure::failed)? {
                let file = file.display();
                let why = format!("{file} lies on the disk {name:?} itself: name a place outside of the pool");
                return Err(Failure::refused(why));
            }
        }
        Ok(())
    }

    /// Removes the node of the disk called `name`.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::NotFound`] if the disk has no node, [`ferrite_pool::FailureKind::Failed`]
    /// if programs use the node or the kernel cannot remove it.
    pub fn detach(&self, name: &str) -> Result<(), Failure> {
        let node = self.node(name).ok_or_else(|| Failure::not_found(format!("{name:?} is not attached")))?;
        self.take_away(&node)
    }

    fn take_away(&self, node: &NodeHandle) -> Result<(), Failure> {
        let taken = take_away(node).map_err(Failure::failed);
        // Another node may have the name by now.
        self.nodes.lock().retain(|_, known| !Arc::ptr_eq(known, node) || known.read().is_there());
        taken
    }

    /// Refuses while programs use the node of the disk called `name`.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`], with the users of the node.
    pub fn ensure_node_unused(&self, name: &str) -> Result<(), Failure> {
        let unused = self.node(name).map_or(Ok(()), |node| node.read().ensure_unused());
        unused.map_err(|error| Failure::busy(format!("{name:?} is not overwritten: {error}")))
    }

    /// Returns the mounts, swap and devices that use the node of the disk called `name`.
    pub(super) fn claims(&self, name: &str) -> Vec<String> {
        self.node(name).map(|node| node.read().claims()).unwrap_or_default()
    }

    /// Removes the nodes and files. Returns the reasons why some stay.
    pub fn detach_all(&self) -> Vec<String> {
        let nodes = self.all_nodes();
        let kept = nodes.iter().filter_map(|(_, node)| Some(self.take_away(node).err()?.message));
        kept.chain(self.detach_files()).collect()
    }
}

/// Removes a node. One thread at a time removes it; threads that inspect it do not wait.
fn take_away(node: &NodeHandle) -> attach::Result<()> {
    let waiting = node.upgradable_read();
    waiting.release()?;
    RwLockUpgradableReadGuard::upgrade(waiting).detach()
}

/// Describes a node, if it exists.
fn report(node: &Attached) -> Option<AttachReport> {
    let report = || AttachReport {
        device: node.device().into(),
        link: node.link().into(),
        stable_link: node.stable_link().into(),
        way: node.way().name().into(),
        notes: node.notes().to_vec(),
    };
    node.is_there().then(report)
}
