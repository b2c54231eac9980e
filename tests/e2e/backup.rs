//! Backup and restore, as a user runs them.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run, signal, wait};

/// The longest time that any wait of these tests may take.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_backup_taken_beside_a_busy_server_restores_into_a_larger_pool() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "64M", "--disk", "d=16M"]);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 5 0 8M", "-c", "flush", &server.uri("d")]));
    let mut busy = client("qemu-io");
    busy.args(["-f", "raw"]);
    (0..200).for_each(|i| _ = busy.args(["-c", &format!("write -P {} 8M 4M", i % 200 + 1)]));
    let mut busy = busy.arg(server.uri("d")).stdout(Stdio::null()).spawn().expect("qemu-io starts");
    let (text, image) = (pool.to_str().expect("text"), folder.path().join("image"));
    let image = image.to_str().expect("text");
    ok(&["pool", "backup", text, image]);
    assert!(busy.wait().expect("ends").success(), "the busy client goes on");
    let larger = folder.path().join("larger");
    let larger_text = larger.to_str().expect("text");
    ok(&["pool", "restore", image, larger_text, "--size", "96M"]);
    assert_sound(larger_text.as_ref());
    assert_eq!(json(&["pool", "info", larger_text])["uuid"], json(&["pool", "info", text])["uuid"]);
    drop(server);
    let restored = Server::start(&larger, &["--no-attach"]);
    run(client("qemu-io").args(["-f", "raw", "-c", "read -P 5 0 8M", &restored.uri("d")]));
}

#[test]
fn damaged_images_and_existing_pools_are_refused_and_a_killed_restore_finishes_when_repeated() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, image, other) = (path("pool"), path("image"), path("other"));
    ok(&["pool", "create", &pool, "--size", "64M"]);
    let content = folder.path().join("content");
    fs::write(&content, vec![7; 20 << 20]).expect("written");
    ok(&["tag", "put", &pool, "t", content.to_str().expect("text")]);
    ok(&["pool", "backup", &pool, &image]);
    assert!(refused(ferrite().args(["pool", "restore", &image, &pool]), 1).contains("--lose 67108864 "));
    let mut bytes = fs::read(&image).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path("damaged"), &bytes).expect("written");
    refused(ferrite().args(["pool", "restore", &path("damaged"), &other]), 1);
    refused(ferrite().args(["pool", "info", &other]), 1);
    for _ in 0..3 {
        let mut restore = ferrite().args(["pool", "restore", &image, &other]).spawn().expect("starts");
        std::thread::sleep(Duration::from_millis(8));
        signal(restore.id(), "KILL");
        wait(&mut restore, Duration::from_secs(5));
    }
    // The last restore may or may not have been killed in time. No state of the pool loses data, and `restore` does not
    // overwrite a whole pool.
    let again = ferrite().args(["pool", "restore", &image, &other]).output().expect("ferrite runs");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() || said.contains("holds pool "), "{said}");
    let back = path("back");
    ok(&["tag", "get", &other, "t", &back]);
    assert!(fs::read(&back).expect("read") == vec![7; 20 << 20]);
}

/// If a backup exceeds the limit on file sizes, only the backup fails: the pool's owner goes on.
#[test]
fn a_backup_beyond_the_limit_on_files_fails_and_the_server_goes_on() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, image, content) = (path("pool"), path("image"), path("content"));
    ok(&["pool", "create", &pool, "--size", "64M"]);
    fs::write(&content, vec![7; 8 << 20]).expect("written");
    ok(&["tag", "put", &pool, "t", &content]);
    let mut limited = client("prlimit");
    limited.arg("--fsize=4194304").arg(ferrite_path()).args(["up", "--no-mount", "--no-attach", "--pool", &pool]);
    let server = Server::of(&mut limited, pool.as_ref(), "Ctrl-C ends it.");
    let said = refused(ferrite().args(["pool", "backup", &pool, &image]), 1);
    assert!(said.contains("File too large"), "{said}");
    assert!(!fs::exists(&image).expect("looked"), "no backup is there");
    assert_eq!(json(&["pool", "info", &pool])["owner_pid"], server.pid(), "it goes on");
    server.interrupt();
    assert_sound(pool.as_ref());
}

/// `restore` reads an image twice, and a pipe can be read only once.
#[test]
fn an_image_in_a_pipe_is_refused_at_once() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pipe, pool) = (path("pipe"), path("pool"));
    run(client("mkfifo").arg(&pipe));
    for image in [pipe.as_str(), "/dev/stdin"] {
        let mut restore =
            ferrite().args(["pool", "restore", image, &pool]).stdin(Stdio::piped()).spawn().expect("starts");
        let status = wait(&mut restore, LONG);
        let _ = restore.kill();
        assert_eq!(status, Some(1), "{image}");
    }
    assert!(!fs::exists(&pool).expect("looked"), "a refused restore makes nothing");
}

