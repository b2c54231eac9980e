//! Copies from any kind of disk to any other, and disks that are served.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run, signal, wait};

#[test]
fn disks_are_copied_between_files_pools_and_servers() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, pool, other) = (path("image"), path("pool"), path("other"));
    let mut bytes = vec![0; 8 << 20];
    bytes[1 << 20..3 << 20].fill(7);
    bytes[(8 << 20) - 512..].fill(9);
    std::fs::write(&image, &bytes).expect("written");
    let server = Server::start(pool.as_ref(), &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["disk", "copy", &image, &format!("{pool}:d")]);
    ok(&["pool", "create", &other, "--size", "64M"]);
    ok(&["disk", "create", &other, "larger", "--size", "16M"]);
    let copied = json(&["disk", "copy", &server.uri("d"), &format!("{other}:larger")]);
    assert!(copied["zeroed_bytes"].as_u64() >= Some(4 << 20), "holes stay holes: {copied}");
    let back = path("back");
    ok(&["disk", "copy", &format!("ssd-nvme:{other}:larger"), &back]);
    let found = std::fs::read(&back).expect("read");
    let mode = std::fs::metadata(&back).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "what a disk holds is for its user alone");
    assert!(found[..bytes.len()] == bytes && found[bytes.len()..].iter().all(|byte| *byte == 0));
    let said = refused(ferrite().args(["disk", "copy", &back, &format!("{pool}:d")]), 1);
    assert!(said.contains("do not fit"), "{said}");
    assert!(refused(ferrite().args(["disk", "copy", &path("none"), &back]), 1).contains("none"));
    server.interrupt();
    assert_sound(pool.as_ref());
    assert_sound(other.as_ref());
}

/// The current server, not an earlier one, decides how a copy writes to a disk, and the copy reports it.
#[test]
fn a_copy_beside_a_server_writes_as_that_serves_disks() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, pool) = (path("image"), path("pool"));
    std::fs::write(&image, vec![7; 1 << 20]).expect("written");
    let server = Server::start(pool.as_ref(), &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    let copy = || ferrite().args(["disk", "copy", &image, &format!("{pool}:d")]).output().expect("it ran");
    let stat = || String::from_utf8(ferrite().args(["disk", "stat", &pool, "d"]).output().expect("it ran").stdout);
    for options in [&["--read-only"][..], &["--in-place", "--scheme", "writeback"]] {
        let words = [&["disk", "serve", &pool, "d"], options].concat();
        let other = Server::of(ferrite().args(words), pool.as_ref(), "nbd+unix");
        let while_served = copy();
        if options == ["--read-only"] {
            let said = String::from_utf8(while_served.stderr).expect("text");
            assert!(
                said.contains("\"d\" is read-only as long as it is served so at") && said.contains(".d.nbd"),
                "{said}"
            );
            assert!(stat().expect("text").contains("  in use: read-only\n"));
        } else {
            assert!(while_served.status.success(), "{while_served:?}");
            assert!(stat().expect("text").contains("  in use: in place, where a crash may tear a sector, by scheme"));
        }
        other.interrupt();
        assert!(stat().expect("text").contains("  not in use; when it was last: "));
        let said = copy();
        assert!(said.status.success(), "{said:?}");
        let stat = stat().expect("text");
        assert!(!stat.contains("when it was last") && stat.contains("durable when it completes"), "{stat}");
    }
    server.interrupt();
    let read_only = Server::start(pool.as_ref(), &["--no-attach", "--read-only"]);
    let said = String::from_utf8(copy().stderr).expect("text");
    assert!(said.contains("\"d\" is read-only: process") && said.contains("without --read-only"), "{said}");
    let uri = read_only.uri("d");
    let said = refused(ferrite().args(["disk", "copy", &image, &uri]), 1);
    assert!(said.contains(&format!("{uri} is read-only")), "{said}");
    read_only.interrupt();
    assert_sound(pool.as_ref());
}

