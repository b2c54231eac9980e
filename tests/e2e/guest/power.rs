//! The power fails during writes to pools in persistent memory.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Stage::{Afterwards, Writing};
use super::dax::{FOLDER, device};
use super::inside;
use crate::kill::content;
use crate::programs::client;
use crate::server::{Server, assert_sound, json, ok, run};
use crate::tree::Mounted;

const DISK: &str = "guest-power";

fn server() -> Server {
    Server::start(&Path::new(FOLDER).join("power"), &["--size", "128M", "--disk", &format!("{DISK}=64M")])
}

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).expect("how much was durable")
}

/// The name of a cache of two disks of the machine before the third.
const CACHE: &str = "guest-cached";
/// Bytes of a write to the cached disk: more than a LEB has.
const STRIPE: u64 = 64 << 10;

fn has_disks() -> bool {
    let has_disks = Path::new("/dev/vdc").exists();
    if !has_disks {
        println!("skipped: the guest's kernel has no virtio disks");
    }
    has_disks
}

fn cached_pool() -> PathBuf {
    Path::new(FOLDER).join("cached")
}

/// Returns what is written to the cached disk in the step `nth`.
fn stripe(nth: u64) -> Vec<u8> {
    (0..STRIPE).map(|at| (at / 251 + at + nth * 7) as u8).collect()
}

/// A cache whose server writes synced data to it.
struct WrittenCache {
    _server: Server,
    node: File,
}

impl WrittenCache {
    fn new() -> Self {
        let pool = cached_pool();
        let name = pool.to_str().expect("text");
        ok(&["pool", "create", name, "--size", "64M"]);
        let create = ["cache", "create", name, CACHE, "--mode", "write-back", "--buffer", "4M", "--leb", "64K"];
        ok(&[&create[..], &["--disk", "/dev/vda", "--ssd", "/dev/vdb", "--ssd", "/dev/vdc"]].concat());
        let server = Server::start(&pool, &["--no-disk"]);
        let node = File::options().write(true).custom_flags(libc::O_DSYNC).open(server.node(CACHE)).expect("opened");
        Self { _server: server, node }
    }

    fn write(&self, nth: u64) {
        self.node.write_all_at(&stripe(nth), nth * STRIPE).expect("durable");
        println!("durable block {nth}");
    }
}

/// Writes until the power fails. It fsyncs each file on a file system on a disk, in a pool on a DAX file system. It
/// also writes tags of a pool on device DAX, and synced data to a cache of disks whose pool is on the DAX file system.
#[test]
fn what_is_durable_is_told() {
    inside(Writing, "what_is_durable_is_told", || {
        let server = server();
        run(client("mkfs.ext4").args(["-q", "-F"]).arg(server.node(DISK)));
        let at = Path::new("/tmp/power");
        let mounted = Mounted::new(&server.node(DISK), at);
        let cache = has_disks().then(WrittenCache::new);
        for nth in 0.. {
            if let Some(cache) = &cache {
                cache.write(nth);
            }
            let mut file = File::create(mounted.0.join(format!("f{nth}"))).expect("made");
            file.write_all(&content(0, nth)).and_then(|()| file.sync_all()).expect("durable");
            File::open(mounted.0).and_then(|folder| folder.sync_all()).expect("durable");
            println!("durable file {nth}");
            if nth % 3 == 0 {
                put(nth / 3);
            }
        }
    });
}

fn put(nth: u64) {
    fs::write("/tmp/tag", content(1, nth)).expect("written");
    ok(&["tag", "put", device().to_str().expect("text"), &format!("t{nth}"), "/tmp/tag"]);
    println!("durable tag {nth}");
}

/// All data that the guest reported as durable is there, on a file system that needs no repair, in a sound pool.
#[test]
fn fsynced_files_on_dax_outlive_the_power() {
    inside(Afterwards, "fsynced_files_on_dax_outlive_the_power", || {
        let server = server();
        let node = server.node(DISK);
        let replayed = client("e2fsck").arg("-p").arg(&node).output().expect("e2fsck runs").status.code();
        assert!(matches!(replayed, Some(0 | 1)), "e2fsck -p says {replayed:?}");
        run(client("e2fsck").arg("-fn").arg(&node));
        let mounted = Mounted::new(&node, Path::new("/tmp/power"));
        let files = number("FERRITE_FILES");
        for nth in 0..files {
            let found = fs::read(mounted.0.join(format!("f{nth}"))).expect("a durable file is there");
            assert!(found == content(0, nth), "file {nth} was durable and is not whole");
        }
        println!("{files} files outlived the power");
        drop(mounted);
        assert_sound(&server.pool);
    });
}

/// The cache has everything that was synced to it, on two SSDs.
#[test]
fn synced_blocks_of_a_cache_outlive_the_power() {
    inside(Afterwards, "synced_blocks_of_a_cache_outlive_the_power", || {
        if !has_disks() {
            return;
        }
        let server = Server::start(&cached_pool(), &["--no-disk"]);
        let node = File::open(server.node(CACHE)).expect("opened");
        let blocks = number("FERRITE_BLOCKS");
        assert!(blocks > 0, "nothing was written to the cache");
        let mut found = vec![0; STRIPE as usize];
        for nth in 0..blocks {
            node.read_exact_at(&mut found, nth * STRIPE).expect("read");
            assert!(found == stripe(nth), "the write {nth} was durable and is not whole");
        }
        drop(node);
        let stat = json(&["cache", "stat", cached_pool().to_str().expect("text"), CACHE]);
        let online = stat["ssds"].as_array().is_some_and(|ssds| ssds.iter().all(|ssd| ssd["state"] == "online"));
        assert!(online && stat["bytes"]["lost"] == 0 && stat["bytes"]["single"] == 0, "{stat}");
        println!("{blocks} writes to a cache outlived the power");
        assert_sound(&cached_pool());
    });
}

#[test]
fn tags_on_device_dax_outlive_the_power() {
    inside(Afterwards, "tags_on_device_dax_outlive_the_power", || {
        let (pool, tags) = (device(), number("FERRITE_TAGS"));
        for nth in 0..tags {
            ok(&["tag", "get", pool.to_str().expect("text"), &format!("t{nth}"), "/tmp/tag"]);
            assert!(fs::read("/tmp/tag").expect("read") == content(1, nth), "tag {nth} was durable and is not whole");
        }
        println!("{tags} tags outlived the power");
        assert_sound(&pool);
    });
}
