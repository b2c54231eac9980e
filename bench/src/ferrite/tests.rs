//! A script in the place of the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::pool_tree::{OpenPool, PoolTree};

/// A program that does what `script` says, with its arguments in `$folder/arguments`.
fn program_of(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("ferrite");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\n{script}\n", folder.join("arguments").display());
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    path
}

fn arguments(folder: &Path) -> String {
    fs::read_to_string(folder.join("arguments")).expect("it was run")
}

fn pool(folder: &Path) -> Arc<ClosedPool> {
    let open_pool = OpenPool::new(folder, 16 << 20).expect("a pool");
    let tree = PoolTree {
        open_pool: Arc::clone(&open_pool),
        name: "run",
        cached: false,
        super_threshold_bytes: None,
        ssd: None,
    };
    tree.make().expect("a file system");
    drop(tree);
    open_pool.close().expect("closed")
}

#[test]
fn the_program_is_the_variable_or_this_process_if_it_is_ferrite() {
    let chosen = |variable: Option<&str>, own: &str| choose(variable.map(Into::into), Some(own.into()));
    assert_eq!(chosen(Some("/opt/ferrite-2"), "/usr/bin/ferrite"), Some("/opt/ferrite-2".into()));
    assert_eq!(chosen(None, "/usr/bin/ferrite"), Some("/usr/bin/ferrite".into()));
    assert_eq!(chosen(None, "/usr/bin/python3"), None, "a process that links this crate is not the program");
    assert_eq!(choose(None, None), None);
}

#[test]
fn a_served_pool_is_started_as_its_users_start_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = Scratch::new(folder.path()).expect("made");
    let ferrite = program_of(folder.path(), "echo no room >&2; exit 1");
    let error = serve(&ferrite, &scratch, 2048, 1024).err().expect("the script serves nothing").to_string();
    assert_eq!(error, "ferrite: it ended (exit status: 1): no room");
    let (path, socket) = (scratch.path("pool"), scratch.path("ferrite"));
    let wanted = format!(
        "up --no-attach --no-mount --size 2048 --disk disk=1024 --pool {} --unix {}\n",
        path.display(),
        socket.display()
    );
    assert_eq!(arguments(folder.path()), wanted);
}

#[test]
fn an_owner_mounts_a_file_system_and_ends_when_it_is_dropped() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let script =
        "case $2 in stat) echo '{\"space\":{\"super_bytes\":4096}}';; mount) echo mounted; exec sleep 100;; esac";
    let ferrite = program_of(folder.path(), script);
    let (pool, point) = (pool(folder.path()), Path::new("/mnt"));
    let path = pool.path().display().to_string();
    let owner = OwnerProcess::start(Command::new(&ferrite), &ferrite, pool, "run", point).expect("it starts");
    let owner = owner.expect("it mounted");
    owner.wait_for_superpages(4096).expect("they are there");
    let pid = owner.id();
    drop(owner);
    assert!(!Path::new("/proc").join(pid.to_string()).exists());
    let wanted = format!("fs mount --json {path} run /mnt\nfs stat --json {path} run\n");
    assert_eq!(arguments(folder.path()), wanted);
}

/// The worker alone takes any arguments, and does nothing.
#[test]
fn a_program_that_mounts_nothing_is_no_owner() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let ferrite = program_of(folder.path(), "exit 0");
    let owner = OwnerProcess::start(Command::new(&ferrite), &ferrite, pool(folder.path()), "run", Path::new("/mnt"));
    assert!(owner.expect("it starts").is_none());
}

#[test]
fn a_statistic_that_fails_is_an_error() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let ferrite =
        program_of(folder.path(), "case $2 in stat) echo gone >&2; exit 1;; mount) echo; exec sleep 100;; esac");
    let owner = OwnerProcess::start(Command::new(&ferrite), &ferrite, pool(folder.path()), "run", Path::new("/mnt"));
    let error =
        owner.expect("it starts").expect("it mounted").wait_for_superpages(1).expect_err("it fails").to_string();
    assert!(error.starts_with("ferrite: it ended with ") && error.ends_with("gone"), "{error}");
}
