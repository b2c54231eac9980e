//! Rules for the folder on which a file system is mounted, and for the end of the mount.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use crate::mount::{Place, can_mount, start};
use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, assert_sound, folder, ok, refused, run, signal, wait};

#[test]
fn a_point_is_made_hidden_and_given_back() {
    let Some(Place { folder, pool: path, .. }) = Place::new() else { return };
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["fs", "create", pool, "f"]);
    // The folder is a relative path, and neither the folder nor its parent exists.
    run(ferrite().args(["fs", "mount", pool, "f", "deep/er"]).current_dir(folder.path()));
    fs::write(folder.path().join("deep/er/file"), b"content").expect("written");
    let said = refused(ferrite().args(["fs", "mount", pool, "f", "other"]).current_dir(folder.path()), 1);
    assert!(said.contains("already") && said.contains("deep/er"), "{said}");
    ok(&["fs", "unmount", pool, "f"]);
    // The folder is not empty. Its files are visible again after the unmount.
    let full = folder.path().join("full");
    fs::create_dir(&full).expect("made");
    fs::write(full.join("hidden"), b"").expect("written");
    ok(&["fs", "mount", pool, "f", full.to_str().expect("text")]);
    assert!(full.join("file").exists() && !full.join("hidden").exists());
    // The folder identifies its file system.
    std::os::unix::fs::symlink(&full, folder.path().join("to full")).expect("linked");
    let found = ok(&["fs", "stat", folder.path().join("to full").to_str().expect("text"), "--json"]);
    assert!(found.contains("\"name\": \"f\""), "{found}");
    let said = refused(ferrite().args(["fs", "unmount"]).arg(full.join("file")), 2);
    assert!(said.contains("no file system of ferrite is mounted on"), "{said}");
    ok(&["fs", "unmount", full.to_str().expect("text")]);
    assert!(full.join("hidden").exists());
    // Mounting on the pool's own folder would hide the pool, by whatever name the command gives the folder.
    std::os::unix::fs::symlink(folder.path(), full.join("link")).expect("linked");
    for above in [folder.path(), &full.join("link")] {
        let said = refused(ferrite().args(["fs", "mount", pool, "f"]).arg(above), 1);
        assert!(said.contains("would be hidden"), "{said}");
    }
    // The target is not a folder, or its parent folder is gone.
    let said = refused(ferrite().args(["fs", "mount", pool, "f"]).arg(full.join("hidden")), 1);
    assert!(said.contains("not a folder"), "{said}");
    let vanished = folder.path().join("vanished");
    fs::create_dir(&vanished).expect("made");
    let script = format!("cd {0} && rmdir {0} && exec \"$@\"", vanished.display());
    let mut program = client("sh");
    program.args(["-c", &script, "-"]).arg(ferrite_path()).args(["fs", "mount", pool, "f", "point"]);
    assert!(refused(&mut program, 1).contains("No such file"));
    let said = refused(ferrite().args(["fs", "unmount", pool, "f"]), 1);
    assert!(said.contains("not mounted"), "{said}");
    server.interrupt();
    assert_sound(&path);
}

#[test]
fn who_unmounts_by_hand_may_mount_again() {
    let Some(Place { folder, pool: path, .. }) = Place::new() else { return };
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["fs", "create", pool, "f"]);
    let (above, moved) = (folder.path().join("above"), folder.path().join("moved"));
    let point = above.join("mnt");
    let at = point.to_str().expect("text");
    ok(&["fs", "mount", pool, "f", at]);
    // The file system is still mounted, under the new path.
    fs::rename(&above, &moved).expect("moved");
    let said = ok(&["fs", "list", pool]);
    assert!(said.contains(&format!("on {}", moved.join("mnt").display())), "{said}");
    ok(&["fs", "unmount", pool, "f"]);
    fs::rename(&moved, &above).expect("moved");
    ok(&["fs", "mount", pool, "f", at]);
    fs::write(point.join("file"), b"content").expect("written");
    run(client("umount").arg(at));
    ok(&["fs", "mount", pool, "f", at]);
    assert_eq!(fs::read(point.join("file")).expect("read"), b"content");
    run(client("umount").arg(at));
    ok(&["fs", "unmount", pool, "f"]);
    ok(&["fs", "mount", pool, "f", at]);
    run(client("umount").arg(at));
    ok(&["fs", "mount", pool, "f", at]);
    // A bind mount of the folder prevents the unmount, because programs could still use the copy. After `umount` of the
    // folder, `fs unmount` removes the copy that is left.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).expect("made");
    run(client("mount").arg("--bind").arg(&point).arg(&copy));
    let said = refused(ferrite().args(["fs", "unmount", pool, "f"]), 1);
    assert!(said.contains(&format!("{at} is in use by a copy of the mount on {}", copy.display())), "{said}");
    assert_eq!(fs::read(point.join("file")).expect("still there"), b"content");
    run(client("umount").arg(at));
    ok(&["fs", "unmount", pool, "f"]);
    // A mount that the user made over the file system stays.
    ok(&["fs", "mount", pool, "f", at]);
    run(client("mount").arg("--bind").arg(&copy).arg(&point));
    let said = refused(ferrite().args(["fs", "unmount", pool, "f"]), 1);
    assert!(said.contains("something else was mounted over it") && !point.join("file").exists(), "{said}");
    run(client("umount").arg(at));
    // After a lazy unmount, the file system is in use until its last file is closed.
    let file = fs::File::open(point.join("file")).expect("opened");
    run(client("umount").arg("-l").arg(at));
    let (listed, said) = (ok(&["fs", "list", pool]), refused(ferrite().args(["fs", "remove", pool, "f"]), 1));
    for said in [listed, said] {
        assert!(said.contains(&format!("unmounted from {at}")) && said.contains("still in use"), "{said}");
    }
    drop(file);
    ok(&["fs", "remove", pool, "f"]);
    server.interrupt();
    assert_sound(&path);
}

