//! The example service in an owner: what docs/add-a-service.md promises.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ferrite_counters::{COUNTER_KIND, COUNTERS, CounterReport, CounterRequest, CounterService, read_sum};
use ferrite_memory::{Guard, MapOptions, Mapped, Scheme};
use ferrite_owner::services::{BackupOutside, PoolRequest, TagRequest};
use ferrite_owner::{Metric, PoolAccess, Service, ServiceRegistry, ServiceRequest, TypedRequest, machine};
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{FailureKind, Format, Pool, Role, Stream};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A new pool in a file.
fn pool() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("file");
    file.set_len(POOL_BYTES_MIN + CHUNK).expect("sized");
    let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).expect("map");
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: machine::boot_id().expect("read") }).expect("a pool");
    (folder, path)
}

fn open(path: &Path) -> PoolAccess {
    PoolAccess::open(path, &Arc::new(ServiceRegistry::default().with(CounterService)), Some(Guard::None))
        .expect("it opens")
}

fn ask<T: DeserializeOwned>(access: &mut PoolAccess, request: &impl TypedRequest) -> T {
    let reply = access.call(ServiceRequest::of(request), &mut |_| true).expect("answered");
    serde_json::from_value(reply.value).expect("understood")
}

fn add(access: &mut PoolAccess, counter: &str, by: u64) -> u64 {
    let request = CounterRequest::Add { tag: "t".into(), counter: counter.into(), by };
    ask::<Vec<CounterReport>>(access, &request)[0].count
}

fn counts(access: &mut PoolAccess) -> Vec<(String, u64)> {
    let all: Vec<CounterReport> = ask(access, &CounterRequest::List);
    all.into_iter().map(|it| (it.counter, it.count)).collect()
}

#[test]
fn counters_are_the_same_through_the_owner_and_after_it() {
    let (_folder, path) = pool();
    let (mut owner, mut client) = (open(&path), open(&path));
    assert_eq!([add(&mut owner, "a", 1), add(&mut client, "a", 2), add(&mut client, "b", 5)], [1, 3, 5]);
    let expected = [("a".to_string(), 3), ("b".into(), 5)];
    assert_eq!(counts(&mut owner), expected);
    assert_eq!(ask::<Value>(&mut client, &TagRequest::Stat { name: "t".into() }), json!({ "a": 3, "b": 5 }));
    let metrics: Vec<Metric> = ask(&mut client, &PoolRequest::Metrics);
    let sum = metrics.iter().find(|metric| metric.name == "counters_sum").expect("it counts");
    assert_eq!(sum.samples[0].value, 8.into());
    drop((client, owner));
    assert_eq!(counts(&mut open(&path)), expected, "without a close in order");
}

#[test]
fn refusals_have_kinds() {
    let (_folder, path) = pool();
    let mut owner = open(&path);
    add(&mut owner, "a", u64::MAX >> 12);
    let cases = [("", 1, FailureKind::BadName), ("a", 1, FailureKind::Limit)];
    for (counter, by, kind) in cases {
        let request = CounterRequest::Add { tag: "t".into(), counter: counter.into(), by };
        let error = owner.call(ServiceRequest::of(&request), &mut |_| true).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_tag_of_counters_is_a_disk_that_is_found_by_name() {
    let (_folder, path) = pool();
    let mut owner = open(&path);
    add(&mut owner, "visible", 1);
    let owned = owner.owner().expect("owned");
    assert_eq!(owned.running().disk_names(), ["t"]);
    let disk = owned.running().open_disk(owned.pool(), "t").expect("a disk").expect("it opens");
    let mut sector = [0; 512];
    disk.read(0, &mut sector).expect("read");
    assert_eq!(&sector[16..23], b"visible");
    assert!(disk.geometry().read_only && disk.write(0, &sector, Default::default()).is_err());
}

#[test]
fn counters_stand_still_for_a_backup() {
    let (folder, path) = pool();
    let mut owner = open(&path);
    add(&mut owner, "a", 1);
    let pool = Arc::clone(owner.owner().expect("owned").pool());
    let frozen = pool.freeze();
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || add(&mut open(&path), "a", 1)
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!waiting.is_finished(), "it waits");
    assert_eq!(counts(&mut owner), [("a".into(), 1)]);
    drop(frozen);
    assert_eq!(waiting.join().expect("it goes on"), 2);
    let to = folder.path().join("image");
    let _: Value = ask(
        &mut owner,
        &PoolRequest::Backup { to: to.clone(), now: false, image: None, outside: BackupOutside::Refuse },
    );
    assert!(to.is_file());
}

#[test]
fn the_background_step_keeps_a_member_in_step() {
    let (folder, path) = pool();
    let mut owner = open(&path);
    let to = folder.path().join("sum");
    let _: Value = ask(&mut owner, &CounterRequest::Export { to: to.clone() });
    for (by, sum) in [(3, 3), (4, 7)] {
        add(&mut owner, "a", by);
        while read_sum(&to).ok() != Some(sum) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let owned = owner.owner().expect("owned");
    let held: Vec<_> = owned.running().iter().flat_map(|service| service.members()).collect();
    assert_eq!((held.len(), held[0].label.as_str()), (1, "sum"));
    assert!(held[0].generation.count() > 1, "each writing moves the tie on");
}

#[test]
fn a_check_finds_a_damaged_counter() {
    let (_folder, path) = pool();
    let mut owner = open(&path);
    add(&mut owner, "a", 1);
    let findings = |owner: &mut PoolAccess| ask::<Value>(owner, &PoolRequest::Check)["findings"].clone();
    assert_eq!(findings(&mut owner), json!([]));
    let pool = owner.owner().expect("owned").pool();
    let tag = pool.tag("t").expect("made");
    assert_eq!(tag.kind, COUNTER_KIND);
    let at = Stream::new(&tag.extents, Role::DATA).locate(0).expect("a page").at;
    pool.memory().store(at, &[0xFF], Scheme::Nt);
    let found = findings(&mut owner);
    assert!(found[0]["what"].as_str().is_some_and(|what| what.contains("the count in slot 0")), "{found}");
}

#[test]
fn its_subcommands_are_data() {
    let names: Vec<&str> = CounterService.commands().iter().map(|command| command.name).collect();
    assert_eq!((CounterService.name(), names), (COUNTERS, vec!["list", "add"]));
}