#[test]
fn a_restore_destroys_neither_its_image_nor_what_is_no_pool() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, image, link, other) = (path("pool"), path("image"), path("link"), path("other"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    let backup = json(&["pool", "backup", &pool, &image]);
    assert_eq!(backup["pool"], json(&["pool", "info", &pool])["uuid"], "identities are told in one way");
    let before = fs::read(&image).expect("read");
    std::os::unix::fs::symlink(&image, &link).expect("linked");
    for target in [&image, &link] {
        assert!(refused(ferrite().args(["pool", "restore", &image, target, "--lose", "1"]), 1).contains("itself"));
    }
    assert!(fs::read(&image).expect("read") == before, "an image stays what it is");
    for content in [&b"precious"[..], &vec![b'x'; 40 << 20]] {
        fs::write(&other, content).expect("written");
        let lose = format!("--lose {} ", content.len());
        for wrong in [&[][..], &["--lose", "4711"]] {
            assert!(refused(ferrite().args(["pool", "restore", &image, &other]).args(wrong), 1).contains(&lose));
            assert!(fs::read(&other).expect("read") == content, "what is no pool is kept too");
        }
    }
    fs::remove_file(&other).expect("removed");
    refused(ferrite().args(["pool", "restore", &image, &other, "--size", "16M"]), 2);
    assert!(!fs::exists(&other).expect("looked"), "a refused restore makes nothing");
    fs::write(&other, "").expect("made");
    ok(&["pool", "restore", &image, &other]);
    assert_sound(other.as_ref());
}

#[test]
fn a_full_pool_whose_buffers_find_no_space_is_checked_and_backed_up_and_ends() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, image, saved) = (path("pool"), path("image"), path("saved"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    ok(&["disk", "create", &pool, "t", "--size", "256M", "--thin"]);
    let server = Server::start(pool.as_ref(), &["--no-attach", "--guard", "buffered", "--backup", &saved]);
    let mut writes = client("qemu-io");
    writes.args(["-f", "raw"]);
    (0..40).for_each(|at| _ = writes.args(["-c", &format!("write -P 5 {at}M 1M")]));
    let writes = writes.args(["-c", "write -P 6 200M 4k", &server.uri("t")]).output().expect("qemu-io runs");
    assert!(!writes.status.success(), "it never filled up");
    assert!(json(&["disk", "stat", &pool, "t"])["open"]["unsaved_bytes"].as_u64() > Some(0));
    for words in [&["check", &pool][..], &["backup", &pool, &image]] {
        let mut asked = ferrite().arg("pool").args(words).spawn().expect("starts");
        let status = wait(&mut asked, LONG);
        let _ = asked.kill();
        assert_eq!(status, Some(0), "{words:?}");
    }
    signal(server.pid(), "PWR");
    let is_saved = || {
        std::thread::sleep(Duration::from_millis(10));
        fs::exists(&saved).expect("looked")
    };
    assert!((0..1000).any(|_| is_saved()), "no backup");
    for image in [&image, &saved] {
        let restored = path("restored");
        ok(&["pool", "restore", image, &restored, "--lose", "32M"]);
        assert_sound(restored.as_ref());
    }
    signal(server.pid(), "TERM");
    assert!(server.ended().is_some(), "it serves for ever");
    assert_sound(pool.as_ref());
}

/// A backup does not overwrite the image of another pool, nor an image that is newer than the restored pool.
#[test]
fn an_image_of_another_pool_and_a_later_one_are_not_written_over() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, other, restored, image, old) =
        (path("pool"), path("other"), path("restored"), path("image"), path("old"));
    for pool in [&pool, &other] {
        ok(&["pool", "create", pool, "--size", "16M"]);
    }
    ok(&["pool", "backup", &pool, &image]);
    fs::copy(&image, &old).expect("copied");
    ok(&["pool", "backup", &pool, &image]);
    ok(&["pool", "restore", &old, &restored]);
    let before = fs::read(&image).expect("an image");
    for (pool, why) in [(&other, "is an image of another pool"), (&restored, "this pool was restored from an older")] {
        let said = refused(ferrite().args(["pool", "backup", pool, &image]), 1);
        assert!(said.contains(why), "{said}");
        let up = ["up", "--no-disk", "--no-mount", "--backup", &image, "--pool", pool];
        let said = refused(ferrite().args(up), 1);
        assert!(said.contains(why), "{said}");
    }
    assert!(fs::read(&image).expect("an image") == before);
    ok(&["pool", "backup", &pool, &image]);
}
