//! The `/dev` node, used by the kernel's file systems.

use std::path::Path;
use std::process::Stdio;

use crate::programs::client;
use crate::server::{Server, can_attach, folder, json, refused, run, signal};
use crate::tree::{Mounted, assert_equal, unpack};

#[test]
fn ext4_on_a_partition_lives_a_whole_life() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--size", "512M", "--disk", "e2e-ext4=384M"]);
    let node = server.node("e2e-ext4");
    run(client("sh").arg("-c").arg(format!("echo ',,L' | sfdisk -q {}", node.display())));
    assert!(run(client("sfdisk").arg("-d").arg(&node)).contains("start="));
    run(client("wipefs").arg("-aq").arg(&node));
    life(&server, "e2e-ext4", &node, &["mkfs.ext4", "-q", "-F"], &["e2fsck", "-fn"]);
    server.interrupt();
}

#[test]
fn xfs_lives_a_whole_life() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--size", "512M", "--disk", "e2e-xfs=384M"]);
    let node = server.node("e2e-xfs");
    life(&server, "e2e-xfs", &node, &["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"]);
    server.interrupt();
}

/// Runs mkfs, mount, unpack, trim, unmount and fsck, and the same again after a restart of the server.
pub fn life(server: &Server, name: &str, node: &Path, mkfs: &[&str], fsck: &[&str]) {
    let at = server.pool.with_extension("mnt");
    run(client(mkfs[0]).args(&mkfs[1..]).arg(node));
    {
        let mounted = Mounted::new(node, &at);
        unpack(mounted.0);
        run(client("sync").arg("-f").arg(mounted.0));
        let held = used_bytes(server, name);
        std::fs::write(mounted.0.join("big"), vec![1; 32 << 20]).expect("written");
        run(client("sync").arg("-f").arg(mounted.0));
        let full = used_bytes(server, name);
        assert!(full >= held + (32 << 20), "{held} then {full}");
        std::fs::remove_file(mounted.0.join("big")).expect("removed");
        // A file system may free removed blocks in the background.
        let mut left = full;
        for _ in 0..50 {
            run(&mut client("sync"));
            run(client("fstrim").arg(mounted.0));
            left = used_bytes(server, name);
            if left < full - (24 << 20) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(left < full - (24 << 20), "fstrim gives space back: {full} then {left}");
        let said = refused(crate::programs::ferrite().args(["disk", "detach"]).arg(&server.pool).arg(name), 1);
        assert!(said.contains("mount"), "{said}");
    }
    run(client(fsck[0]).args(&fsck[1..]).arg(node));
    let mounted = Mounted::new(node, &at);
    assert_equal(mounted.0);
}

fn used_bytes(server: &Server, name: &str) -> u64 {
    let stat = json(&["disk", "stat", server.pool.to_str().expect("text"), name]);
    stat["open"]["used_bytes"].as_u64().unwrap_or_else(|| panic!("{stat}"))
}

#[test]
pub fn a_disk_is_attached_and_detached_beside_a_running_server_and_grows() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    let _server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "e2e-beside=8M"]);
    let attached = json(&["disk", "attach", pool, "e2e-beside"]);
    let device = attached["device"].as_str().expect("a device").to_owned();
    let size = || run(client("blockdev").args(["--getsize64", &device])).trim().parse::<u64>().expect("a number");
    assert_eq!(size(), 8 << 20);
    run(crate::programs::ferrite().args(["disk", "resize", pool, "e2e-beside", "--size", "16M"]));
    assert_eq!(size(), 16 << 20);
    let said = refused(crate::programs::ferrite().args(["disk", "remove", pool, "e2e-beside"]), 1);
    let link = attached["link"].as_str().expect("a link");
    assert!(said.contains("in use") && said.contains(link), "{said}");
    let message = json(&["disk", "list", pool])[0]["reached_at"].clone();
    assert!(message.as_array().is_some_and(|at| at.contains(&link.into())), "{message}");
    assert_eq!(json(&["disk", "attach", pool, "e2e-beside"])["device"], attached["device"]);
    for how in ["--read-only", "--in-place", "--verify"] {
        let said = refused(crate::programs::ferrite().args(["disk", "attach", pool, "e2e-beside", how]), 1);
        assert!(said.contains("is served with other options already"), "{how}: {said}");
    }
    run(crate::programs::ferrite().args(["disk", "detach", pool, "e2e-beside"]));
    assert!(!Path::new("/dev/ferrite/e2e-beside").exists());
    run(crate::programs::ferrite().args(["disk", "remove", pool, "e2e-beside"]));
}

