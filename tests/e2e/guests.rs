//! Guests: disks that are larger than their part of the pool.

use std::fs;
use std::time::{Duration, Instant};

use crate::disk_rates::Watching;
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
    let mut watching = Watching::of(&["guest", "stat", &pool, "g"]);
    let stat = watching.look();
    assert!(stat["counts"]["demoted_pages"].as_u64() > Some(4096) && stat.get("per_second").is_none(), "{stat}");
    assert!(watching.look()["per_second"]["waits"].is_number(), "the second look has rates");
    drop(watching);
    ok(&["guest", "flush", &pool, "g"]);
    assert!(fs::read(&image).expect("read")[..SIZE] == content(2), "the disk is the image");
    let refused = ferrite().args(["guest", "remove", &pool, "g", "--lose", "4096"]).output().expect("it runs");
    assert!(!refused.status.success(), "another number of bytes would be lost");
    server.interrupt();
    let mut serve = ferrite();
    serve.args(["guest", "serve", &pool, "g", "--unix", &at("socket")]);
    let server = Server::of(&mut serve, pool.as_ref(), "nbd+unix");
    let uri = format!("nbd+unix:///g?socket={}", at("socket"));
    run(client("qemu-img").args(["compare", "-f", "raw", "-F", "raw", &copy, &uri]));
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

/// Returns the standard error of a command that fails.
fn refusal(words: &[&str]) -> String {
    let output = ferrite().args(words).output().expect("it runs");
    assert!(!output.status.success(), "{words:?} is refused");
    String::from_utf8(output.stderr).expect("text")
}

/// The content of a guest goes to a file while a server has the guest, and a file becomes the content of a guest at rest.
#[test]
fn the_content_of_a_guest_is_exported_and_imported() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, source, raw) = (at("pool"), at("source"), at("raw"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    json(&["guest", "create", &pool, "g", "--size", "24M", "--pm", "4M", "--disk", &at("image")]);
    fs::write(&source, content(1)).expect("written");
    let server = Server::start(pool.as_ref(), &["--no-disk", "--no-attach"]);
    ok(&["disk", "copy", &source, &server.uri("g")]);
    let report = json(&["guest", "export", &pool, "g", &raw]);
    assert_eq!(report["size_bytes"].as_u64(), Some(SIZE as u64), "{report}");
    assert!(fs::read(&raw).expect("read") == content(1), "pages of the pool and of the disk");
    assert!(refusal(&["guest", "export", &pool, "g", &raw]).contains("--force"));
    ok(&["disk", "copy", "--raw", &raw, &server.uri("g")]);
    ok(&["guest", "export", &pool, "g", &raw, "--force"]);
    for command in ["export", "import"] {
        assert!(refusal(&["guest", command, &pool, "g", &at("image")]).contains("is the disk of the guest"));
    }
    server.interrupt();
    fs::write(&source, &content(2)[..SIZE / 2]).expect("written");
    ok(&["guest", "import", &pool, "g", &source]);
    ok(&["guest", "export", &pool, "g", &raw, "--force"]);
    let expected = [&content(2)[..SIZE / 2], &vec![0; SIZE / 2][..]].concat();
    assert!(fs::read(&raw).expect("read") == expected, "zeros are behind a short file");
    fs::write(&source, vec![1; SIZE + 1]).expect("written");
    assert!(refusal(&["guest", "import", &pool, "g", &source]).contains("do not fit"));
    ok(&["guest", "remove", &pool, "g"]);
    assert!(fs::read(at("image")).expect("read")[..SIZE] == expected, "the disk is the image");
}

/// A guest grows and shrinks, and the file of its disk with it.
#[test]
fn a_guest_changes_its_size_with_its_file() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, source, raw, image) = (at("pool"), at("source"), at("raw"), at("image"));
    let len = || fs::metadata(&image).expect("there").len();
    ok(&["pool", "create", &pool, "--size", "32M"]);
    json(&["guest", "create", &pool, "g", "--size", "24M", "--pm", "4M", "--disk", &image]);
    fs::write(&source, content(3)).expect("written");
    ok(&["guest", "import", &pool, "g", &source]);
    let report = json(&["guest", "resize", &pool, "g", "--size", "40M", "--pm", "6M"]);
    assert_eq!((report["size"].as_u64(), report["pm_bytes"].as_u64()), (Some(40 << 20), Some(6 << 20)), "{report}");
    assert_eq!(len(), (40 << 20) + 8192);
    ok(&["guest", "export", &pool, "g", &raw]);
    assert!(fs::read(&raw).expect("read") == [content(3), vec![0; 16 << 20]].concat());
    let lost = format!("{}", SIZE - (8 << 20));
    assert!(refusal(&["guest", "resize", &pool, "g", "--size", "8M"]).contains(&format!("--lose {lost}")));
    ok(&["guest", "resize", &pool, "g", "--size", "8M", "--lose", &lost]);
    assert_eq!(len(), (8 << 20) + 8192);
    ok(&["guest", "export", &pool, "g", &raw, "--force"]);
    assert!(fs::read(&raw).expect("read") == content(3)[..8 << 20]);
    ok(&["pool", "check", &pool]);
}
