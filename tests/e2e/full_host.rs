//! Space that a pool takes from a host with less space than the pool's size, and space that the pool returns.

use std::path::Path;

use crate::programs::{client, ferrite};
use crate::server::{Server, SmallHost, assert_sound, folder, json, ok, refused, run};

/// Returns the bytes that the file system at `path` still has for other files.
fn left(path: &Path) -> u64 {
    run(client("sync").arg("-f").arg(path));
    let message = run(client("stat").args(["-f", "-c", "%a %S"]).arg(path));
    message.split_whitespace().map(|number| number.parse::<u64>().expect("a number")).product()
}

/// When ext4 refuses an allocation, it keeps the blocks that it had already found (A3).
#[test]
fn a_refused_disk_leaves_an_ext4_host_its_space() {
    let folder = folder(false);
    let Some(host) = SmallHost::of_ext4(folder.path(), "96M") else { return };
    let pool = host.path().join("pool").to_str().expect("text").to_owned();
    ok(&["pool", "create", &pool, "--size", "256M"]);
    ok(&["disk", "create", &pool, "kept", "--size", "8M"]);
    let before = left(host.path());
    let said = refused(ferrite().args(["disk", "create", &pool, "d", "--size", "200M"]), 1);
    assert!(said.contains("no space left"), "{said}");
    let after = left(host.path());
    assert!(after + (1 << 20) > before, "{after} of {before} bytes are left");
    ok(&["disk", "create", &pool, "d", "--size", "32M"]);
    assert_sound(Path::new(&pool));
}

#[test]
fn a_removed_disk_gives_its_host_the_space_back_also_while_others_are_served() {
    let folder = folder(false);
    let tmpfs = SmallHost::new(folder.path(), "96M");
    for host in [tmpfs, SmallHost::of_ext4(folder.path(), "96M")].into_iter().flatten() {
        let pool = host.path().join("pool").to_str().expect("text").to_owned();
        ok(&["pool", "create", &pool, "--size", "64M"]);
        let server = Server::start(Path::new(&pool), &["--no-attach", "--disk", "a=4M"]);
        let before = left(host.path());
        ok(&["disk", "create", &pool, "d", "--size", "32M"]);
        assert!(left(host.path()) + (32 << 20) <= before);
        ok(&["disk", "remove", &pool, "d"]);
        let after = left(host.path());
        assert!(after + (1 << 20) > before, "{after} of {before} bytes are left");
        server.interrupt();
        assert_sound(Path::new(&pool));
    }
}

/// A pool is sparse. If the host cannot hold all of a new pool, the command warns at once, before any write fails.
#[test]
fn a_pool_that_its_host_cannot_fill_is_told_of_when_it_is_made() {
    let folder = folder(true);
    let Some(host) = SmallHost::new(folder.path(), "48M") else { return };
    let made = |name: &str, size: &str| {
        let pool = host.path().join(name);
        let made = ferrite().args(["pool", "create", "--json", "--size", size]).arg(&pool).output().expect("run");
        assert!(made.status.success(), "{made:?}");
        String::from_utf8_lossy(&made.stderr).into_owned()
    };
    assert!(!made("fits", "32M").contains("may come to take"));
    let said = made("does not", "64M");
    assert!(said.contains("may come to take") && said.contains("does not"), "{said}");
    assert_eq!(json(&["pool", "info", host.path().join("does not").to_str().expect("text")])["tags"], 0);
}

/// A default disk leaves the host some space. A disk that the user asked for is made in full or refused.
#[test]
fn up_makes_a_disk_that_its_host_has_space_for() {
    let folder = folder(true);
    let tmpfs = SmallHost::new(folder.path(), "300M");
    for host in [tmpfs, SmallHost::of_ext4(folder.path(), "300M")].into_iter().flatten() {
        let pool = host.path().join("pool");
        let had = left(host.path());
        let server = Server::start(&pool, &["--no-attach"]);
        let size =
            json(&["disk", "stat", pool.to_str().expect("text"), "disk0"])["size_bytes"].as_u64().expect("a number");
        assert!(size > had / 4 && left(host.path()) > had / 4, "{size} of {had} bytes, {} left", left(host.path()));
        server.interrupt();
        assert_sound(&pool);
        std::fs::remove_file(&pool).expect("removed");
        refused(ferrite().args(["up", "--no-attach", "--disk", "disk0=512M", "--pool"]).arg(&pool), 1);
        assert!(!pool.exists());
    }
}

#[test]
fn up_says_how_to_do_without_a_disk_that_there_is_no_space_for() {
    let folder = folder(true);
    let Some(host) = SmallHost::new(folder.path(), "7M") else { return };
    let pool = host.path().join("pool");
    let said = refused(ferrite().args(["up", "--no-attach", "--no-mount", "--pool"]).arg(&pool), 1);
    assert!(said.contains("no space left") && said.contains("--no-disk") && said.contains("--size"), "{said}");
}