/// The copy uses a socket of its own, which a killed server cannot remove.
#[test]
fn a_copy_beside_a_server_that_is_killed_leaves_no_socket() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, pool) = (path("image"), path("pool"));
    std::fs::write(&image, vec![7; 128 << 20]).expect("written");
    let server = Server::start(pool.as_ref(), &["--no-attach", "--size", "192M", "--disk", "d=128M"]);
    let mut copy = ferrite();
    copy.args(["disk", "copy", &format!("hdd-5400:{image}"), &format!("{pool}:d")]);
    let mut copy = copy.spawn().expect("ferrite starts");
    // A listening socket and its accepted connections have one path: the name to which the socket was bound.
    let socket = format!("{pool}.{}.to.nbd", copy.id());
    let connected = || {
        let (listed, mut sockets) = (std::fs::read_to_string("/proc/net/unix").expect("read"), BTreeMap::new());
        for at in listed.lines().filter_map(|line| line.split_whitespace().nth(7)) {
            *sockets.entry(at).or_insert(0) += 1;
        }
        let at = format!("{}/.ferrite-", folder.path().display());
        sockets.iter().filter(|(path, count)| path.starts_with(&at) && **count > 1).count()
    };
    // The copy is connected to the owner's control socket and to the disk's socket.
    while connected() < 2 {
        assert_eq!(copy.try_wait().expect("asked"), None, "it was copied already");
    }
    server.kill();
    assert_eq!(wait(&mut copy, Duration::from_secs(60)), Some(1));
    assert!(!std::fs::exists(&socket).expect("asked"));
}

/// A forgotten `:d`, or a pool's path in place of a file's, does not destroy the pool.
#[test]
fn no_command_writes_over_a_pool() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, image, trace) = (path("pool"), path("image"), path("trace"));
    std::fs::write(&image, vec![7; 1 << 20]).expect("written");
    std::fs::write(&trace, "0 1000\n1 2000\n2 fff\n").expect("written");
    let server = Server::start(pool.as_ref(), &["--no-attach", "--size", "64M", "--disk", "d=8M"]);
    ok(&["tag", "put", &pool, "t", &image]);
    let words: [&[&str]; 6] = [
        &["disk", "copy", &image, &pool],
        &["tag", "get", &pool, "t", &pool],
        &["pool", "backup", &pool, &pool],
        &["sim", "llc", "--trace", &trace, "--save", &pool],
        &["sim", "llc", "--trace", &trace, "--plot", &pool],
        &["sim", "convert", &trace, &pool, "--as", "compact"],
    ];
    for command in words {
        let said = refused(ferrite().args(command), 1);
        assert!(said.contains("holds a pool"), "{command:?}: {said}");
    }
    server.interrupt();
    assert_sound(pool.as_ref());
    let said = refused(ferrite().args(["disk", "copy", &image, &pool]), 1);
    assert!(said.contains("holds a pool"), "nobody serves it: {said}");
    assert_sound(pool.as_ref());
}

/// A copy never silently omits the end of a file, also on a host whose direct I/O has larger units.
#[test]
fn files_that_fill_no_page_are_copied_whole_or_refused() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, back, pool) = (path("image"), path("back"), path("pool"));
    let mut bytes = vec![7; 513 * 512];
    bytes[512 * 512..].fill(9);
    std::fs::write(&image, &bytes).expect("written");
    ok(&["pool", "create", &pool, "--size", "32M"]);
    ok(&["disk", "create", &pool, "d", "--size", &bytes.len().to_string()]);
    ok(&["disk", "copy", &image, &format!("{pool}:d")]);
    ok(&["disk", "copy", &format!("{pool}:d"), &back]);
    assert!(std::fs::read(&back).expect("read") == bytes);
    for (address, why) in [("nbds://h/d", "does not speak TLS"), ("http://h/d", "unknown scheme")] {
        let said = refused(ferrite().args(["disk", "copy", address, &back]), 1);
        assert!(said.contains(address) && said.contains(why), "{said}");
    }
    std::fs::write(&image, [7; 1000]).expect("written");
    let said = refused(ferrite().args(["disk", "copy", &image, &back]), 1);
    assert!(said.contains("has 1000 bytes") && said.contains("behind byte 512 would be left out"), "{said}");
    assert!(std::fs::read(&back).expect("read") == bytes, "nothing was copied");
}

