//! The failures that a pool reports to survive: never more than its medium does, unless its user vouches for the
//! medium.

use std::fs;
use std::path::Path;

use serde_json::{Value, json as value};
use tempfile::TempDir;

use crate::mount::{Place, can_mount};
use crate::programs::{client, ferrite};
use crate::server::{Server, SmallHost, assert_sound, folder, json, ok, refused};

/// Makes a pool in `folder`. Returns whether it reports to survive kernel crashes and power loss, and why.
fn survives(folder: &Path) -> (String, String) {
    let pool = folder.join("pool");
    let told = json(&["pool", "create", pool.to_str().expect("text"), "--size", "32M"]);
    states(&told)
}

/// Returns the common state of kernel crash and power loss, and the reason.
fn states(told: &Value) -> (String, String) {
    let (kernel, power) = (&told["survives"]["kernel_crash"], &told["survives"]["power_loss"]);
    assert_eq!(kernel, power, "{told}");
    assert_eq!(told["survives"]["process_crash"]["state"], "yes", "{told}");
    let text = |key: &str| power[key].as_str().expect("text").to_owned();
    (text("state"), text("why"))
}

/// A private mount of the test.
struct Mounted(TempDir);

impl Mounted {
    fn new(kind: &str, options: &str) -> Option<Self> {
        let point = folder(false);
        let mut mount = client("mount");
        mount.args(["-t", kind, "-o", options, kind]).arg(point.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(point));
        }
        println!("skipped: {kind} cannot be mounted here");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = client("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn ramfs_is_memory() {
    let Some(ramfs) = Mounted::new("ramfs", "mode=755") else { return };
    assert_eq!(survives(ramfs.0.path()), ("no".into(), "it lies in ramfs, which is memory".into()));
    let said = ok(&["pool", "info", ramfs.0.path().join("pool").to_str().expect("text")]);
    assert!(
        said.contains("does not survive a kernel crash or power loss: it lies in ramfs, which is memory"),
        "{said}"
    );
}

#[test]
fn an_overlay_over_tmpfs_is_memory() {
    let (lower, upper) = (folder(false), folder(true));
    for name in ["up", "work"] {
        fs::create_dir(upper.path().join(name)).expect("made");
    }
    let (lower, upper) = (lower.path().display(), upper.path().display());
    let options = format!("lowerdir={lower},upperdir={upper}/up,workdir={upper}/work");
    let Some(overlay) = Mounted::new("overlay", &options) else { return };
    assert_eq!(survives(overlay.0.path()), ("no".into(), "it lies in overlay on tmpfs, which is memory".into()));
}

#[test]
fn a_loop_device_survives_what_its_file_does() {
    let (disk, memory) = (folder(false), folder(true));
    let Some(over_memory) = SmallHost::of_ext4(memory.path(), "96M") else { return };
    let (state, why) = survives(over_memory.path());
    assert_eq!((state.as_str(), why.as_str()), ("no", "it lies in ext4 on loop device on tmpfs, which is memory"));
    let Some(over_disk) = SmallHost::of_ext4(disk.path(), "96M") else { return };
    let (below, above) = (survives(disk.path()), survives(over_disk.path()));
    assert_eq!(above.0, below.0, "{above:?} over {below:?}");
    assert!(above.1.starts_with("it lies in ext4 on loop device on "), "{above:?}");
}

/// Ferrite's own mount stands for every file server in user space. Such a mount is usable, and the report is "not
/// known", with advice.
#[test]
fn what_a_server_keeps_is_not_known() {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let (state, why) = survives(&place.at);
    assert_eq!(state, "not-known", "{why}");
    assert!(why.contains("fuse") && why.ends_with("whose server decides"), "{why}");
    let inner = place.at.join("pool");
    let said = ok(&["pool", "info", inner.to_str().expect("text")]);
    assert!(said.contains("is not known to survive a kernel crash or power loss: it lies in fuse"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("--trust-medium")).count(), 1, "{said}");
    let output = ferrite().args(["disk", "create", "--size", "4M"]).arg(&inner).arg("d").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_sound(&inner);
    server.interrupt();
}

/// The pool records the user's statement. Every claim names that statement until the user withdraws it.
#[test]
fn a_user_who_trusts_the_medium_is_named_in_every_claim() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    let told = json(&["pool", "create", pool, "--size", "64M", "--trust-medium"]);
    let trusted = ("yes".to_owned(), "trusted by its user, else no: it lies in tmpfs, which is memory".to_owned());
    assert_eq!((states(&told), &told["survives"]["trusted"]), (trusted.clone(), &true.into()));
    let told = json(&["pool", "info", pool]);
    assert_eq!(states(&told), trusted, "a later opening says so");
    let server = Server::start(&path, &["--no-attach"]);
    let said = server.lines.join("\n");
    assert!(said.contains("a kernel crash and power loss: trusted by its user, else no: "), "{said}");
    let said = refused(ferrite().args(["disk", "serve", pool, "disk0", "--trust-medium=no"]), 1);
    assert!(said.contains("trust hold for all of it"), "{said}");
    server.interrupt();
    Server::start(&path, &["--no-attach", "--trust-medium=no"]).interrupt();
    let told = json(&["pool", "info", pool]);
    assert_eq!((states(&told).0, &told["survives"]["trusted"]), ("no".into(), &false.into()));
}

/// The user trusted one medium, not every medium: the statement does not apply to a copy elsewhere.
#[test]
fn trust_stays_with_the_medium() {
    let (memory, disk) = (folder(true), folder(false));
    let (pool, copy) = (memory.path().join("pool"), disk.path().join("pool"));
    ok(&["pool", "create", pool.to_str().expect("text"), "--size", "32M", "--trust-medium"]);
    fs::copy(&pool, &copy).expect("copied");
    let told = json(&["pool", "info", copy.to_str().expect("text")]);
    assert_eq!(told["survives"]["trusted"], value!(false), "{told}");
}

/// Commands that make or serve a pool state its durability. Lists and checks do not mention it.
#[test]
fn what_is_survived_is_said_where_durability_is_promised() {
    let folder = folder(true);
    let pool = folder.path().join("pool").to_str().expect("text").to_owned();
    let says = |words: &[&str]| {
        let output = ferrite().args(words).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        [output.stdout, output.stderr].iter().map(|out| String::from_utf8_lossy(out).matches("survive").count()).sum()
    };
    let count: usize = says(&["pool", "create", &pool, "--size", "64M"]);
    assert!(count > 0);
    assert!(says(&["pool", "info", &pool]) > 0);
    for quiet in [
        &["disk", "create", &pool, "d", "--size", "4M"][..],
        &["disk", "list", &pool],
        &["fs", "create", &pool, "f"],
        &["fs", "list", &pool],
        &["tag", "list", &pool],
        &["pool", "check", &pool],
        &["pool", "defrag", &pool],
    ] {
        assert_eq!(says(quiet), 0, "{quiet:?}");
    }
    let mut serve = ferrite();
    serve.args(["disk", "serve", &pool, "d"]).stderr(std::process::Stdio::piped());
    let mut server = Server::of(&mut serve, Path::new(&pool), "served at");
    assert!(server.said_until("survive").contains("does not survive a kernel crash or power loss"));
    server.interrupt();
}
