//! A path means the same to a pool's owner as to the client, or the owner refuses it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::mount::can_mount;
use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, folder, ok, refused};

/// Returns a shell that runs `script`, with `ferrite` and `words` as `"$@"`.
fn shell(unshared: bool, script: &str, words: &[&str]) -> Command {
    let mut program = client(if unshared { "unshare" } else { "sh" });
    program.args(unshared.then_some(["-m", "--propagation", "private", "sh"]).into_iter().flatten());
    program.args(["-e", "-c", script, "-"]).arg(ferrite_path()).args(words);
    program
}

#[test]
fn a_backup_to_a_descriptor_is_not_written_to_one_of_the_owner() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    let precious = folder.path().join("precious");
    fs::write(&precious, b"content").expect("written");
    let script = format!("exec \"$@\" 3<>{}", precious.display());
    let words = ["up", "--pool", pool, "--no-mount", "--no-attach", "--size", "64M"];
    let server = Server::of(&mut shell(false, &script, &words), &path, "Ctrl-C ends it.");
    for descriptor in ["/dev/fd/3", "/proc/self/fd/3"] {
        let said = refused(ferrite().args(["pool", "backup", pool, descriptor]), 1);
        assert!(said.contains("another place to the pool's owner"), "{said}");
        let mut redirected = shell(false, "exec \"$@\" 3>image", &["pool", "backup", pool, descriptor]);
        refused(redirected.current_dir(folder.path()), 1);
    }
    assert_eq!(fs::read(&precious).expect("read"), b"content");
    ok(&["pool", "backup", pool, precious.to_str().expect("text")]);
    server.interrupt();
}

#[test]
fn what_lies_elsewhere_to_the_owner_is_not_written_there() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name);
    let (path, inner) = (at("pool"), at("inner"));
    let pool = path.to_str().expect("text");
    ["inner", "other"].iter().for_each(|name| fs::create_dir(at(name)).expect("made"));
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    let script = format!("mount --bind {} {}; exec \"$@\"", at("other").display(), inner.display());
    let image = inner.join("image");
    let image = image.to_str().expect("text");
    for words in [&["pool", "backup", pool, image][..], &["disk", "serve", pool, "d", "--unix", image]] {
        let said = refused(&mut shell(true, &script, words), 1);
        assert!(said.contains("another place to the pool's owner"), "{said}");
    }
    let is_empty = |folder: &Path| fs::read_dir(folder).expect("listed").next().is_none();
    assert!(is_empty(&inner) && is_empty(&at("other")));
    // If the path leads to the same place, other mounts do not matter.
    let said = shell(true, "exec \"$@\"", &["pool", "backup", pool, image]).output().expect("run");
    assert!(said.status.success() && Path::new(image).is_file(), "{said:?}");
    server.interrupt();
}

#[test]
fn what_who_asks_would_not_see_is_not_mounted() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let (path, point) = (folder.path().join("pool"), folder.path().join("point"));
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["fs", "create", pool, "f"]);
    let words = ["fs", "mount", pool, "f", point.to_str().expect("text")];
    let said = refused(&mut shell(true, "exec \"$@\"", &words), 1);
    assert!(said.contains("mount namespace") && said.contains(&server.pid().to_string()), "{said}");
    assert!(!point.exists(), "no folder is made either");
    ok(&words);
    ok(&["fs", "unmount", pool, "f"]);
    server.interrupt();
}

/// If the owner lacks the client's network, the owner does not open the address in its own network.
#[test]
fn what_who_asks_would_not_reach_is_not_served() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    let asked = ["disk", "serve", pool, "d", "--tcp", "127.0.0.1:0"];
    let elsewhere = client("unshare").args(["-n"]).arg(ferrite_path()).args(asked).output().expect("run");
    if elsewhere.stderr.starts_with(b"unshare:") {
        return;
    }
    let said = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(!elsewhere.status.success() && said.contains("network namespace"), "{said}");
    server.interrupt();
}