/// The server cannot see the node's user here, because that user opened the node by a name outside `/dev`. A detach
/// waits for it.
#[test]
fn other_disks_are_served_while_a_detach_waits() {
    if !can_attach() {
        return;
    }
    let (shm, elsewhere) = (folder(true), folder(false));
    let path = shm.path().join("pool");
    let pool = path.to_str().expect("text");
    let more = ["--no-attach", "--size", "64M", "--disk", "e2e-waits=8M", "--disk", "e2e-other=4M"];
    let server = Server::start(&path, &more);
    let attached = json(&["disk", "attach", pool, "e2e-waits"]);
    let number = run(client("stat").args(["-c", "%Hr %Lr", attached["device"].as_str().expect("a device")]));
    let link = Path::new(attached["link"].as_str().expect("a link"));
    let named = elsewhere.path().join("named");
    run(client("mknod").arg(&named).arg("b").args(number.split_whitespace()));
    let above = run(client("losetup").args(["--find", "--show"]).arg(&named));
    let mut detach = crate::programs::ferrite();
    let mut detach = detach.args(["disk", "detach", pool, "e2e-waits"]).spawn().expect("started");
    let is_waiting = |_| !link.exists() || (std::thread::sleep(std::time::Duration::from_millis(10)), false).1;
    let began = (0..500).any(is_waiting);
    let copied = crate::programs::ferrite()
        .args(["disk", "copy", &server.uri("e2e-other")])
        .arg(elsewhere.path().join("copy"))
        .output()
        .expect("run");
    let waits = detach.try_wait().expect("asked").is_none();
    let status = detach.wait().expect("ended").code();
    run(client("losetup").args(["-d", above.trim()]));
    assert!(began && copied.status.success() && waits, "it waited for the detach: {copied:?}");
    assert_eq!((status, link.exists()), (Some(1), true), "refused, it stays");
    server.interrupt();
}

/// The test detaches the device like `losetup -d`. Reporting the node afterwards would send programs to a free node or
/// to another user's.
#[test]
fn a_node_that_a_person_took_away_is_told_of_no_more_and_made_anew() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    let server = Server::start(&path, &["--no-attach", "--size", "64M", "--disk", "e2e-anew=8M"]);
    let attached = json(&["disk", "attach", pool, "e2e-anew"]);
    let (device, link) = (attached["device"].as_str().expect("a device"), attached["link"].as_str().expect("a link"));
    if !device.starts_with("/dev/loop") {
        eprintln!("skipped: the node is no loop device");
        return server.interrupt();
    }
    let reached = || json(&["disk", "list", pool])[0]["reached_at"].as_array().expect("a list").contains(&link.into());
    assert!(reached());
    run(client("losetup").args(["-d", device]));
    let is_gone = |_| !reached() || (std::thread::sleep(std::time::Duration::from_millis(100)), false).1;
    assert!((0..50).any(is_gone), "{link} is listed still");
    let anew = json(&["disk", "attach", pool, "e2e-anew"]);
    assert_eq!(anew["link"], link);
    let bytes = run(client("blockdev").args(["--getsize64", link]));
    assert_eq!(bytes.trim(), (8 << 20).to_string(), "the node is there again");
    assert!(reached());
    server.interrupt();
}

/// AT3: a copy would overwrite the disk under its mounted file system. A copy onto a disk that is not mounted works.
#[test]
fn a_disk_is_not_overwritten_while_its_node_is_mounted() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--size", "128M", "--disk", "e2e-over=32M", "--disk", "e2e-from=32M"]);
    let node = server.node("e2e-over");
    run(client("mkfs.ext4").arg("-q").arg(&node));
    let copy = |to: &str| {
        let mut copy = crate::programs::ferrite();
        copy.args(["disk", "copy", &format!("{}:e2e-from", pool.display()), to]);
        copy
    };
    let (named, at) = (format!("{}:e2e-over", pool.display()), folder.path().join("mnt"));
    let uri = server.uri("e2e-over");
    {
        let mounted = Mounted::new(&node, &at);
        std::fs::write(mounted.0.join("file"), "kept").expect("written");
        let said = refused(&mut copy(&named), 1);
        assert!(said.contains("\"e2e-over\" is not overwritten") && said.contains("the mount on"), "{said}");
        refused(&mut copy(node.to_str().expect("text")), 1);
        let said = refused(&mut copy(&uri), 1);
        assert!(said.contains("is read-only") && said.contains("mounted"), "{said}");
        assert_eq!(std::fs::read_to_string(mounted.0.join("file")).expect("read"), "kept");
    }
    {
        run(client("mount").args(["-o", "loop"]).arg(&node).arg(&at));
        let _mounted = Mounted(&at);
        let (said, over_nbd) = (refused(&mut copy(&named), 1), refused(&mut copy(&uri), 1));
        assert!(said.contains("the device loop") && over_nbd.contains("is read-only"), "{said}{over_nbd}");
    }
    run(client("e2fsck").arg("-fn").arg(&node));
    run(&mut copy(&named));
    run(&mut copy(&uri));
    server.interrupt();
}