#[test]
fn disks_of_one_pool_are_copied_alone_and_beside_its_server_under_any_name() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, pool) = (path("image"), path("a pool ö"));
    std::fs::write(&image, vec![7; 1 << 20]).expect("written");
    ok(&["pool", "create", &pool, "--size", "64M"]);
    for name in ["a", "b", "c d/ü?%41"] {
        ok(&["disk", "create", &pool, name, "--size", "1M"]);
    }
    ok(&["disk", "copy", &image, &format!("{pool}:a")]);
    ok(&["disk", "copy", &format!("{pool}:a"), &format!("{pool}:b")]);
    refused(ferrite().args(["disk", "copy", &format!("{pool}:a"), &format!("{pool}:a")]), 2);
    let server = Server::start(pool.as_ref(), &["--no-attach"]);
    assert!(!server.lines.join("\n").contains("recovered"), "copies close in order: {:?}", server.lines);
    let mut serve = ferrite();
    let served = Server::of(serve.args(["disk", "serve", &pool, "b"]), pool.as_ref(), "is served at");
    ok(&["disk", "copy", &format!("{pool}:b"), &format!("{pool}:c d/ü?%41")]);
    served.interrupt();
    let lines = server.lines.join(" ");
    let uri = lines.split_whitespace().find(|word| word.contains("/c%20d")).expect("an address");
    run(client("qemu-io").args(["-r", "-f", "raw", "-c", "read -P 7 0 1M", uri]));
    assert_eq!(run(client("nbdinfo").args(["--size", uri])).trim(), (1 << 20).to_string());
    let back = path("back");
    ok(&["disk", "copy", uri, &back]);
    assert!(std::fs::read(&back).expect("read") == vec![7; 1 << 20]);
}

/// Both the pool and the disk may have a colon in their names.
#[test]
fn a_disk_is_addressed_by_where_its_pool_is() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, back, pool) = (path("image"), path("back"), path("a:pool"));
    std::fs::write(&image, vec![7; 1 << 20]).expect("written");
    std::fs::write(path("a"), "no pool").expect("written");
    ok(&["pool", "create", &pool, "--size", "64M"]);
    for name in ["a:b", "c"] {
        ok(&["disk", "create", &pool, name, "--size", "1M"]);
    }
    ok(&["disk", "copy", &image, &format!("{pool}:a:b")]);
    ok(&["disk", "copy", &format!("{pool}:a:b"), &format!("ssd-nvme:{pool}:c")]);
    ok(&["disk", "copy", &format!("{pool}:c"), &back]);
    assert!(std::fs::read(&back).expect("read") == vec![7; 1 << 20]);
    let itself = format!("{pool}:a:b");
    assert!(refused(ferrite().args(["disk", "copy", &itself, &itself]), 2).contains("itself"));
    let said = refused(ferrite().args(["disk", "copy", &path("none:b"), &back]), 1);
    assert!(said.contains("there is no"), "{said}");
}

/// The command recognizes the source as its target under every name.
#[test]
fn no_disk_is_copied_to_itself() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name);
    ok(&["pool", "create", at("pool").to_str().expect("text"), "--size", "32M"]);
    for name in ["a", "b"] {
        ok(&["disk", "create", at("pool").to_str().expect("text"), name, "--size", "1M"]);
    }
    std::fs::write(at("image"), [7; 4096]).expect("written");
    for name in ["image", "pool"] {
        std::fs::hard_link(at(name), at(&format!("{name} by another name"))).expect("linked");
        std::os::unix::fs::symlink(name, at(&format!("link to {name}"))).expect("linked");
    }
    let copy = |from: &str, to: &str| {
        let mut program = ferrite();
        program.args(["disk", "copy", from, to]).current_dir(folder.path());
        program
    };
    for to in
        ["image", "./image", "image by another name", "link to image", "hdd-7200:image", "ftl-page:ssd-sata:image"]
    {
        assert!(refused(&mut copy("image", to), 2).contains("itself"), "{to}");
    }
    for to in ["pool:a", "./pool:a", "pool by another name:a", "ssd-nvme:link to pool:a"] {
        assert!(refused(&mut copy("pool:a", to), 2).contains("itself"), "{to}");
    }
    run(&mut copy("pool:a", "link to pool:b"));
}

#[test]
fn a_file_is_served_as_a_simulated_disk() {
    let folder = folder(true);
    let (image, socket) = (folder.path().join("image"), folder.path().join("socket"));
    std::fs::write(&image, vec![3; 4 << 20]).expect("written");
    let mut command = ferrite();
    command.args(["disk", "export", &format!("hdd-7200:{}", image.display()), "--unix"]).arg(&socket);
    let server = Server::of(&mut command, &image, "is served at");
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let started = std::time::Instant::now();
    let reads: Vec<String> =
        (0..8).flat_map(|i| ["-c".to_owned(), format!("read -P 3 {}k 4k", i * 509 % 4096)]).collect();
    run(client("qemu-io").args(["-r", "-f", "raw"]).args(reads).arg(&uri));
    assert!(started.elapsed() > Duration::from_millis(8), "eight random reads of a hard disk take their time");
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 5 0 4k", "-c", "flush", &uri]));
    server.interrupt();
    assert!(std::fs::read(&image).expect("read")[..4096] == [5; 4096]);
}

