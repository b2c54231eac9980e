//! A pool that is renamed while it is served, and another pool under its old name. A command for one pool never affects
//! the other.

use std::fs;

use crate::mount::{Place, start};
use crate::programs::{client, ferrite};
use crate::server::{Server, json, ok, refused, run};

/// Both pools have a file system of the same name, and the same source in the kernel's list.
#[test]
fn a_folder_of_a_renamed_pool_is_not_the_other_pools() {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    let old = start(&pool, &at, &["--size", "64M", "--no-disk"]);
    fs::write(at.join("file"), "old").expect("written");
    fs::rename(&pool, folder.path().join("renamed")).expect("renamed");
    let other = folder.path().join("other");
    let mut up = ferrite();
    up.args(["up", "--no-attach", "--no-disk", "--size", "64M", "--pool"]).arg(&pool).arg("--mount").arg(&other);
    up.arg("--unix")
        .arg(folder.path().join("other.nbd"))
        .stderr(fs::File::create(folder.path().join("said")).expect("made"));
    let new = Server::of(&mut up, &pool, "Ctrl-C ends it");
    for what in ["stat", "unmount"] {
        let said = refused(ferrite().args(["fs", what]).arg(&at), 1);
        assert!(
            said.contains("not of the server that has") && said.contains(&format!("`umount {}`", at.display())),
            "{said}"
        );
    }
    assert_eq!(json(&["fs", "stat", other.to_str().expect("text")])["mounted_on"], other.to_str().expect("text"));
    assert_eq!(fs::read_to_string(at.join("file")).expect("it is served"), "old");
    ok(&["fs", "unmount", other.to_str().expect("text")]);
    // The message names this command.
    run(client("umount").arg(&at));
    new.interrupt();
    let said = fs::read_to_string(folder.path().join("said")).expect("text");
    assert!(!said.contains("server of before"), "{said}");
    old.interrupt();
}
