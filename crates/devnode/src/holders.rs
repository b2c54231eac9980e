//! Who uses a node, in words a person can act on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::loop_node::LoopNode;
use super::node::BlockNode;
use super::runtime_dir::DirLock;
use ferrite_fuse::{Device, MountEntry, block_device, device_named, may_be_a_device};

/// How long a program may keep a node before it counts as a user of it.
const GLANCE: Duration = Duration::from_millis(300);

/// How often a node is looked at meanwhile.
const LOOKS: u32 = 10;

/// Who has a node that nobody is seen to use.
pub(super) const UNSEEN: &str = "the kernel (open files on a file system that was unmounted lazily, another mount \
    namespace, or a file system of several devices)";

/// Mounts, swap, devices and processes that use `node` or its partitions, each in words.
pub(super) fn holders(node: BlockNode, lock: &DirLock) -> Vec<String> {
    let devices = node.devices();
    let mut who = seen(node);
    who.extend(processes().filter(|pid| opens(pid, &devices)).map(|pid| format!("process {pid} ({})", command(&pid))));
    or_unseen(who, node, lock)
}

/// Those of them that go on doing so: programs that look at a changed device and close it again do not count.
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

/// Those of them that are no processes: mounts, swap and devices on top of it.
pub(super) fn claims(node: BlockNode, lock: &DirLock) -> Vec<String> {
    or_unseen(seen(node), node, lock)
}

/// `who`, or where that is nobody the kernel, if it has the node for a use that no list tells of.
fn or_unseen(mut who: Vec<String>, node: BlockNode, lock: &DirLock) -> Vec<String> {
    // A program that makes a file system has the node for itself, too, until it ends.
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

/// Where file systems on `devices` are mounted, as `pid` sees it, in the order they were mounted.
pub(super) fn mounted(pid: &str, devices: &[Device]) -> Vec<PathBuf> {
    let mounts = MountEntry::seen_by(pid).unwrap_or_default();
    mounts.into_iter().filter(|mount| mount.is_on(devices)).map(|mount| mount.point).collect()
}

fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether `pid` has one of `devices` open. Only descriptors of what may be one are looked at: asking about one that leads to
/// our own mount would wait for ourselves.
fn opens(pid: &str, devices: &[Device]) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|fd| {
        fs::read_link(&fd).is_ok_and(|target| may_be_a_device(&target))
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
fn stacked(node: BlockNode) -> impl Iterator<Item = String> {
    let inside = fs::read_dir(node.sysfs()).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(node.sysfs()).chain(inside).flat_map(|directory| names_in(&directory.join("holders")))
}

/// Loop devices over one of `devices`, which the kernel does not list as built on it.
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
