//! The power fails during writes to pools in persistent memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::Stage::{Afterwards, Writing};
use super::dax::{FOLDER, device};
use super::inside;
use crate::kill::content;
use crate::programs::client;
use crate::server::{Server, assert_sound, ok, run};
use crate::tree::Mounted;

const DISK: &str = "guest-power";

fn server() -> Server {
    Server::start(&Path::new(FOLDER).join("power"), &["--size", "128M", "--disk", &format!("{DISK}=64M")])
}

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).expect("how much was durable")
}

/// Writes until the power fails. It fsyncs each file on a file system on a disk, in a pool on a DAX file system. It
/// also writes tags of a pool on device DAX.
#[test]
fn what_is_durable_is_told() {
    inside(Writing, "what_is_durable_is_told", || {
        let server = server();
        run(client("mkfs.ext4").args(["-q", "-F"]).arg(server.node(DISK)));
        let at = Path::new("/tmp/power");
        let mounted = Mounted::new(&server.node(DISK), at);
        for nth in 0.. {
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