/// As with a mount of files, the server names and waits for programs on the node's file system, and keeps its data.
#[test]
fn what_a_file_system_in_use_on_a_node_holds_is_kept() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let (pool, at) = (folder.path().join("pool"), folder.path().join("mnt"));
    let mut up = crate::programs::ferrite();
    up.args(["up", "--no-mount", "--size", "64M", "--disk", "e2e-used=32M", "--pool"]).arg(&pool);
    let mut server = Server::of(up.stderr(Stdio::piped()), &pool, "Ctrl-C ends it.");
    let node = server.node("e2e-used");
    run(client("mkfs.ext4").arg("-q").arg(&node));
    let mounted = Mounted::new(&node, &at);
    std::fs::write(mounted.0.join("file"), "kept").expect("written");
    let open = std::fs::File::open(mounted.0.join("file")).expect("opened");
    signal(server.pid(), "INT");
    server.interrupt_again();
    let said = server.said_until("going on without them");
    assert!(said.contains("waiting for 10 s at most") && said.contains("the mount on"), "{said}");
    assert_eq!(server.ended(), Some(0));
    drop((open, mounted));
    let server = Server::start(&pool, &[]);
    {
        let mounted = Mounted::new(&server.node("e2e-used"), &at);
        assert_eq!(std::fs::read_to_string(mounted.0.join("file")).expect("there"), "kept");
    }
    server.interrupt();
}

/// Two pools each have a disk of the same name. Both get a node, under a link that does not depend on the order of the
/// starts.
#[test]
fn disks_of_one_name_in_two_pools_are_both_attached() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let pools = ["e2e-one", "e2e-other"].map(|name| folder.path().join(name));
    let bytes =
        |node: &Path| run(client("blockdev").arg("--getsize64").arg(node)).trim().parse::<u64>().expect("bytes");
    let sizes = [4_u64 << 20, 8 << 20];
    let stable = |nth: usize| {
        let uuid = json(&["pool", "info", pools[nth].to_str().expect("text")])["uuid"].clone();
        Path::new("/dev/ferrite/by-pool").join(uuid.as_str().expect("text")).join("e2e-same")
    };
    let start =
        |nth: usize| Server::start(&pools[nth], &["--size", "32M", "--disk", &format!("e2e-same={}", sizes[nth])]);
    let short = Path::new("/dev/ferrite/e2e-same");
    for (first, second) in [(0, 1), (1, 0)] {
        let servers = [start(first), start(second)];
        let links = [stable(first), stable(second)];
        for (link, nth) in links.iter().zip([first, second]) {
            assert_eq!(bytes(link), sizes[nth], "{}", link.display());
        }
        assert_eq!(bytes(short), sizes[first], "the first has the short name");
        let said = servers[1].lines.join("\n");
        assert!(
            said.contains("/dev/ferrite/e2e-same is taken by") && said.contains(links[1].to_str().expect("text")),
            "{said}"
        );
        let [one, two] = servers;
        two.interrupt();
        assert!(!links[1].exists() && bytes(short) == sizes[first], "each takes its own links away");
        one.interrupt();
        assert!(!short.exists() && links.iter().all(|link| !link.parent().expect("a folder").exists()));
    }
}

/// AT4: the next server removes the links of a killed server, and does not touch another pool's links.
#[test]
fn links_of_a_killed_server_are_cleared_and_those_of_others_stay() {
    if !can_attach() {
        return;
    }
    let folder = folder(true);
    let [one, other] = ["e2e-one", "e2e-other"].map(|name| folder.path().join(name));
    let killed = Server::start(&one, &["--size", "32M", "--disk", "e2e-left=4M"]);
    let beside = Server::start(&other, &["--size", "32M", "--disk", "e2e-left=8M"]);
    let attached = json(&["disk", "attach", other.to_str().expect("text"), "e2e-left"]);
    let link = Path::new(attached["link"].as_str().expect("a link"));
    assert_eq!(attached["link"], attached["stable_link"], "it has no other");
    killed.kill();
    let next = Server::start(&one, &["--no-attach"]);
    let said = next.lines.join("\n");
    assert_eq!(said.matches("removed the link /dev/ferrite/").count(), 2, "{said}");
    assert!(!Path::new("/dev/ferrite/e2e-left").exists() && link.exists(), "{said}");
    next.interrupt();
    beside.interrupt();
    assert!(!link.exists());
}
