//! `ferrite up` and the commands beside it.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::mount::{Place, can_mount};
use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run, signal, wait};

#[test]
fn the_first_start_makes_a_pool_and_a_disk_and_the_next_finds_them() {
    let folder = folder(false);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "64M"]);
    let said = server.lines.join("\n");
    for word in ["survives a process crash", "disk0", "nbd+unix://", "next"] {
        assert!(said.contains(word), "{word:?} is missing from {said}");
    }
    let before = run(client("nbdinfo").arg("--size").arg(server.uri("disk0")));
    assert_eq!(before.trim(), (32 << 20).to_string());
    server.interrupt();
    let left: Vec<_> = std::fs::read_dir(pool.parent().expect("a folder")).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "only the pool stays behind: {left:?}");
    let server = Server::start(&pool, &["--no-attach"]);
    assert!(!server.lines.join("\n").contains("recovered"));
    assert_eq!(run(client("nbdinfo").arg("--size").arg(server.uri("disk0"))), before);
}

/// In a container, a process has the same id each time. The files that a killed first start left, under any id, do not
/// disturb the next start.
#[test]
fn what_a_killed_first_start_left_keeps_nobody_from_starting() {
    let folder = folder(false);
    let pool = folder.path().join("pool");
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo left > "$0.$$" && exec "$@""#]).arg(&pool).arg(ferrite_path());
    command.args(["up", "--no-attach", "--no-mount", "--size", "64M", "--pool"]).arg(&pool);
    Server::of(&mut command, &pool, "Ctrl-C ends it.").interrupt();
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 2, "the pool, and what was left");
}

#[test]
fn a_pool_file_is_sparse_until_its_space_is_promised() {
    use std::os::unix::fs::MetadataExt;
    let folder = folder(false);
    let pool = folder.path().join("pool");
    ok(&["pool", "create", pool.to_str().expect("text"), "--size", "1G"]);
    let found = std::fs::metadata(&pool).expect("there");
    assert_eq!(found.len(), 1 << 30);
    assert!(found.blocks() * 512 < 16 << 20, "{} bytes are taken", found.blocks() * 512);
}

/// `up` reports such a failure before it makes a pool, so the next try meets no leftovers.
#[test]
fn a_pool_without_room_for_the_disks_that_are_asked_for_is_not_made() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let up = |size: &str, disk: &str| {
        let mut command = ferrite();
        command.args(["up", "--no-attach", "--no-mount", "--size", size, "--disk", disk, "--pool"]).arg(&pool);
        command
    };
    let said = refused(&mut up("72M", "d=64M"), 2);
    assert!(said.contains("--size 74M at least") && !said.contains("or --no-mount"), "{said}");
    let said = refused(&mut up("72M", "d=100"), 1);
    assert!(said.contains("a disk of 100 bytes"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
    Server::of(&mut up("74M", "d=64M"), &pool, "Ctrl-C ends it.").interrupt();
}

/// A named folder must be mounted: otherwise `up` serves nothing and makes no pool.
#[test]
fn a_folder_that_was_named_and_cannot_be_mounted_on_is_an_error() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, no_folder) = (path("pool"), path("a file"));
    std::fs::write(&no_folder, "").expect("written");
    refused(ferrite().args(["up", "--no-attach", "--size", "64M", "--pool", &pool, "--mount", &no_folder]), 1);
    assert!(!folder.path().join("pool").exists());
}

/// The user may use the default folder for other files.
#[test]
fn what_a_folder_holds_is_not_hidden_unasked_and_never_without_a_word() {
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let (home, pool, at) = (folder.path(), folder.path().join("pool"), folder.path().join("ferrite-files"));
    std::fs::create_dir(&at).expect("made");
    std::fs::write(at.join("mine"), "").expect("written");
    let up = |more: &[&str]| {
        let mut program = ferrite();
        program.env("HOME", home).args(["up", "--no-attach", "--no-disk", "--size", "32M", "--json", "--pool"]);
        program.arg(&pool).args(more).stderr(Stdio::piped());
        Server::of(&mut program, &pool, "\"disks\"")
    };
    let mounted = |server: &Server| server.told()["file_systems"][0]["mounted_on"].clone();
    let (point, hidden) = (at.to_str().expect("text"), "what it holds is hidden");
    let server = up(&[]);
    let files = server.told()["file_systems"][0].clone();
    let said = files["not_mounted"].as_str().unwrap_or_else(|| panic!("{files}"));
    assert_eq!(said, format!("{point} holds files: name a folder with --mount"));
    assert!(files["mounted_on"].is_null() && at.join("mine").exists(), "{files}");
    // Naming the folder mounts there.
    let told = ferrite().args(["fs", "mount"]).arg(&pool).args(["files", point]).output().expect("it runs");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success() && said.contains(hidden) && !at.join("mine").exists(), "{said}");
    server.interrupt();
    assert!(at.join("mine").exists());
    let mut server = up(&["--mount", point]);
    assert_eq!(mounted(&server), point);
    server.said_until(hidden);
    server.kill();
    // An old mount of a killed owner does not count as the folder's own content.
    let server = up(&[]);
    assert!(mounted(&server).is_null() && at.join("mine").exists());
    server.interrupt();
    std::fs::remove_file(at.join("mine")).expect("removed");
    let server = up(&[]);
    assert_eq!(mounted(&server), point);
    std::fs::write(at.join("ours"), "").expect("written");
    server.kill();
    let server = up(&[]);
    assert!(mounted(&server) == point && at.join("ours").exists());
    server.interrupt();
}

