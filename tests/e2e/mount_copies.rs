//! A mount that is visible at several places.

use std::fs;

use crate::mount::{Place, can_mount, start};
use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, ok, refused, run};

/// A container that starts during the mount holds a copy of it. `unmount` reports the copy and does not wait for it.
#[test]
fn a_copy_in_another_namespace_is_told() {
    let Some(Place { folder: _folder, pool: path, at }) = Place::new() else { return };
    let server = start(&path, &at, &["--size", "64M", "--disk", "d=8M"]);
    let mut container =
        client("unshare").args(["-m", "--propagation", "private", "sleep", "1000"]).spawn().expect("run");
    let in_it = || fs::read_to_string(format!("/proc/{}/comm", container.id())).is_ok_and(|name| name == "sleep\n");
    while !in_it() {
        std::thread::yield_now();
    }
    let pool = path.to_str().expect("text");
    let said = refused(ferrite().args(["fs", "unmount", pool, "files"]), 1);
    assert!(said.contains("namespace"), "{said}");
    container.kill().expect("killed");
    container.wait().expect("reaped");
    ok(&["fs", "unmount", pool, "files"]);
    server.interrupt();
}

/// If a home directory is visible at two places, a mount inside it is too. One command unmounts both.
#[test]
fn what_is_seen_at_two_places_is_unmounted_from_both() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let [path, home, export] = ["pool", "home", "export"].map(|name| folder.path().join(name));
    [&home, &export].iter().for_each(|point| fs::create_dir(point).expect("made"));
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    run(client("mount").arg("--bind").args([&home, &home]));
    run(client("mount").arg("--make-shared").arg(&home));
    run(client("mount").arg("--bind").args([&home, &export]));
    let pool = path.to_str().expect("text");
    ok(&["fs", "create", pool, "f"]);
    run(ferrite().args(["fs", "mount", pool, "f"]).arg(home.join("mnt")));
    fs::write(export.join("mnt/file"), b"content").expect("written");
    ok(&["fs", "unmount", pool, "f"]);
    assert!([&home, &export].iter().all(|point| !point.join("mnt/file").exists()));
    [&export, &home].into_iter().for_each(|point| drop(run(client("umount").arg(point))));
    server.interrupt();
    assert_sound(&path);
}