/// A stopped server is behind the export. The first Ctrl-C meets a process that waits for an answer, and the second one
/// ends it.
#[test]
fn an_export_of_what_does_not_answer_is_ended_by_a_second_ctrl_c() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    std::fs::write(path("image"), vec![3; 1 << 20]).expect("written");
    let behind = Server::start_as_program(&["disk", "export", &path("image"), "--unix", &path("behind")]);
    let uri = format!("nbd+unix:///?socket={}", path("behind"));
    let words = ["disk", "export", &uri, "--unix", &path("socket"), "--trace", &path("trace")];
    let served = Server::start_as_program(&words);
    signal(behind.pid(), "STOP");
    signal(served.pid(), "INT");
    served.interrupt_again();
    let status = served.ended();
    let has_trace = folder.path().join("trace").exists();
    let mut opening = ferrite().args(words).spawn().expect("ferrite starts");
    // Before the process catches signals, one signal would end it anyway.
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", opening.id())).expect("there");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("told");
        u64::from_str_radix(caught.trim(), 16).expect("a mask") >> 1 & 1 == 1
    };
    while !catches() {
        std::thread::yield_now();
    }
    signal(opening.id(), "INT");
    std::thread::sleep(Duration::from_millis(400));
    signal(opening.id(), "INT");
    let status_opening = wait(&mut opening, Duration::from_secs(10));
    let _ = opening.kill();
    behind.kill();
    assert_eq!((status, has_trace), (Some(1), true), "while it served");
    assert_eq!(status_opening, Some(1), "while it was opened");
}

/// If a copy fails or is stopped, it removes the disk that it made, and nothing else.
#[test]
fn a_disk_that_was_made_for_a_copy_that_is_stopped_is_removed() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, pool, there) = (path("image"), path("pool"), path("there"));
    std::fs::write(&image, vec![7; 96 << 20]).expect("written");
    std::fs::write(&there, vec![1; 96 << 20]).expect("written");
    let first_byte = || {
        let mut first = [0];
        File::open(&there).and_then(|mut file| file.read_exact(&mut first)).expect("read");
        first[0]
    };
    let disks = || json(&["disk", "list", &pool]).as_array().map(Vec::len);
    let stopped = |to: &str, has_begun: &dyn Fn() -> bool| {
        let mut copy = ferrite();
        let mut copy = copy.args(["disk", "copy", &format!("hdd-5400:{image}"), to]).spawn().expect("ferrite starts");
        while !has_begun() {
            assert_eq!(copy.try_wait().expect("asked"), None, "it was copied already");
        }
        signal(copy.id(), "INT");
        assert_eq!(wait(&mut copy, Duration::from_secs(60)), Some(1));
    };
    ok(&["pool", "create", &pool, "--size", "128M"]);
    let server = Server::start(pool.as_ref(), &["--no-attach", "--no-disk"]);
    stopped(&format!("{pool}:d"), &|| disks() == Some(1));
    assert_eq!(disks(), Some(0));
    server.interrupt();
    let file = path("file");
    stopped(&file, &|| std::fs::exists(&file).expect("asked"));
    assert!(!std::fs::exists(&file).expect("asked"));
    stopped(&there, &|| first_byte() == 7);
    assert!(std::fs::exists(&there).expect("asked"), "what was there before stays");
    assert_sound(pool.as_ref());
}

#[test]
fn a_disk_that_is_made_beside_a_server_says_how_it_is_attached() {
    let folder = folder(true);
    let pool = folder.path().join("a pool");
    let text = pool.to_str().expect("text");
    let attach = |said: &str| said.contains(&format!("`ferrite disk attach '{text}' d"));
    ok(&["pool", "create", text, "--size", "32M"]);
    assert!(!attach(&ok(&["disk", "create", text, "d0", "--size", "1M"])), "nobody serves it");
    let server = Server::start(&pool, &["--no-attach"]);
    let said = ok(&["disk", "create", text, "d", "--size", "1M"]);
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    assert_eq!(attach(&said), is_root, "{said}");
    server.interrupt();
}

/// On a terminal, every command that takes more than half a second shows its progress.
#[test]
fn a_long_copy_shows_a_bar() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (image, to) = (path("image"), path("to"));
    std::fs::write(&image, vec![7; 128 << 20]).expect("written");
    let command = format!("{} disk copy hdd-5400:{image} {to}", crate::programs::ferrite_path().display());
    let said = run(client("script").args(["-qec", &command, "/dev/null"]));
    assert!(said.contains("copying") && said.contains('%'), "{said:?}");
}
