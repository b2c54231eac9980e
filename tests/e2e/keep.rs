//! `ferrite up --keep`: a pool in memory comes back from its image as it was saved.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;

use crate::programs::ferrite;
use crate::server::{Server, folder, json, ok, refused, run, signal};

/// A pool in memory, and the folder of its image.
struct KeptPool {
    memory: TempDir,
    disk: TempDir,
}

impl KeptPool {
    fn new() -> Self {
        Self { memory: folder(true), disk: folder(false) }
    }

    fn pool(&self) -> PathBuf {
        self.memory.path().join("pool")
    }

    fn image(&self) -> PathBuf {
        self.disk.path().join("image")
    }

    /// Returns the options of `up`, beside the pool.
    fn options(&self) -> Vec<String> {
        let image = self.image().to_str().expect("text").to_owned();
        let words = ["--no-attach", "--no-disk", "--size", "32M", "--every", "0", "--keep"];
        words.into_iter().map(String::from).chain([image]).collect()
    }

    fn up(&self) -> Server {
        let options = self.options();
        Server::start(&self.pool(), &options.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Puts a value of 2 MiB.
    fn put(&self, name: &str) {
        let content = self.disk.path().join("content");
        fs::write(&content, name.repeat((2 << 20) / name.len())).expect("written");
        ok(&["tag", "put", self.pool().to_str().expect("text"), name, content.to_str().expect("text")]);
    }

    /// Returns the names of the values, each of which must be whole.
    fn values(&self) -> Vec<&'static str> {
        let pool = self.pool();
        let is_whole = |name: &&str| {
            let found = ferrite().args(["tag", "get"]).arg(&pool).arg(name).output().expect("it runs");
            assert!(!found.status.success() || found.stdout == name.repeat((2 << 20) / name.len()).as_bytes());
            found.status.success()
        };
        ["first", "second", "third"].into_iter().filter(is_whole).collect()
    }

    /// Ends `server` with a last save.
    fn end(&self, server: Server) {
        signal(server.pid(), "TERM");
        assert_eq!(server.ended(), Some(0));
    }

    /// Removes the pool, as a restart of the machine does.
    fn lose(&self) {
        fs::remove_file(self.pool()).expect("it was there");
    }
}

#[test]
fn a_pool_that_is_gone_is_as_it_was_saved() {
    let kept = KeptPool::new();
    let server = kept.up();
    kept.put("first");
    kept.end(server);
    kept.lose();
    let server = kept.up();
    assert!(server.lines.join("\n").contains("restored"), "{:?}", server.lines);
    assert_eq!(kept.values(), ["first"]);
    let info = json(&["pool", "info", kept.pool().to_str().expect("text")]);
    assert_eq!(info["kept"]["image"], kept.image().to_str().expect("text"), "{info}");

    // What was not saved is lost.
    kept.put("second");
    server.kill();
    kept.lose();
    let server = kept.up();
    assert_eq!(kept.values(), ["first"]);
    kept.end(server);
}

/// SIGPWR begins a save.
#[test]
fn a_server_that_is_killed_during_a_save_leaves_a_whole_one() {
    let kept = KeptPool::new();
    let server = kept.up();
    kept.put("first");
    kept.end(server);
    for (name, wait_ms) in [("second", 1), ("third", 8)] {
        let server = kept.up();
        kept.put(name);
        signal(server.pid(), "PWR");
        std::thread::sleep(Duration::from_millis(wait_ms));
        server.kill();
        kept.lose();
        let server = kept.up();
        assert!(kept.values().starts_with(&["first"]), "{:?}", kept.values());
        server.kill();
    }
    run(ferrite().args(["pool", "restore"]).args([kept.image(), kept.disk.path().join("copy")]));
}

#[test]
fn a_start_that_is_killed_leaves_the_whole_pool_or_none() {
    let kept = KeptPool::new();
    let server = kept.up();
    kept.put("first");
    kept.put("second");
    kept.end(server);
    for wait_ms in [4, 12, 25] {
        kept.lose();
        let mut up = ferrite();
        up.args(["up", "--no-mount", "--pool"]).arg(kept.pool()).args(kept.options());
        let mut up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ferrite starts");
        std::thread::sleep(Duration::from_millis(wait_ms));
        up.kill().expect("killed");
        up.wait().expect("reaped");
        let server = kept.up();
        assert_eq!(kept.values(), ["first", "second"]);
        server.kill();
        let left: Vec<_> = fs::read_dir(kept.memory.path()).expect("there").flatten().collect();
        assert!(left.iter().all(|entry| !entry.path().ends_with("pool.restoring")), "{left:?}");
    }
}

#[test]
fn a_pool_that_is_older_than_its_image_is_not_saved() {
    let kept = KeptPool::new();
    kept.end(kept.up());
    let older = kept.memory.path().join("older");
    fs::copy(kept.pool(), &older).expect("copied");
    for name in ["first", "second"] {
        let server = kept.up();
        kept.put(name);
        kept.end(server);
    }
    fs::rename(&older, kept.pool()).expect("renamed");
    let mut up = ferrite();
    let message = refused(up.args(["up", "--no-mount", "--pool"]).arg(kept.pool()).args(kept.options()), 1);
    assert!(message.contains("name another image, or remove the pool"), "{message}");
    kept.lose();
    let server = kept.up();
    assert_eq!(kept.values(), ["first", "second"]);
    kept.end(server);
}

/// Returns the messages that `manager` has received since the last call, without repetitions.
fn messages(manager: &UnixDatagram) -> Vec<String> {
    let mut bytes = [0; 256];
    let next = || {
        let length = manager.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    let mut messages: Vec<String> = std::iter::from_fn(next).collect();
    messages.dedup();
    messages
}

/// A restore and a last save of a large pool take longer than a service manager waits without a message.
#[test]
fn a_restore_and_a_last_save_extend_the_limits_of_the_service_manager() {
    const EXTENDED: &str = "EXTEND_TIMEOUT_USEC=60000000";
    let kept = KeptPool::new();
    let socket = kept.disk.path().join("manager");
    let manager = UnixDatagram::bind(&socket).expect("bound");
    manager.set_nonblocking(true).expect("set");
    let up = || {
        let mut up = ferrite();
        up.args(["up", "--no-mount", "--pool"]).arg(kept.pool()).args(kept.options()).env("NOTIFY_SOCKET", &socket);
        Server::of(&mut up, &kept.pool(), "Ctrl-C ends it.")
    };
    let server = up();
    kept.put("first");
    kept.end(server);
    assert_eq!(messages(&manager), ["READY=1", "STOPPING=1", EXTENDED]);
    kept.lose();
    let server = up();
    kept.put("second");
    kept.end(server);
    assert_eq!(messages(&manager), [EXTENDED, "READY=1", "STOPPING=1", EXTENDED]);
}
