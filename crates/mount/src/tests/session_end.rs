//! A session whose threads have ended before the mount.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use ferrite_fs::DataMode;
use ferrite_fuse::FuseCounters;
use ferrite_memory::monotonic_ns;
use fuser::{FileHandle, Filesystem, INodeNo, ReplyAttr, Request};

use super::super::{as_root, unmount};
use super::{KIND, MountFolder, MountOptions, Mounted, PATIENCE, World, file_system};

/// A file system whose thread ends with the first request.
struct Ending;

impl Filesystem for Ending {
    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, _: ReplyAttr) {
        panic!("planted: the thread of the session ends");
    }
}

/// The kernel would wait for ever for an answer to `sync`.
#[test]
fn a_mount_whose_threads_have_ended_is_abandoned() {
    let Some(_world) = World::new(None) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let options = MountOptions { threads: 1, ..World::how(false) };
    let point = MountFolder::open(folder.path()).expect("there");
    let session = as_root(Ending, &point, &options).expect("mounted").spawn().expect("it runs");
    let entry = point.mounted().expect("listed").filter(|mount| mount.kind == KIND);
    let counters = Arc::new(FuseCounters::new(monotonic_ns));
    let mounted =
        Mounted::begin(&file_system(DataMode::Sync), session, folder.path().into(), entry, &options, counters);
    let mounted = mounted.expect("it begins");
    let mut first = Command::new("stat");
    first.arg(folder.path());
    // It waits until the connection ends, which is at the end of this process.
    thread::spawn(move || first.output());
    assert!(mounted.has_ended_within(PATIENCE), "a thread still answers");
    let (tell, said) = channel();
    thread::spawn(move || tell.send(mounted.abandon()));
    let abandoned = said.recv_timeout(PATIENCE);
    // A removal of the folder below the mount would wait, too.
    let _ = unmount(folder.path(), true, |_| true);
    let why = abandoned.expect("it waits for nobody").expect_err("nothing was written back");
    assert!(why.to_string().contains("have ended"), "{why}");
}
