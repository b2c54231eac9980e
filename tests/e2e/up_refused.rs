//! The messages and leftovers of `ferrite up` when it cannot serve as requested.

use crate::mount::{Place, can_users_mount, start};
use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run};

/// The id of a user that is not root.
const NOBODY: u32 = 65534;

/// `up` makes no pool for disks that no client could reach, and keeps existing files.
#[test]
fn a_pool_that_cannot_be_served_as_it_was_asked_for_is_not_made() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, taken, pool) = (path("image"), path("taken"), path("pool"));
    std::fs::write(&image, vec![3; 1 << 20]).expect("written");
    let server = Server::start_as_program(&["disk", "export", &image, "--unix", &taken]);
    let up = |door: &[&str], status| {
        let mut command = ferrite();
        command.args(["up", "--no-attach", "--no-mount", "--size", "64M", "--pool", &pool]).args(door);
        refused(&mut command, status)
    };
    let tcp = ["--tcp", "127.0.0.1:0", "--tls-cert", &image, "--tls-key", &image];
    let doors: [&[&str]; 4] = [
        &["--unix", &taken],
        &["--unix", &path("none/socket")],
        &["--tcp", "192.0.2.1:10809", "--allow", "192.0.2.0/24"],
        &tcp,
    ];
    for door in doors {
        let said = up(door, 1);
        assert!(!folder.path().join("pool").exists(), "{door:?}: {said}");
    }
    ok(&["pool", "create", &pool, "--size", "64M"]);
    up(&tcp, 1);
    assert_sound(pool.as_ref());
    server.interrupt();
}

/// `up` makes no file system for a folder on which it cannot mount.
#[test]
fn a_pool_is_as_it_was_where_its_file_system_cannot_be_mounted() {
    if !crate::mount::can_mount() {
        return;
    }
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, at) = (path("pool"), path("file"));
    std::fs::write(&at, "no folder").expect("written");
    ok(&["pool", "create", &pool, "--size", "64M"]);
    for (at, why) in [(at.as_str(), "not a folder"), (folder.path().to_str().expect("text"), "would be hidden")] {
        let said = refused(ferrite().args(["up", "--no-attach", "--no-disk", "--pool", &pool, "--mount", at]), 1);
        assert!(said.contains(why), "{said}");
        assert_eq!(json(&["fs", "list", &pool]), serde_json::json!([]), "{said}");
    }
}

/// Without free descriptors, the unmount fails after the first failure.
#[test]
fn a_failure_is_told_by_its_cause_and_not_by_what_failed_behind_it() {
    if !crate::mount::can_mount() {
        return;
    }
    for files in 9..=16 {
        let folder = folder(true);
        let (pool, at) = (folder.path().join("pool"), folder.path().join("mnt"));
        // If that many descriptors suffice, the server runs.
        let script = format!(r#"ulimit -n {files}; exec timeout 2 "$@""#);
        let mut command = client("sh");
        command.args(["-c", &script, "-"]).arg(ferrite_path()).args(["up", "--no-attach", "--no-disk"]);
        command.args(["--size", "64M", "--pool"]).arg(&pool).arg("--mount").arg(&at);
        let done = command.output().expect("it ran");
        if String::from_utf8_lossy(&done.stdout).contains("Ctrl-C ends it.") {
            continue;
        }
        let said = String::from_utf8(done.stderr).expect("text");
        let why = said.lines().find_map(|line| line.strip_prefix("ferrite: ")).unwrap_or_default();
        assert!(!why.starts_with("unmounting"), "{files} files: {said}");
        assert!(!pool.exists() || why.is_empty(), "{files} files: {said}");
    }
}

/// A user can neither ask the server of root's mount nor unmount it.
#[test]
fn what_roots_killed_server_left_is_no_folder_to_its_user() {
    if !can_users_mount() {
        return;
    }
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    std::fs::create_dir(&at).expect("made");
    start(&pool, &at, &["--size", "64M", "--no-disk"]).kill();
    let of_user = [folder.path(), &pool].map(|path| std::os::unix::fs::chown(path, Some(NOBODY), None));
    of_user.into_iter().for_each(|done| done.expect("given"));
    let up = || {
        let mut up = client("setpriv");
        up.args(["--reuid", &NOBODY.to_string(), "--clear-groups"]).arg(ferrite_path());
        up.args(["up", "--no-attach", "--no-disk", "--pool"]).arg(&pool).arg("--mount").arg(&at);
        refused(&mut up, 1)
    };
    let (said, typed) = (up(), format!("`ferrite fs unmount {}`", at.display()));
    assert!(said.contains("what user 0 mounted on") && said.contains(&typed), "{said}");
    ok(&["fs", "unmount", at.to_str().expect("text")]);
    std::fs::metadata(&at).expect("a folder");
}

/// `fusermount3` mounts for a user. The kernel's list then names the pool exactly, whatever characters its path
/// contains.
#[test]
fn a_users_mount_is_found_whatever_its_pool_is_called() {
    if !can_users_mount() {
        return;
    }
    let Some(Place { folder, .. }) = Place::new() else { return };
    let (pool, at) = (folder.path().join(r"a,b\c,allow_other"), folder.path().join("at"));
    std::fs::create_dir(&at).expect("made");
    for path in [folder.path(), &at] {
        std::os::unix::fs::chown(path, Some(NOBODY), None).expect("given");
    }
    let of_user = || {
        let mut command = client("setpriv");
        command.args(["--reuid", &NOBODY.to_string(), "--clear-groups"]).arg(ferrite_path());
        command
    };
    let mut up = of_user();
    up.args(["up", "--no-disk", "--size", "64M", "--pool"]).arg(&pool).arg("--mount").arg(&at);
    let server = Server::of(&mut up, &pool, "Ctrl-C ends");
    let listed = std::fs::read_to_string("/proc/mounts").expect("it is there");
    let line = listed.lines().find(|line| line.contains(at.to_str().expect("text"))).expect("mounted");
    assert!(line.contains(r"/a,b\134c,allow_other:files ") && !line.contains("rw,allow_other"), "{line}");
    run(of_user().args(["fs", "unmount"]).arg(&at));
    server.interrupt();
}
