//! The start of `ferrite up`: the things that it makes, and the state after an interruption.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::mount::{Place, can_mount};
use crate::programs::ferrite;
use crate::server::{Server, assert_sound, can_attach, folder, json, ok, refused, signal, wait};

/// A start that the test may interrupt, in a folder of its own.
struct Start {
    child: Child,
    folder: PathBuf,
}

/// The name of a phase, and a check that a start has reached it.
type Phase = (&'static str, fn(&Start) -> bool);

const PHASES: [Phase; 7] = [
    ("nothing", |_| true),
    ("a file", |start| start.names().next().is_some()),
    ("the pool", |start| start.pool().exists()),
    ("the folder", |start| start.point().exists()),
    ("the mount", |start| mounts().contains(start.point().to_str().expect("text"))),
    ("the socket", |start| start.folder.join("pool.nbd").exists()),
    ("the node", |_| Path::new("/dev/ferrite/e2e-stopped").exists()),
];

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").expect("text")
}

impl Start {
    fn new(folder: &Path, attaches: bool) -> Self {
        let mut up = ferrite();
        up.args(["up", "--size", "2G", "--disk", "e2e-stopped=1G", "--pool"]).arg(folder.join("pool"));
        let mount = folder.join("mnt");
        if can_mount() {
            up.arg("--mount").arg(mount)
        } else {
            up.arg("--no-mount")
        };
        up.args((!attaches).then_some("--no-attach"));
        let child = up.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("ferrite starts");
        Self { child, folder: folder.into() }
    }

    fn pool(&self) -> PathBuf {
        self.folder.join("pool")
    }

    fn point(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    fn names(&self) -> impl Iterator<Item = String> {
        fs::read_dir(&self.folder).expect("there").flatten().map(|it| it.file_name().to_string_lossy().into_owned())
    }

    /// Sends Ctrl-C as soon as `has_come` returns true. Returns true if the server was ready by then.
    fn interrupt_when(&mut self, has_come: fn(&Self) -> bool) -> bool {
        while !has_come(self) {
            assert_eq!(self.child.try_wait().expect("asked"), None, "it ended before it served");
            std::thread::yield_now();
        }
        signal(self.child.id(), "INT");
        // A signal before any work ends the process at once, without an exit status.
        let status = wait(&mut self.child, Duration::from_secs(60));
        assert!(self.child.try_wait().expect("asked").is_some(), "it ends");
        let said = BufReader::new(self.child.stdout.take().expect("piped"));
        let has_served = said.lines().map_while(Result::ok).any(|line| line.contains("Ctrl-C ends it."));
        if has_served {
            assert_eq!(status, Some(0), "a server that was asked to end");
        } else {
            assert_ne!(status, Some(0), "it was stopped before it did what it was asked for");
        }
        has_served
    }
}

/// Ctrl-C at any point of the first start: a pool that was not served yet is removed, and a served pool is whole.
#[test]
fn a_start_that_is_interrupted_leaves_nothing() {
    let attaches = can_attach();
    let phases = PHASES.into_iter().filter(|(name, _)| match *name {
        "the folder" | "the mount" => can_mount(),
        "the node" => attaches,
        _ => true,
    });
    for (phase, has_come) in phases {
        let folder = folder(true);
        let mut start = Start::new(folder.path(), attaches);
        let has_served = start.interrupt_when(has_come);
        let mut left: Vec<String> = start.names().collect();
        left.sort();
        let expected: &[&str] = match (has_served, can_mount()) {
            (false, _) => &[],
            (true, false) => &["pool"],
            (true, true) => &["mnt", "pool"],
        };
        assert_eq!(left, expected, "stopped at {phase}, served: {has_served}");
        let here = folder.path().to_str().expect("text");
        assert!(!mounts().contains(here), "stopped at {phase}: {}", mounts());
        assert!(fs::symlink_metadata("/dev/ferrite/e2e-stopped").is_err(), "stopped at {phase}: its link is left");
        if has_served {
            assert_sound(&start.pool());
        }
    }
}

/// An interrupted start keeps an existing pool unchanged.
#[test]
fn a_start_that_is_interrupted_keeps_a_pool_that_was_there() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "2G"]);
    for round in 0..8 {
        let mut up = ferrite();
        up.args(["up", "--no-attach", "--no-mount", "--disk", "d=1G", "--pool", pool]);
        let mut up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ferrite starts");
        std::thread::sleep(Duration::from_millis(5 * round));
        signal(up.id(), "INT");
        wait(&mut up, Duration::from_secs(60));
        assert_sound(&path);
        let disks = json(&["disk", "list", pool]);
        let is_whole = disks.as_array().is_some_and(|disks| disks.iter().all(|disk| disk["size_bytes"] == 1 << 30));
        assert!(is_whole, "made or not made: {disks}");
        let names: Vec<_> = fs::read_dir(folder.path()).expect("there").flatten().map(|it| it.file_name()).collect();
        assert_eq!(names, ["pool"]);
    }
}

#[test]
fn a_pool_in_a_folder_that_is_not_there_is_an_error_that_says_so() {
    let folder = folder(true);
    let missing = folder.path().join("deep/er");
    let up = |pool: &Path| refused(ferrite().args(["up", "--no-attach", "--no-mount", "--pool"]).arg(pool), 1);
    let said = up(&missing.join("pool"));
    let message = missing.display();
    assert!(
        said.contains(&format!("there is no folder {message}")) && said.contains(&format!("mkdir -p {message}")),
        "{said}"
    );
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    // `up` still makes the default pool, because the user did not name it.
    let data = folder.path().join("data");
    let mut default = ferrite();
    default.env("XDG_DATA_HOME", &data).args(["up", "--no-attach", "--no-mount", "--size", "32M"]);
    Server::of(&mut default, &data.join("ferrite/pool"), "Ctrl-C ends it.").interrupt();
    assert!(data.join("ferrite/pool").exists());
}

/// The default disk uses a modest amount of memory.
#[test]
fn the_disk_that_is_made_unasked_has_512_mib_at_most_in_memory() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let server = Server::start(&path, &["--no-attach", "--size", "4G"]);
    let disks = json(&["disk", "list", path.to_str().expect("text")]);
    assert_eq!((&disks[0]["name"], &disks[0]["size_bytes"]), (&"disk0".into(), &(512_u64 << 20).into()));
    server.interrupt();
}

/// A file stored there before or after would lie beneath the mount, hidden by the next mount.
#[test]
fn the_folder_that_is_mounted_on_cannot_be_written_to_while_it_is_not() {
    let Some(place) = Place::new() else { return };
    let rights = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    for _ in 0..2 {
        let server = place.start();
        assert_eq!(rights(&place.at), 0o755, "the file system's own");
        fs::write(place.at.join("file"), "mounted").expect("written");
        server.interrupt();
        assert_eq!(rights(&place.at), 0o500);
        assert_eq!(fs::read_dir(&place.at).expect("a folder").count(), 0);
    }
}
