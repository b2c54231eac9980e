//! The names of a node: symbolic links such as `/dev/ferrite/by-pool/UUID/disk0` and `/dev/ferrite/disk0`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::node::{BlockNode, NodeUsage};
use super::options::LINKS;
use super::runtime_dir::{RuntimeDir, is_held, noted_links};
use super::{Error, Result};

/// Attempts to make a link while other processes remove its folder.
const FOLDER_ATTEMPTS: u32 = 20;

/// The target of a link.
enum Lead {
    /// The link is missing, or it leads to a device that is not in use.
    Nothing,
    /// The link leads to the node of this runtime directory.
    Here,
    /// The link leads to a node that a live server serves under this same link.
    Served(PathBuf),
    /// The link leads to a device with another use, described in words.
    OtherNode(String),
    /// The path is anything else, described in words.
    Foreign(String),
}

fn lead(link: &Path, place: &RuntimeDir) -> Lead {
    let target = match fs::read_link(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Lead::Nothing,
        Err(_) => return Lead::Foreign("something that is not a link".into()),
        Ok(target) => target,
    };
    let Some(node) = BlockNode::named(&target) else { return Lead::Foreign(format!("a link to {}", target.display())) };
    match node.usage() {
        NodeUsage::None => Lead::Nothing,
        NodeUsage::RuntimeDir(root) if root == place.root() => Lead::Here,
        NodeUsage::RuntimeDir(root) if serves(&root, link) => Lead::Served(root),
        NodeUsage::RuntimeDir(root) => Lead::OtherNode(format!("the node of {}", root.display())),
        NodeUsage::Other(what) => Lead::OtherNode(what),
    }
}

fn serves(root: &Path, link: &Path) -> bool {
    is_held(root) && noted_links(root).iter().any(|noted| noted == link)
}

/// Returns an error if `link` leads to a target and does not belong to `place`.
pub(super) fn check(link: &Path, place: &RuntimeDir) -> Result<()> {
    let taken = |by| Err(Error::LinkTaken { link: link.into(), by });
    match lead(link, place) {
        Lead::Nothing | Lead::Here => Ok(()),
        Lead::Served(root) => taken(format!("the attached disk at {}", root.display())),
        Lead::OtherNode(what) => taken(format!("a link to {what}")),
        Lead::Foreign(what) => taken(what),
    }
}

/// Creates `link` to `node`.
pub(super) fn make(link: &Path, node: BlockNode, place: &RuntimeDir) -> Result<()> {
    check(link, place)?;
    let make = || {
        link.parent().map_or(Ok(()), fs::create_dir_all)?;
        match fs::remove_file(link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => symlink(node.path(), link),
        }
    };
    // A server that ends removes empty folders, possibly between two of these steps.
    let is_without_folder = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let made = (0..FOLDER_ATTEMPTS).map(|_| make()).find(|made| !made.as_ref().is_err_and(is_without_folder));
    made.unwrap_or_else(make).map_err(Error::io(format!("making the link {}", link.display())))
}

/// Removes `link` if it belongs to a dead server or to this runtime directory. A link that a live server created again,
/// or that a person replaced, stays.
pub(super) fn remove(link: &Path, place: &RuntimeDir) -> bool {
    let ours = match lead(link, place) {
        Lead::Served(_) | Lead::Foreign(_) => false,
        Lead::Nothing | Lead::Here | Lead::OtherNode(_) => true,
    };
    let removed = ours && fs::remove_file(link).is_ok();
    if removed {
        let folders = link.ancestors().skip(1).take_while(|folder| folder.starts_with(LINKS));
        // A folder that is not empty has the links of other disks.
        let _ = folders.map(fs::remove_dir).find(io::Result::is_err);
    }
    removed
}