/// Without the output, a user cannot find the disks.
#[test]
fn what_cannot_be_said_is_not_served() {
    let folder = folder(true);
    let (pool, at) = (folder.path().join("pool"), folder.path().join("mnt"));
    std::fs::create_dir(&at).expect("made");
    let point = at.to_str().expect("text");
    let mount = if can_mount() { &["--mount", point][..] } else { &["--no-mount"] };
    for json in [&["--json"][..], &[]] {
        // Otherwise the server would run without end.
        let mut up = Command::new("timeout");
        up.arg("30").arg(ferrite_path()).args(["up", "--no-attach", "--no-disk", "--size", "32M", "--pool"]);
        up.arg(&pool).args(mount).args(json);
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let said = refused(up.stdout(full), 1);
        assert!(said.contains("writing to standard output") && !said.contains("not closed in order"), "{said}");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("text");
        assert!(!mounts.contains(point), "{mounts}");
    }
    assert_sound(&pool);
}

/// XDG ignores relative paths, so that `up` never makes a pool in the current folder.
#[test]
fn a_home_that_is_no_absolute_path_counts_as_none() {
    let folder = folder(true);
    for (home, data) in [("", ""), ("home", "data"), ("", "data")] {
        let mut program = ferrite();
        program.arg("up").current_dir(folder.path()).env("HOME", home).env("XDG_DATA_HOME", data);
        assert!(refused(&mut program, 1).contains("has an absolute path"));
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[test]
fn two_at_once_on_one_pool_the_second_says_who_holds_it() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "32M"]);
    let said = refused(ferrite().args(["up", "--no-attach", "--pool"]).arg(&pool), 1);
    assert!(said.contains(&format!("process {}", server.pid())) && said.contains("ferrite up"), "{said}");
}

#[test]
fn commands_at_the_same_time_take_turns_and_a_starting_server_takes_its_own() {
    let folder = folder(true);
    let (path, content) = (folder.path().join("pool"), folder.path().join("content"));
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "32M"]);
    std::fs::write(&content, "content").expect("written");
    let put = |nth: usize| {
        ferrite().args(["tag", "put", pool, &format!("t{nth}")]).arg(&content).spawn().expect("ferrite starts")
    };
    let mut puts: Vec<_> = (0..8).map(put).collect();
    let server = Server::start(&path, &["--no-attach"]);
    puts.extend((8..16).map(put));
    for put in &mut puts {
        assert_eq!(wait(put, std::time::Duration::from_secs(30)), Some(0));
    }
    server.interrupt();
    assert_eq!(json(&["tag", "list", pool]).as_array().map(Vec::len), Some(17), "sixteen of bytes and a disk");
}

#[test]
fn every_command_works_beside_a_running_server() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "64M"]);
    let pool = pool.to_str().expect("text");
    assert_eq!(json(&["pool", "info", pool])["owner_pid"], server.pid());
    ok(&["disk", "create", pool, "second", "--size", "4M"]);
    assert_eq!(run(client("nbdinfo").arg("--size").arg(server.uri("second"))).trim(), (4 << 20).to_string());
    ok(&["disk", "resize", pool, "second", "--size", "8M"]);
    assert_eq!(run(client("nbdinfo").arg("--size").arg(server.uri("second"))).trim(), (8 << 20).to_string());
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 7 0 64k", &server.uri("second")]));
    let stat = json(&["disk", "stat", pool, "second"]);
    assert_eq!(json(&["disk", "list", pool]).as_array().map(Vec::len), Some(2));
    assert!(stat["size_bytes"] == 8 << 20, "{stat}");
    assert_sound(pool.as_ref());
    let image = folder.path().join("image");
    ok(&["pool", "backup", pool, image.to_str().expect("text")]);
    assert!(image.exists());
    ok(&["disk", "remove", pool, "second"]);
    let said = refused(client("nbdinfo").arg(server.uri("second")), 1);
    assert!(said.contains("No such file"), "{said}");
}

