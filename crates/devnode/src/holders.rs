//! The users of a node, in words on which a person can act.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::loop_node::LoopNode;
use super::node::BlockNode;
use super::runtime_dir::DirLock;
use ferrite_fuse::{Device, MountEntry, block_device, device_named, may_be_a_device};

/// Time that a program may keep a node open before it counts as a user of the node.
const GLANCE: Duration = Duration::from_millis(300);

/// Number of times that a node is checked within [`GLANCE`].
const LOOKS: u32 = 10;

/// The description of a holder when the kernel has the node in use but no list shows a user.
pub(super) const UNSEEN: &str = "the kernel (open files on a file system that was unmounted lazily, another mount \
    namespace, or a file system of several devices)";

/// Returns the mounts, swap areas, devices and processes that use `node` or its partitions, each in words.
pub(super) fn holders(node: BlockNode, lock: &DirLock) -> Vec<String> {
    let devices = node.devices();
    let mut who = seen(node);
    who.extend(processes().filter(|pid| opens(pid, &devices)).map(|pid| format!("process {pid} ({})", command(&pid))));
    or_unseen(who, node, lock)
}

/// Returns the [`holders`] that stay. Programs that look at a changed device and close it again do not count.
pub(super) fn lasting_holders(node: BlockNode, lock: &DirLock) -> Vec<String> {
    for _ in 1..LOOKS {
        let who = holders(node, lock);
        if who.iter().any(|one| !one.starts_with("process")) || who.is_empty() {
            return who;
        }
        sleep(GLANCE / LOOKS);
    }
    holders(node, lock)
}

/// Returns the holders that are not processes: mounts, swap areas and devices on top of the node.
pub(super) fn claims(node: BlockNode, lock: &DirLock) -> Vec<String> {
    or_unseen(seen(node), node, lock)
}

/// Returns `who`, or the kernel if `who` is empty and the kernel has the node in use in a way that no list shows.
fn or_unseen(mut who: Vec<String>, node: BlockNode, lock: &DirLock) -> Vec<String> {
    // A program that makes a file system also opens the node exclusively, until it ends.
    let is_claimed = |look| {
        sleep(if look == 0 { Duration::ZERO } else { GLANCE / LOOKS });
        node.is_claimed(lock)
    };
    if who.is_empty() && (0..LOOKS).all(is_claimed) {
        who.push(UNSEEN.into());
    }
    who
}

fn seen(node: BlockNode) -> Vec<String> {
    let devices = node.devices();
    let mut views = HashSet::new();
    let seen_by = processes().filter(|pid| views.insert(fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()));
    let points = seen_by.flat_map(|pid| mounted(&pid, &devices));
    let mut who: Vec<String> = points.map(|point| format!("the mount on {}", point.display())).collect();
    who.extend(swaps(&devices).map(|path| format!("swap on {}", path.display())));
    let on_top = stacked(node).chain(loops(&devices));
    who.extend(on_top.map(|name| format!("the device {name} on top of it")));
    let mut seen = HashSet::new();
    who.retain(|one| seen.insert(one.clone()));
    who
}

/// Returns the mount points of file systems on `devices` in the view of `pid`, in the order of mounting.
pub(super) fn mounted(pid: &str, devices: &[Device]) -> Vec<PathBuf> {
    let mounts = MountEntry::seen_by(pid).unwrap_or_default();
    mounts.into_iter().filter(|mount| mount.is_on(devices)).map(|mount| mount.point).collect()
}

/// Returns the numbers of all processes.
pub(super) fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns true if `pid` has one of `devices` open. Only descriptors that may be devices are examined: a `stat` of a
/// file on the mount of this process would wait for this process itself.
fn opens(pid: &str, devices: &[Device]) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|fd| {
        fs::read_link(&fd).is_ok_and(|target| may_be_a_device(&target))
            && block_device(&fd).is_some_and(|device| devices.contains(&device))
    })
}

/// Returns the name of the program that `pid` runs.
pub(super) fn command(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn swaps(devices: &[Device]) -> impl Iterator<Item = PathBuf> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths: Vec<PathBuf> = table.lines().skip(1).filter_map(|line| line.split(' ').next()).map(Into::into).collect();
    paths.into_iter().filter(|path| block_device(path).is_some_and(|device| devices.contains(&device)))
}

/// Returns the devices (device mapper, RAID) that are built on the node or on one of its partitions.
fn stacked(node: BlockNode) -> impl Iterator<Item = String> {
    let inside = fs::read_dir(node.sysfs()).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(node.sysfs()).chain(inside).flat_map(|directory| names_in(&directory.join("holders")))
}

/// Returns the loop devices over one of `devices`, which the kernel does not list as built on it.
fn loops(devices: &[Device]) -> impl Iterator<Item = String> {
    let over = |name: &String| {
        let file = LoopNode::named(&Path::new("/dev").join(name)).and_then(LoopNode::backing);
        file.and_then(|file| device_named(&file)).is_some_and(|device| devices.contains(&device))
    };
    names_in(Path::new("/sys/block")).into_iter().filter(over)
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
