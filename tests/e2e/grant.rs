//! A client of the owner that works directly on a tag's pages.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme};
use ferrite_owner::{OwnerClient, ServiceRequest};
use serde_json::{Value, json};

use crate::programs::ferrite;
use crate::server::{Server, assert_sound, folder, json as report, ok, refused};

const CONTENT: usize = 3 << 20;

fn granted(client: &mut OwnerClient, write: bool) -> (Value, Vec<OwnedFd>) {
    let request = json!({ "do": "grant", "name": "t", "write": write });
    client.call(ServiceRequest::new("tag", &request), &mut |_| true).expect("granted")
}

fn put(pool: &Path, byte: u8) {
    let file = pool.with_extension("content");
    std::fs::write(&file, vec![byte; CONTENT]).expect("written");
    let lose = CONTENT.to_string();
    ok(&["tag", "put", pool.to_str().expect("text"), "t", file.to_str().expect("text"), "--lose", &lose]);
}

fn free_bytes(pool: &Path) -> u64 {
    report(&["pool", "info", pool.to_str().expect("text")])["usage"]["free_bytes"].as_u64().expect("a number")
}

#[test]
fn granted_pages_are_the_tags_and_are_not_reused_until_they_are_given_back() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let _server = Server::start(&pool, &["--no-attach", "--size", "64M", "--disk", "d=4M"]);
    let empty = free_bytes(&pool);
    put(&pool, 7);
    let mut client = OwnerClient::connect(&pool).expect("connected");
    let (grant, mut fds) = granted(&mut client, true);
    let notice = fds.pop().expect("a notice");
    let options = MapOptions { guard: Guard::None, name: "granted".into(), ..MapOptions::default() };
    let memory = Mapped::map(File::from(fds.pop().expect("the memory")), &options).expect("mapped");
    let run = &grant["runs"][0];
    let (at, len) = (run[0].as_u64().expect("a place"), run[1].as_u64().expect("a length"));
    let mut bytes = vec![0; len as usize];
    memory.load(at, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 7), "the client sees the tag's bytes");
    ok(&["tag", "remove", pool.to_str().expect("text"), "t"]);
    assert!(free_bytes(&pool) < empty, "removed, and still held back for the grant");
    let mut asked = [0];
    assert_eq!(std::io::Read::read(&mut File::from(notice), &mut asked).expect("told"), 1, "it is asked back");
    put(&pool, 9);
    memory.store(at, &vec![1; len as usize], Scheme::Nt);
    memory.fence();
    let back = pool.with_extension("back");
    ok(&["tag", "get", pool.to_str().expect("text"), "t", back.to_str().expect("text")]);
    assert!(std::fs::read(back).expect("read") == vec![9; CONTENT], "late stores of the client reach nobody");
    let request = json!({ "do": "grant-release", "id": grant["id"] });
    client.call(ServiceRequest::new("tag", &request), &mut |_| true).expect("given back");
    ok(&["tag", "remove", pool.to_str().expect("text"), "t"]);
    assert_eq!(free_bytes(&pool), empty);
    assert_sound(&pool);
}

/// A client that outlives the owner still stores to its pages, whatever data a new pool has put there.
#[test]
fn a_pool_is_not_made_anew_under_clients_of_its_killed_owner() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "64M", "--disk", "d=4M"]);
    put(&pool, 7);
    let (name, image) = (pool.to_str().expect("text"), pool.with_extension("image"));
    let image = image.to_str().expect("text");
    ok(&["pool", "backup", name, image]);
    let _grant = granted(&mut OwnerClient::connect(&pool).expect("connected"), true);
    server.kill();
    let mine = std::process::id().to_string();
    for words in [
        &["pool", "create", name, "--lose", "64M", "--size", "32M"][..],
        &["pool", "restore", image, name, "--lose", "64M", "--size", "128M"],
    ] {
        let said = refused(ferrite().args(words), 1);
        assert!(said.contains("end them first") && said.contains(&mine), "{said}");
    }
    let back = pool.with_extension("back");
    ok(&["tag", "get", name, "t", back.to_str().expect("text")]);
    assert!(std::fs::read(back).expect("read") == vec![7; CONTENT], "nothing has changed");
    assert_sound(&pool);
}

#[test]
fn disks_are_not_granted_and_foreign_grants_are_not_given_back() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let _server = Server::start(&pool, &["--no-attach", "--size", "64M", "--disk", "d=4M"]);
    let mut client = OwnerClient::connect(&pool).expect("connected");
    let ask = |client: &mut OwnerClient, request: Value| {
        client.call(ServiceRequest::new("tag", &request), &mut |_| true).map(drop)
    };
    let said = ask(&mut client, json!({ "do": "grant", "name": "d", "write": false })).expect_err("refused");
    assert!(said.to_string().contains("plain bytes"), "{said}");
    let said = ask(&mut client, json!({ "do": "grant-release", "id": 5 })).expect_err("refused");
    assert!(said.to_string().contains("no grant"), "{said}");
    let said = ask(&mut client, json!({ "do": "nonsense" })).expect_err("refused");
    assert!(said.to_string().contains("no such request"), "{said}");
    assert!(refused(ferrite().args(["tag", "remove"]).arg(&pool).arg("d"), 1).contains("disk remove"));
}
