//! Guests: disks that are larger than their part of the pool.

use std::fs;
use std::time::{Duration, Instant};

use crate::programs::{client, ferrite};
use crate::server::{Server, folder, json, ok, run};

/// Bytes of the guest, and of its part of the pool.
const SIZE: usize = 24 << 20;

/// Bytes that differ from page to page and from `round` to `round`.
fn content(round: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at / 512 % 251) as u8 ^ round).collect()
}

/// An image becomes a guest, is written by a client of NBD, and is an image again.
#[test]
fn an_image_becomes_a_guest_and_an_image_again() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, image, copy) = (at("pool"), at("image"), at("copy"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    fs::write(&image, content(1)).expect("written");
    let made = json(&["guest", "create", &pool, "g", "--size", "24M", "--pm", "4M", "--disk", &image]);
    assert_eq!((made["size"].as_u64(), made["pm_bytes"].as_u64()), (Some(SIZE as u64), Some(4 << 20)), "{made}");
    ok(&["disk", "copy", &format!("{pool}:g"), &copy]);
    assert!(fs::read(&copy).expect("read") == content(1), "the image is the guest's content");
    fs::write(&copy, content(2)).expect("written");
    let server = Server::start(pool.as_ref(), &["--no-disk", "--no-attach"]);
    run(client("qemu-img").args(["convert", "-n", "-f", "raw", "-O", "raw", &copy, &server.uri("g")]));
    run(client("qemu-img").args(["compare", "-f", "raw", "-F", "raw", &copy, &server.uri("g")]));
    let stat = json(&["guest", "stat", &pool, "g"]);
    assert!(stat["counts"]["demoted_pages"].as_u64() > Some(4096), "{stat}");
    ok(&["guest", "flush", &pool, "g"]);
    assert!(fs::read(&image).expect("read")[..SIZE] == content(2), "the disk is the image");
    let refused = ferrite().args(["guest", "remove", &pool, "g", "--lose", "4096"]).output().expect("it runs");
    assert!(!refused.status.success(), "another number of bytes would be lost");
    server.interrupt();
    ok(&["guest", "remove", &pool, "g"]);
    assert!(fs::read(&image).expect("read")[..SIZE] == content(2), "the disk keeps the data");
}

/// A killed server loses no write that `disk copy` had made, and the next one goes on with the same frames.
#[test]
fn kill_of_the_server_loses_nothing_of_a_guest() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, source, copy) = (at("pool"), at("source"), at("copy"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    json(&["guest", "create", &pool, "g", "--size", "24M", "--pm", "4M", "--disk", &at("image")]);
    for round in 1..4 {
        let server = Server::start(pool.as_ref(), &["--no-disk", "--no-attach"]);
        fs::write(&source, content(round)).expect("written");
        ok(&["disk", "copy", &source, &server.uri("g")]);
        server.kill();
        let _ = fs::remove_file(&copy);
        ok(&["disk", "copy", &format!("{pool}:g"), &copy]);
        assert!(fs::read(&copy).expect("read") == content(round), "round {round}");
    }
    ok(&["pool", "check", &pool]);
}

/// Two guests that take memory from each other, and a server that is killed in between: every byte stays.
#[test]
fn kill_while_guests_share_memory_loses_nothing() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, source, copy) = (at("pool"), at("source"), at("copy"));
    ok(&["pool", "create", &pool, "--size", "48M"]);
    for name in ["g", "h"] {
        json(&["guest", "create", &pool, name, "--size", "24M", "--pm", "2M..16M", "--disk", &at(name)]);
    }
    ok(&["guest", "budget", &pool, "--set", "16M"]);
    let has = |name: usize| json(&["guest", "budget", &pool])["guests"][name]["pm_bytes"].as_u64().expect("a number");
    for round in 1..4 {
        let server = Server::start(pool.as_ref(), &["--no-disk", "--no-attach"]);
        let (busy, at_rest) = if round % 2 == 1 { ("g", 1) } else { ("h", 0) };
        let end = Instant::now() + Duration::from_secs(60);
        let before = has(at_rest);
        fs::write(&source, content(round)).expect("written");
        loop {
            ok(&["disk", "copy", &source, &server.uri(busy)]);
            if has(at_rest) < before.max(3 << 20) {
                break;
            }
            assert!(Instant::now() < end, "{}", json(&["guest", "budget", &pool]));
        }
        ok(&["guest", "set", &pool, busy, "--pm", "4M..16M"]);
        ok(&["guest", "set", &pool, busy, "--pm", "2M..16M", "--weight", "200"]);
        server.kill();
        for (name, written) in [("g", if round == 1 { 1 } else { round - (round + 1) % 2 }), ("h", round / 2 * 2)] {
            let _ = fs::remove_file(&copy);
            ok(&["disk", "copy", &format!("{pool}:{name}"), &copy]);
            let expected = if written == 0 { vec![0; SIZE] } else { content(written) };
            assert!(fs::read(&copy).expect("read") == expected, "{name} after round {round}");
        }
    }
    ok(&["guest", "detach", &pool, "g"]);
    assert!(fs::read(at("g")).expect("read")[..SIZE] == content(3), "the disk is the image");
    ok(&["pool", "check", &pool]);
}
