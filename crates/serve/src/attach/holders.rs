//! Who uses a node, in words a person can act on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::mounts::{Device, Mount, block_device};
use super::node::Node;

/// Mounts, swap, devices and processes that use `node` or its partitions, each in words.
pub(super) fn holders(node: Node) -> Vec<String> {
    let devices = node.devices();
    let mut who = claims(node);
    who.extend(processes().filter(|pid| opens(pid, &devices)).map(|pid| format!("process {pid} ({})", command(&pid))));
    who
}

/// Those of them that are no processes: mounts, swap and devices on top of it.
pub(super) fn claims(node: Node) -> Vec<String> {
    let devices = node.devices();
    let mut views = HashSet::new();
    let seen_by = processes().filter(|pid| views.insert(fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()));
    let points = seen_by.flat_map(|pid| mounted(&pid, &devices));
    let mut who: Vec<String> = points.map(|point| format!("the mount on {}", point.display())).collect();
    who.extend(swaps(&devices).map(|path| format!("swap on {}", path.display())));
    who.extend(stacked(node).map(|name| format!("the device {name} on top of it")));
    let mut seen = HashSet::new();
    who.retain(|one| seen.insert(one.clone()));
    who
}

/// Where file systems on `devices` are mounted, as `pid` sees it, in the order they were mounted.
pub(super) fn mounted(pid: &str, devices: &[Device]) -> Vec<PathBuf> {
    let mounts = Mount::seen_by(pid).unwrap_or_default();
    mounts.into_iter().filter(|mount| mount.is_on(devices)).map(|mount| mount.point).collect()
}

fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether `pid` has one of `devices` open. Only descriptors that lead under `/dev` are looked at: asking about one
/// that leads to our own mount would wait for ourselves.
fn opens(pid: &str, devices: &[Device]) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|fd| {
        fs::read_link(&fd).is_ok_and(|target| target.starts_with("/dev"))
            && block_device(&fd).is_some_and(|device| devices.contains(&device))
    })
}

fn command(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn swaps(devices: &[Device]) -> impl Iterator<Item = PathBuf> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths: Vec<PathBuf> = table.lines().skip(1).filter_map(|line| line.split(' ').next()).map(Into::into).collect();
    paths.into_iter().filter(|path| block_device(path).is_some_and(|device| devices.contains(&device)))
}

/// Devices (device mapper, RAID) built on the node or a partition of it.
fn stacked(node: Node) -> impl Iterator<Item = String> {
    let inside = fs::read_dir(node.sysfs()).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(node.sysfs()).chain(inside).flat_map(|directory| names_in(&directory.join("holders")))
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