/// If one mount lies inside another, the outer one waits for the inner one and prints that.
#[test]
fn a_mount_in_a_mount_keeps_it_from_ending() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let pools = ["outer", "inner"].map(|name| folder.path().join(name));
    let at = folder.path().join("mnt");
    let mut outer = ferrite();
    outer.args(["up", "--no-attach", "--size", "64M", "--disk", "d=8M", "--pool"]).arg(&pools[0]);
    outer.arg("--mount").arg(&at).stderr(Stdio::piped());
    let mut outer = Server::of(&mut outer, &pools[0], "Ctrl-C ends it.");
    let within = at.join("within");
    let inner = start(&pools[1], &within, &["--size", "64M", "--disk", "d=8M"]);
    fs::write(within.join("file"), b"content").expect("written");
    signal(outer.pid(), "INT");
    let said = outer.said_until("Ctrl-C again");
    assert!(said.contains(&format!("the mount on {}", within.display())), "{said}");
    assert_eq!(fs::read(within.join("file")).expect("read"), b"content");
    inner.interrupt();
    assert_eq!(outer.ended(), Some(0));
    pools.iter().for_each(|pool| assert_sound(pool));
}

/// Ctrl-C waits for a shell in the mount and names its process. A second Ctrl-C does not wait.
#[test]
fn a_shell_in_a_mount_is_waited_for_and_named() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    for twice in [false, true] {
        let mut program = ferrite();
        program.args(["up", "--no-attach", "--size", "64M", "--disk", "d=8M", "--pool"]).arg(&pool);
        program.arg("--mount").arg(&at).stderr(Stdio::piped());
        let mut server = Server::of(&mut program, &pool, "Ctrl-C ends it.");
        let mut shell =
            client("sh").arg("-c").arg("read line").current_dir(&at).stdin(Stdio::piped()).spawn().expect("starts");
        signal(server.pid(), "INT");
        let said = server.said_until("Ctrl-C again");
        assert!(said.contains(&format!("process {} (sh)", shell.id())), "{said}");
        if twice {
            server.interrupt_again();
            assert_eq!(server.ended(), Some(0));
        }
        drop(shell.stdin.take());
        wait(&mut shell, Duration::from_secs(30)).expect("ends");
        assert!(fs::read_dir(&at).is_ok_and(|mut entries| entries.next().is_none()), "still there");
    }
    assert_sound(&pool);
}

/// A killed server may wait in the kernel for a program that waits for the server. Commands cannot distinguish it from
/// a stopped server.
#[test]
fn a_server_that_does_not_answer_is_told_of_and_not_waited_for() {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    let other = folder.path().join("other");
    let server = Server::start(&pool, &["--no-attach", "--size", "64M", "--mount", at.to_str().expect("text")]);
    signal(server.pid(), "STOP");
    let mut program = ferrite();
    program.args(["up", "--no-attach", "--size", "64M", "--pool"]).arg(&other).arg("--mount").arg(&at);
    let said = refused(&mut program, 1);
    signal(server.pid(), "CONT");
    assert!(said.contains("does not answer") && said.contains("umount -f"), "{said}");
    assert!(!other.exists(), "a pool that nobody has is not left behind");
    server.interrupt();
    assert_sound(&pool);
}

