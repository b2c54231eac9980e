//! Clears the leftovers of a killed server.
//!
//! A dead server's file system, and a disconnected NBD device, answer every request with an error, so every call here
//! returns. Only directories whose lock is free are touched (rule AP1 of `runtime_dir`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::file_point;
use super::holders::{UNSEEN, holders, mounted};
use super::link;
use super::node::BlockNode;
use super::runtime_dir::{DirLock, RuntimeDir};
use super::{Error, Result};
use ferrite_fuse::MountEntry;

/// Clears the leftovers of killed servers in `directory`. File systems mounted from their nodes are unmounted (lazily:
/// they can only fail now), devices detached, dead mounts, links and directories removed. The resources of live servers
/// are not touched. Returns a line for each resource that was cleared, or that still waits for a program to close it.
pub fn clear_stale(directory: &Path) -> Vec<String> {
    let Ok(directory) = directory.canonicalize() else { return Vec::new() };
    let mut notes = Vec::new();
    for name in names(&directory) {
        let place = RuntimeDir::at(&directory, &name);
        match clear_place(&place, &mut notes) {
            Ok(()) | Err(Error::Held { .. }) => {}
            Err(error) => notes.push(format!("could not clear {}: {error}", directory.join(&name).display())),
        }
    }
    // A server may have been killed between its last runtime directory and this call. If any runtime directory remains,
    // the call fails.
    let _ = fs::remove_dir(&directory);
    notes
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let places = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    places.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn clear_place(place: &RuntimeDir, notes: &mut Vec<String>) -> Result<()> {
    let lock = place.lock()?;
    clear(place, &lock, notes)?;
    lock.remove().map_err(Error::io("removing the directory"))
}

/// Clears the content of `place`, whose lock the caller holds.
pub(super) fn clear(place: &RuntimeDir, lock: &DirLock, notes: &mut Vec<String>) -> Result<()> {
    for link in lock.noted_links().into_iter().filter(|link| link::remove(link, place)) {
        notes.push(format!("removed the link {}", link.display()));
    }
    for node in BlockNode::of(place).map_err(Error::io("listing block devices"))? {
        // The device is disconnected first: a lazy unmount may wait for requests that a dead NBD server left
        // unanswered.
        node.cut(lock).or_else(gone).map_err(Error::io(format!("detaching {}", node.path().display())))?;
        unmount_users(node, notes);
        tell_fate(node, place, lock, notes);
    }
    file_point::clear_dead(place, notes)?;
    let point = place.mount_point();
    while MountEntry::seen_by("self").is_ok_and(|mounts| mounts.iter().any(|mount| mount.point == point)) {
        ferrite_fuse::unmount(&point).map_err(Error::io(format!("unmounting {}", point.display())))?;
        notes.push(format!("unmounted the dead {}", point.display()));
    }
    Ok(())
}

fn unmount_users(node: BlockNode, notes: &mut Vec<String>) {
    for point in mounted("self", &node.devices()).iter().rev() {
        notes.push(match ferrite_fuse::unmount_lazily(point) {
            Ok(()) => format!("unmounted {}, which was on the dead {}", point.display(), node.path().display()),
            Err(error) => format!("could not unmount {}: {error}", point.display()),
        });
    }
}

/// Reports if the device is gone or still in use. A program may keep a file open on a file system that is unmounted
/// lazily: the device then goes with that program.
fn tell_fate(node: BlockNode, place: &RuntimeDir, lock: &DirLock, notes: &mut Vec<String>) {
    let device = node.path();
    if node.wait_until_free(place, Duration::from_secs(2)) {
        notes.push(format!("detached the dead {}", device.display()));
    } else {
        let who = holders(node, lock).join(", ");
        let who = if who.is_empty() { UNSEEN } else { &who };
        notes.push(format!("{} is dead and goes when let go by {who}", device.display()));
    }
}

fn gone(error: std::io::Error) -> std::io::Result<()> {
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(()) } else { Err(error) }
}
