//! A cache of SSDs before a disk, its server and its clients, for the tests of caches.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::programs::client;
use crate::server::{Server, folder, json, ok};

/// Bytes of the disk behind the cache, with its stamp.
pub const DISK_BYTES: u64 = 513 << 20;
/// Bytes of an SSD.
pub const SSD_BYTES: u64 = 128 << 20;

/// Options of a cache that writes nothing to its disk by itself.
pub const KEEPS_DIRTY: [&str; 6] = ["--destage-rate", "0", "--dirty-age", "0", "--dirty-max", "50%"];

/// A pool in memory with a cache of two SSDs before one disk.
pub struct CachedDisk {
    pub server: Option<Server>,
    pub pool: String,
    /// The name of the cache and of its disk.
    name: String,
    folder: TempDir,
}

impl CachedDisk {
    /// Makes the cache `c`. `disk` and `ssd` stand before the paths of the files; `more` are options of `cache create`.
    pub fn new(disk: &str, ssd: &str, more: &[&str]) -> Self {
        Self::named("c", disk, ssd, more)
    }

    /// Makes the cache `name`.
    pub fn named(name: &str, disk: &str, ssd: &str, more: &[&str]) -> Self {
        let folder = folder(true);
        let ssds = ["s0", "s1"].map(|name| {
            let file = sized(&folder, name, SSD_BYTES);
            format!("{ssd}{file}")
        });
        let disk = format!("{disk}{}", sized(&folder, "disk", DISK_BYTES));
        Self::of(folder, name, &disk, &ssds, more)
    }

