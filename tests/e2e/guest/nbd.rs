//! `/dev` nodes by the kernel's own NBD driver.

use std::fs;
use std::path::{Path, PathBuf};

use super::Stage::Working;
use super::inside;
use crate::programs::client;
use crate::server::{Server, folder, run};
use crate::{kill, node};

/// Returns the device behind the node of the disk called `name`. Panics if it is not a device of the driver.
fn device(server: &Server, name: &str) -> PathBuf {
    let device = fs::read_link(server.node(name)).expect("a link");
    assert!(device.starts_with("/dev") && device.to_string_lossy().contains("/nbd"), "{}", device.display());
    assert!(server.lines.iter().any(|line| line.contains("by the kernel's NBD driver")), "{:?}", server.lines);
    device
}

fn attribute(device: &Path, name: &str) -> Option<String> {
    let path = Path::new("/sys/block").join(device.file_name().expect("a name")).join(name);
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// If the kernel has the driver, the server uses it, passes it the disk's features, and releases everything at its end.
#[test]
fn a_node_is_the_kernels_nbd_device() {
    inside(Working, "a_node_is_the_kernels_nbd_device", || {
        let folder = folder(true);
        let server = Server::start(&folder.path().join("pool"), &["--size", "64M", "--disk", "guest-node=24M"]);
        let device = device(&server, "guest-node");
        let is = |name: &str, value: &str| assert_eq!(attribute(&device, name).as_deref(), Some(value), "{name}");
        is("size", &((24 << 20) / 512).to_string());
        is("queue/logical_block_size", "512");
        is("queue/write_cache", "write back");
        is("queue/fua", "1");
        assert_ne!(attribute(&device, "queue/discard_max_bytes").as_deref(), Some("0"));
        server.interrupt();
        assert_eq!(attribute(&device, "backend"), None, "still connected");
        assert!(!Path::new("/dev/ferrite/guest-node").exists(), "the link is left");
    });
}

#[test]
fn ext4_lives_on_kernel_nbd() {
    inside(Working, "ext4_lives_on_kernel_nbd", || {
        let folder = folder(true);
        let server = Server::start(&folder.path().join("pool"), &["--size", "160M", "--disk", "guest-ext4=96M"]);
        let device = device(&server, "guest-ext4");
        node::life(&server, "guest-ext4", &device, &["mkfs.ext4", "-q", "-F"], &["e2fsck", "-fn"]);
        server.interrupt();
    });
}

/// The kernel finds partitions as soon as the node exists, without a request.
#[test]
fn partitions_are_found() {
    inside(Working, "partitions_are_found", || {
        let folder = folder(true);
        let pool = folder.path().join("pool");
        let start = || Server::start(&pool, &["--size", "64M", "--disk", "guest-parts=24M"]);
        let server = start();
        run(client("sh").arg("-c").arg(format!("echo ',,L' | sfdisk -q {}", server.node("guest-parts").display())));
        server.interrupt();
        let server = start();
        let part = format!("{}p1", device(&server, "guest-parts").display());
        assert!(Path::new(&part).exists(), "no {part}");
    });
}

#[test]
fn a_disk_grows_while_it_is_a_kernel_nbd_device() {
    inside(
        Working,
        "a_disk_grows_while_it_is_a_kernel_nbd_device",
        node::a_disk_is_attached_and_detached_beside_a_running_server_and_grows,
    );
}

/// A server is killed under a mounted file system in use. The next server clears the device, although some requests
/// never got an answer, and serves at once. All fsynced data is whole.
#[test]
fn a_killed_servers_nbd_device_is_cleared_and_fsynced_files_are_whole() {
    inside(Working, "a_killed_servers_nbd_device_is_cleared_and_fsynced_files_are_whole", || {
        kill::kill_rounds(true, "guest-kill", 2);
    });
}