/// A normal end keeps all data written to files that are still open, including data in the kernel's cache.
#[test]
fn what_open_files_were_written_is_kept() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    for more in [&[][..], &["--cached"]] {
        let mut program = ferrite();
        program.args(["up", "--no-attach", "--size", "64M", "--disk", "d=8M", "--pool"]).arg(&pool).args(more);
        program.arg("--mount").arg(&at).stderr(Stdio::piped());
        let mut server = Server::of(&mut program, &pool, "Ctrl-C ends it.");
        let content = format!("{more:?}").repeat(300_000).into_bytes();
        let mut open = fs::File::create(at.join("file")).expect("made");
        open.write_all(&content).expect("written");
        signal(server.pid(), "INT");
        server.said_until("Ctrl-C again");
        server.interrupt_again();
        assert_eq!(server.ended(), Some(0), "{more:?}");
        drop(open);
        let server = start(&pool, &at, &[]);
        assert!(fs::read(at.join("file")).expect("there") == content, "{more:?}");
        server.interrupt();
    }
    assert_sound(&pool);
}

/// The second server that wants the default folder prints a message, and still serves its disks.
#[test]
fn two_servers_want_one_folder() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let home = folder.path();
    let pools = ["one", "two"].map(|name| home.join(name));
    let servers = pools.each_ref().map(|pool| {
        let mut program = ferrite();
        program.env("HOME", home).args(["up", "--no-attach", "--size", "64M", "--disk", "d=8M", "--pool"]).arg(pool);
        Server::of(&mut program, pool, "Ctrl-C ends it.")
    });
    let lines = servers.each_ref().map(|server| server.lines.join("\n"));
    let point = home.join("ferrite-files");
    assert!(lines[0].contains(&format!("mounted on {}", point.display())), "{}", lines[0]);
    assert!(lines[1].contains("not mounted: ") && lines[1].contains("already"), "{}", lines[1]);
    assert!(lines[1].contains("nbd+unix://"), "{}", lines[1]);
    servers.into_iter().for_each(Server::interrupt);
    pools.iter().for_each(|pool| assert_sound(pool));
}

/// A process that owns the pool because of `fs mount` serves while anything of the pool is in use, and then ends. The
/// same holds after an unmount by hand, but not before the last file is closed.
#[test]
fn who_mounts_alone_ends_when_nothing_is_used() {
    let Some(Place { folder, pool: path, at }) = Place::new() else { return };
    let (pool, point) = (path.to_str().expect("text"), at.to_str().expect("text"));
    ok(&["pool", "create", pool, "--size", "64M"]);
    ok(&["fs", "create", pool, "f"]);
    ok(&["fs", "create", pool, "g"]);
    let alone = || Server::of(ferrite().args(["fs", "mount", pool, "f", point]), &path, " on ");
    let server = alone();
    ok(&["fs", "unmount", point]);
    assert_eq!(server.ended(), Some(0));
    let server = alone();
    let other = folder.path().join("other");
    run(ferrite().args(["fs", "mount", pool, "g"]).arg(&other));
    let mut file = fs::File::create(at.join("file")).expect("made");
    run(client("umount").args(["-l", point]));
    ok(&["fs", "unmount", other.to_str().expect("text")]);
    std::thread::sleep(Duration::from_secs(3));
    file.write_all(b"still served").expect("written");
    drop(file);
    assert_eq!(server.ended(), Some(0));
    let server = alone();
    assert_eq!(fs::read(at.join("file")).expect("read"), b"still served");
    server.interrupt();
    assert_sound(&path);
}