#[test]
fn bytes_go_into_a_tag_and_come_back_beside_the_owner_and_alone() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "32M"]);
    let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let file = folder.path().join("content");
    std::fs::write(&file, &content).expect("written");
    ok(&["tag", "put", pool, "alone", file.to_str().expect("text")]);
    let server = Server::start(&path, &["--no-attach"]);
    let mut put = ferrite().args(["tag", "put", pool, "beside"]).stdin(Stdio::piped()).spawn().expect("starts");
    put.stdin.take().expect("piped").write_all(&content).expect("taken");
    assert!(put.wait().expect("ends").success());
    let back = folder.path().join("back");
    for name in ["alone", "beside"] {
        ok(&["tag", "get", pool, name, back.to_str().expect("text")]);
        assert!(std::fs::read(&back).expect("there") == content, "{name}");
    }
    assert!(refused(ferrite().args(["tag", "put", pool, "alone"]).arg(&file), 1).contains("--lose 3000000 "));
    ok(&["tag", "remove", pool, "alone"]);
    assert!(refused(ferrite().args(["tag", "get", pool, "alone"]), 1).contains("no tag called \"alone\""));
    assert!(refused(ferrite().args(["tag", "remove", pool, "disk0"]), 1).contains("disk remove"));
    ok(&["fs", "create", pool, "tree"]);
    assert!(refused(ferrite().args(["tag", "remove", pool, "tree"]), 1).contains("fs remove"));
    server.interrupt();
}

#[test]
fn a_killed_server_starts_again_at_once_and_a_killed_client_harms_nobody() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "192M", "--disk", "disk0=8M"]);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 9 1M 64k", "-c", "flush", &server.uri("disk0")]));
    let text = pool.to_str().expect("text");
    // The data exceeds the amount that is read before the call, so the call is in progress then.
    let begun = vec![7; 65 << 20];
    for nth in 0..6 {
        let mut put =
            ferrite().args(["tag", "put", text, &format!("t{nth}")]).stdin(Stdio::piped()).spawn().expect("starts");
        put.stdin.as_mut().expect("piped").write_all(&begun).expect("taken");
        std::thread::sleep(std::time::Duration::from_millis(20 * nth));
        signal(put.id(), if nth % 2 == 0 { "KILL" } else { "STOP" });
        assert_eq!(json(&["pool", "info", text])["owner_pid"], server.pid());
        let _ = put.kill();
        let _ = wait(&mut put, std::time::Duration::from_secs(5));
    }
    server.kill();
    let server = Server::start(&pool, &["--no-attach"]);
    assert!(server.lines.iter().any(|line| line.contains("recovered")), "{:?}", server.lines);
    run(client("qemu-io").args(["-f", "raw", "-c", "read -P 9 1M 64k", &server.uri("disk0")]));
    assert_sound(text.as_ref());
}

#[test]
fn when_the_power_fails_a_backup_is_written_and_serving_goes_on() {
    let folder = folder(true);
    let (pool, image) = (folder.path().join("pool"), folder.path().join("image"));
    let server = Server::start(&pool, &["--no-attach", "--size", "32M", "--backup", image.to_str().expect("text")]);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 9 0 1M", "-c", "flush", &server.uri("disk0")]));
    for round in 0..2 {
        signal(server.pid(), "PWR");
        let written = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            image.exists()
        });
        assert!(written, "round {round}: no backup");
        run(client("qemu-io").args(["-f", "raw", "-c", "read -P 9 0 1M", &server.uri("disk0")]));
        let restored = folder.path().join(format!("restored{round}"));
        ok(&["pool", "restore", image.to_str().expect("text"), restored.to_str().expect("text")]);
        assert_sound(&restored);
        std::fs::remove_file(&image).expect("removed");
    }
    server.interrupt();
}

#[test]
fn writes_are_counted_and_speeds_emulated_when_asked() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "32M", "--wear", "line", "--pace", "optane"]);
    assert!(server.lines.join("\n").contains("emulated speed"), "{:?}", server.lines);
    run(client("qemu-io").args(["-f", "raw", "-c", "write 0 1M", &server.uri("disk0")]));
    let wear = json(&["pool", "wear", pool]);
    assert!(wear["written_bytes"].as_u64() >= Some(1 << 20), "{wear}");
    assert!(wear["lines"]["written"].as_u64() >= Some((1 << 20) / 64), "{wear}");
    let said = refused(ferrite().args(["disk", "serve", pool, "disk0", "--pace", "pcm"]), 1);
    assert!(said.contains("hold for all of it"), "{said}");
    server.interrupt();
    let _server = Server::start(&path, &["--no-attach"]);
    assert!(refused(ferrite().args(["pool", "wear", pool]), 1).contains("--wear page"));
    for wrong in [["--pace", "warp"], ["--rdsx", "0.5"], ["--rdbw", "0"]] {
        refused(ferrite().args(["disk", "serve", pool, "disk0"]).args(wrong), 2);
    }
}

