//! Any disk copied to any other, and served.

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run};

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
    assert!(found[..bytes.len()] == bytes && found[bytes.len()..].iter().all(|byte| *byte == 0));
    let said = refused(ferrite().args(["disk", "copy", &back, &format!("{pool}:d")]), 1);
    assert!(said.contains("do not fit"), "{said}");
    assert!(refused(ferrite().args(["disk", "copy", &path("none"), &back]), 1).contains("none"));
    server.interrupt();
    assert_sound(pool.as_ref());
    assert_sound(other.as_ref());
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
    assert!(
        started.elapsed() > std::time::Duration::from_millis(8),
        "eight random reads of a hard disk take their time"
    );
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 5 0 4k", "-c", "flush", &uri]));
    server.interrupt();
    assert!(std::fs::read(&image).expect("read")[..4096] == [5; 4096]);
}