/// A small pool has room for the default disk and file system. A pool that is too small for them is not made.
#[test]
fn a_small_pool_has_room_for_a_disk_and_files() {
    let Some(Place { folder, pool: path, at }) = Place::new() else { return };
    let pool = path.to_str().expect("text");
    let said = refused(ferrite().args(["up", "--no-attach", "--size", "10M", "--pool", pool, "--mount"]).arg(&at), 2);
    assert!(said.contains("--size 14M at least") && said.contains("--no-mount"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    for size in ["14M", "16M", "18M"] {
        let server = start(&path, &at, &["--size", size]);
        assert!(server.lines.iter().any(|line| line.starts_with("disk0 ")), "{:?}", server.lines);
        fs::create_dir(at.join("sub")).expect("made");
        fs::write(at.join("sub/file"), vec![7; 1 << 20]).expect("written");
        server.interrupt();
        assert_sound(&path);
        fs::remove_file(&path).expect("removed");
    }
    let server = Server::start(&path, &["--no-attach", "--size", "8M"]);
    assert!(server.lines.iter().any(|line| line.starts_with("disk0 ")), "{:?}", server.lines);
}

/// `unmount` removes the mount of a dead server by its folder or by its name, whether or not another server runs.
#[test]
fn a_killed_server_leaves_nothing_that_cannot_be_unmounted() {
    let Some(Place { folder, pool: path, at }) = Place::new() else { return };
    let (pool, point) = (path.to_str().expect("text"), at.to_str().expect("text"));
    for words in [&[point][..], &[pool, "files"]] {
        for serve in [false, true] {
            start(&path, &at, &["--size", "64M", "--disk", "d=8M"]).kill();
            assert_eq!(fs::metadata(at.join("x")).map_err(|why| why.raw_os_error()).err(), Some(Some(libc::ENOTCONN)));
            let server = serve.then(|| Server::start(&path, &["--no-attach"]));
            ok(&[&["fs", "unmount"], words].concat());
            assert_eq!(fs::read_dir(&at).expect("a folder").count(), 0);
            refused(ferrite().args(["fs", "unmount", pool, "files"]), 1);
            drop(server);
        }
    }
    // If the file system has been mounted elsewhere since, that mount stays when the command names the folder of the
    // dead server.
    start(&path, &at, &[]).kill();
    let other = folder.path().join("other");
    let server = start(&path, &other, &[]);
    ok(&["fs", "unmount", point]);
    assert!(ok(&["fs", "list", pool]).contains(other.to_str().expect("text")));
    ok(&["fs", "unmount", pool, "files"]);
    server.interrupt();
    assert_sound(&path);
}

/// `up` reports the old mount that it removes, and the old mount that stays because it is on another folder.
#[test]
fn what_a_killed_server_left_mounted_is_told() {
    let Some(Place { folder, pool: path, at }) = Place::new() else { return };
    start(&path, &at, &["--size", "64M", "--disk", "d=8M"]).kill();
    let up = |at: &std::path::Path| {
        let mut command = ferrite();
        command.args(["up", "--no-attach", "--json", "--pool"]).arg(&path).arg("--mount").arg(at);
        Server::of(command.stderr(Stdio::piped()), &path, "\"disks\"")
    };
    let server = up(&at);
    assert_eq!(server.told()["cleared"], serde_json::json!([format!("unmounted the dead {}", at.display())]));
    server.kill();
    let mut server = up(&folder.path().join("other"));
    assert_eq!(server.told()["cleared"], serde_json::json!([]));
    server.said_until(&format!("`ferrite fs unmount {}`", at.display()));
    ok(&["fs", "unmount", at.to_str().expect("text")]);
    server.interrupt();
}

/// Options that exclude each other are a usage error for every folder, and the command makes nothing.
#[test]
fn a_way_to_mount_that_makes_no_sense_is_wrong_usage() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    for at in [&[][..], &["--mount", "/nonexistent"]] {
        let mut command = client("timeout");
        command.arg("20").arg(ferrite().get_program()).args(["up", "--no-attach", "--cached", "--data", "atomic"]);
        let said = refused(command.args(at).env("HOME", folder.path()).arg("--pool").arg(&pool), 2);
        assert!(said.contains("exclude each other") && !pool.exists(), "{said}");
    }
}

/// Without FUSE, every command prints the same message and makes no mount folder.
#[test]
fn where_nothing_can_be_mounted_nothing_is_made() {
    let Some(Place { folder, pool: path, .. }) = Place::on(false) else { return };
    let without = || {
        let mut program = client("unshare");
        program.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            "mount -t tmpfs none /dev && exec \"$@\"",
            "-",
        ]);
        program.arg(ferrite_path()).env("HOME", folder.path());
        program
    };
    let mut up = without();
    up.args(["up", "--no-attach", "--size", "64M", "--pool"]).arg(&path);
    let server = Server::of(&mut up, &path, "Ctrl-C ends it.");
    let needs = "/dev/fuse is missing: as root `modprobe fuse`";
    assert!(
        server.lines.iter().any(|line| line.contains("not mounted: ") && line.contains(needs)),
        "{:?}",
        server.lines
    );
    server.interrupt();
    let said = refused(without().args(["fs", "mount"]).arg(&path).arg("files").arg(folder.path().join("ferrite")), 1);
    assert!(said.contains(needs), "{said}");
    assert!(!folder.path().join("ferrite").exists());
}

/// F5: the owner would wait for itself for ever, and every client for the owner.
#[test]
fn a_backup_into_the_pool_itself_is_refused_and_all_goes_on() {
    let Some(Place { folder, pool: path, .. }) = Place::new() else { return };
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["fs", "create", pool, "f"]);
    let point = folder.path().join("point");
    ok(&["fs", "mount", pool, "f", point.to_str().expect("text")]);
    let image = point.join("image");
    let said = refused(ferrite().args(["pool", "backup", pool]).arg(&image), 1);
    assert!(said.contains("lies in the pool itself"), "{said}");
    fs::write(point.join("file"), b"goes on").expect("written");
    assert_eq!(fs::read_dir(&point).expect("listed").count(), 1, "no part of it is left");
    ok(&["pool", "backup", pool, folder.path().join("image").to_str().expect("text")]);
    server.interrupt();
    assert_sound(&path);
}