/// A program that starts a server reads one line as soon as the server is ready. The line names each disk's address and
/// the failures that the pool survives.
#[test]
fn whoever_starts_a_server_is_told_in_one_line_of_json() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, socket) = (path("pool"), path("socket"));
    let up = Server::start_as_program(&["up", "--pool", &pool, "--size", "64M", "--no-attach", "--no-mount"]);
    let told = up.told();
    assert_eq!((&told["pool"], &told["owner_pid"]), (&pool.as_str().into(), &up.pid().into()));
    let answer = |state: &str, why: &str| serde_json::json!({ "state": state, "why": why });
    let lost = answer("no", "it lies in tmpfs, which is memory");
    let survives = serde_json::json!({
        "process_crash": answer("yes", "the kernel keeps what a process stored"),
        "kernel_crash": lost, "power_loss": lost, "trusted": false, "when_flushed": false
    });
    assert_eq!(told["survives"], survives);
    assert_eq!(told["disks"][0]["name"], "disk0");
    assert_eq!(json(&["pool", "info", &pool])["survives"], survives);
    let size = |told: &serde_json::Value| {
        run(client("nbdinfo").arg("--size").arg(told["disks"][0]["uris"][0].as_str().expect("an address")))
    };
    assert_eq!(size(&told).trim(), (32 << 20).to_string());
    let serve = Server::start_as_program(&["disk", "serve", &pool, "disk0", "--unix", &socket, "--tcp", "127.0.0.1:0"]);
    let told = serve.told();
    assert_eq!((&told["owner_pid"], &told["survives"]), (&up.pid().into(), &survives), "its owner is the other");
    assert!(told["disks"][0]["uris"][1].as_str().is_some_and(|uri| uri.starts_with("nbd://127.0.0.1:")), "{told}");
    assert_eq!(size(&told).trim(), (32 << 20).to_string());
    serve.interrupt();
    std::fs::write(path("file"), vec![0; 1 << 20]).expect("written");
    let export = Server::start_as_program(&["disk", "export", &path("file"), "--unix", &socket]);
    let told = export.told();
    assert_eq!((size(&told).trim(), &told["pool"]), ((1 << 20).to_string().as_str(), &serde_json::Value::Null));
    export.interrupt();
    up.interrupt();
}

/// One Ctrl-C ends a check of an unserved or a served pool, and the pool stays unchanged.
#[test]
fn a_check_ends_when_it_is_asked_to() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "64M"]);
    ok(&["disk", "create", pool, "d", "--size", "32M"]);
    let interrupted = || {
        // The check cannot end by itself, because no process reads its output.
        let (_reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(&[0; 64 << 10]).expect("as much as it holds");
        let mut check = ferrite();
        let mut check = check.args(["pool", "check", pool]).stdout(writer).spawn().expect("ferrite starts");
        let program = format!("/proc/{}/exe", check.id());
        let is_env = || std::fs::read_link(&program).is_ok_and(|it| it.ends_with("env"));
        while is_env() {
            std::thread::yield_now();
        }
        signal(check.id(), "INT");
        assert_eq!(wait(&mut check, std::time::Duration::from_secs(30)), None);
        if check.try_wait().expect("a child of ours").is_none() {
            check.kill().expect("killed");
            panic!("it goes on");
        }
    };
    interrupted();
    let server = Server::start(&path, &["--no-attach"]);
    interrupted();
    server.interrupt();
    assert_sound(&path);
}

/// An option reserves the whole pool for files.
#[test]
fn without_a_disk_all_of_the_pool_is_for_files() {
    let Some(Place { folder: _folder, pool: path, at }) = Place::new() else { return };
    let said = refused(ferrite().args(["up", "--no-disk", "--disk", "d=8M", "--pool"]).arg(&path), 2);
    assert!(said.contains("--no-disk") && !path.exists(), "{said}");
    let server = crate::mount::start(&path, &at, &["--no-disk", "--size", "64M"]);
    assert!(!server.lines.iter().any(|line| line.starts_with("disk0 ")), "{:?}", server.lines);
    std::fs::write(at.join("file"), vec![7; 50 << 20]).expect("three quarters of it are free");
    server.interrupt();
    assert_sound(&path);
}