    /// Makes the cache `name` with members that are there.
    pub fn of(folder: TempDir, name: &str, disk: &str, ssds: &[String], more: &[&str]) -> Self {
        let pool = folder.path().join("pool").to_str().expect("text").to_owned();
        ok(&["pool", "create", &pool, "--size", "256M"]);
        let mut create = vec!["cache", "create", &pool, name, "--mode", "write-back", "--disk", disk];
        ssds.iter().for_each(|ssd| create.extend(["--ssd", ssd]));
        create.extend(more);
        let made = json(&create);
        assert_eq!(made["state"], "closed");
        assert_eq!(made["survives"]["power_loss"]["state"], "no", "the pool is in memory: {made}");
        Self { server: None, pool, name: name.into(), folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of a file of the test as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    /// Makes a sparse file of `bytes`, and returns its path.
    pub fn sized(&self, name: &str, bytes: u64) -> String {
        sized(&self.folder, name, bytes)
    }

    /// Starts a server of the pool.
    pub fn serve(mut self) -> Self {
        self.start();
        self
    }

    pub fn start(&mut self) {
        self.start_with(&["--no-attach"]);
    }

    /// Starts a server of the pool with `more` options.
    pub fn start_with(&mut self, more: &[&str]) {
        let server = Server::start(self.pool.as_ref(), &[&["--no-disk"], more].concat());
        let head = format!("cache     {} ", self.name);
        assert!(server.lines.iter().any(|line| line.starts_with(&head)), "{:?}", server.lines);
        self.server = Some(server);
    }

    pub fn server(&mut self) -> Server {
        self.server.take().expect("it serves")
    }

    /// Returns the NBD address of the cached disk.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///{}?socket={}.nbd", self.name, self.pool)
    }

    /// Returns fio on the cached disk, with `words`.
    pub fn fio(&self, words: &[&str]) -> Command {
        let mut fio = client("fio");
        fio.args(["--name=c", "--ioengine=nbd", "--bs=4k", "--iodepth=32", "--output-format=json"]);
        fio.arg(format!("--uri={}", self.uri())).args(words);
        fio.current_dir(self.folder.path());
        fio
    }

    /// Returns fio that reads and writes each block of `size` twice, in a random order, and compares what it wrote.
    ///
    /// No block is written twice within a loop, because fio then expects the versions in another order than it wrote them,
    /// on a plain file too.
    pub fn verifying(&self, size: &str) -> Command {
        let size = format!("--size={size}");
        let words = ["--rw=randrw", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--loops=2", &size];
        self.fio(&words)
    }

    /// Returns fio that writes random blocks of the first `size`, `io_size` in all and no block twice, without a check.
    pub fn writing(&self, size: &str, io_size: &str, seed: u64) -> Command {
        self.written(size, io_size, seed, "--do_verify=0")
    }

    /// Returns fio that checks what [`Self::writing`] wrote.
    pub fn checking(&self, size: &str, io_size: &str, seed: u64) -> Command {
        self.written(size, io_size, seed, "--verify_only=1")
    }

    fn written(&self, size: &str, io_size: &str, seed: u64, how: &str) -> Command {
        let words = [format!("--size={size}"), format!("--io_size={io_size}"), format!("--randseed={seed}")];
        let mut fio =
            self.fio(&["--rw=randwrite", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", how]);
        fio.args(words);
        fio
    }

    pub fn stat(&self) -> Value {
        json(&["cache", "stat", &self.pool, &self.name])
    }

    /// Waits until the statistics are as `is_right` says.
    #[track_caller]
    pub fn await_stat(&self, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let stat = self.stat();
            if is_right(&stat) {
                return stat;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {stat}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Replaces the fault plan of an SSD.
    pub fn fault(&self, ssd: &str, plan: &str) {
        ok(&["disk", "fault", &self.pool, &self.text(ssd), plan]);
    }

    /// Asserts that `pool check` finds nothing.
    pub fn assert_sound(&self) {
        let check = json(&["pool", "check", &self.pool]);
        assert_eq!(check["findings"], serde_json::json!([]), "{check}");
    }
}

/// Makes a sparse file in `folder`, and returns its path.
pub fn sized(folder: &TempDir, name: &str, bytes: u64) -> String {
    let path = folder.path().join(name);
    fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("made");
    path.to_str().expect("text").to_owned()
}

/// A file that nbdkit serves as an SSD. Dropping it kills nbdkit.
pub struct ServedSsd {
    nbdkit: Child,
    file: PathBuf,
}

impl ServedSsd {
    /// Serves the file at `file`.
    pub fn start(file: &Path) -> Self {
        let socket = file.with_extension("nbd");
        // A killed server leaves its socket behind.
        let _ = fs::remove_file(&socket);
        let mut nbdkit = client("nbdkit");
        nbdkit.args(["-f", "--filter=error", "-U"]).arg(&socket).arg("file").arg(file);
        nbdkit
            .args(["error=EIO", "error-rate=100%"])
            .arg(format!("error-file={}", file.with_extension("fail").display()));
        let nbdkit = nbdkit.stdin(Stdio::null()).spawn().expect("nbdkit starts");
        while UnixStream::connect(&socket).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { nbdkit, file: file.into() }
    }

    /// Returns the address by which a cache uses it.
    pub fn address(&self) -> String {
        format!("nbd+unix:///?socket={}", self.file.with_extension("nbd").display())
    }

    pub fn pid(&self) -> u32 {
        self.nbdkit.id()
    }

    /// Fails each request from now on.
    pub fn fail(&self) {
        fs::File::create(self.file.with_extension("fail")).and_then(|mut file| file.write_all(b"x")).expect("made");
    }
}

impl Drop for ServedSsd {
    fn drop(&mut self) {
        let _ = self.nbdkit.kill();
        let _ = self.nbdkit.wait();
    }
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

pub fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Returns the JSON of a fio that ended well.
#[track_caller]
pub fn ended(fio: Child) -> Value {
    let output = fio.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Returns the longest latency of fio's requests.
pub fn longest(fio: &Value) -> Duration {
    let job = &fio["jobs"][0];
    let longest = ["read", "write"].map(|way| number(&job[way]["clat_ns"]["max"])).into_iter().max();
    Duration::from_nanos(longest.unwrap_or_default())
}
