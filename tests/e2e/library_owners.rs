//! A process that owns a pool by a library, for example Python or SQLite. Commands work beside it if the process links
//! the services that they need.

use std::fs;
use std::path::Path;

use ferrite_object::{Logging, OpenStore, Store};
use serde_json::Value;

use crate::databases::sqlite::shell;
use crate::programs::{ferrite, ferrite_path};
use crate::server::{folder, json, ok, refused};

/// Asserts that a service is refused because process `pid` does not link it, in one line that names the command to
/// start.
fn assert_not_served(said: &str, service: &str, pid: &str) {
    let has_all = [format!("{service:?}"), format!("process {pid}"), "`ferrite up`".into()];
    assert!(has_all.iter().all(|word| said.contains(word)), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}

/// The owner links objects and the built-in services, like the bindings for C and Python.
#[test]
fn commands_work_beside_a_process_that_owns_a_pool_for_its_objects() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let name = pool.to_str().expect("text");
    ok(&["pool", "create", name, "--size", "32M"]);
    let store = Store::open(&pool, &OpenStore::default()).expect("it opens");
    let map = store.map("map", Logging::default()).expect("made");
    map.put(b"key", b"value").expect("put");
    let pid = std::process::id().to_string();
    let info = json(&["pool", "info", name]);
    assert_eq!((info["owner_pid"].to_string(), info["tags"].as_u64()), (pid.clone(), Some(1)), "{info}");
    let tags = json(&["tag", "list", name]);
    assert_eq!((tags[0]["name"].as_str(), tags[0]["kind"].as_str()), (Some("map"), Some("object")), "{tags}");
    fs::write(pool.with_extension("content"), "content").expect("written");
    ok(&["tag", "put", name, "bytes", pool.with_extension("content").to_str().expect("text")]);
    assert_eq!(ok(&["tag", "get", name, "bytes"]), "content");
    ok(&["tag", "remove", name, "bytes"]);
    assert!(ok(&["pool", "check", name]).contains("sound"));
    assert!(ok(&["pool", "info", name]).contains(&format!("served by process {pid}")));
    let status = json(&["status"]);
    let is_it = |served: &&Value| served["owner_pid"] == pid.parse::<u64>().expect("a number");
    let served = status["pools"].as_array().expect("a list").iter().find(is_it).cloned();
    assert!(served.is_some_and(|served| served["total_bytes"].is_u64()), "{status}");
    for (words, service) in [(["disk", "list"], "disk"), (["fs", "list"], "fs"), (["wal", "stat"], "database")] {
        assert_not_served(&refused(ferrite().args(words).arg(name), 1), service, &pid);
    }
    assert_eq!(map.get(b"key"), Some(b"value".to_vec()));
}

/// A program with objects also works beside an SQLite shell that owns the pool.
#[test]
fn commands_work_beside_a_sqlite_process_that_owns_the_pool() {
    let folder = folder(true);
    let (pool, database) = (folder.path().join("pool"), folder.path().join("a.db"));
    let name = pool.to_str().expect("text");
    ok(&["pool", "create", name, "--size", "32M"]);
    let describe = |what: &str| folder.path().join(what);
    let system = |words: &str, what: &str| {
        let (ferrite, describe) = (ferrite_path(), describe(what));
        format!(".system {} {words} {name} > {} 2>&1\n", ferrite.display(), describe.display())
    };
    let work = [
        "pragma journal_mode=wal;\ncreate table t(n); insert into t values (1), (2);\n".to_owned(),
        system("pool info --json", "info"),
        system("tag list --json", "tags"),
        system("wal stat --json", "stat"),
        system("pool check", "check"),
        system("disk list", "disks"),
        "select count(*) from t;\n".to_owned(),
    ];
    let output = shell(&pool, &database, &work.concat());
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).trim_end().ends_with('2'), "{output:?}");
    let read = |what: &str| fs::read_to_string(describe(what)).expect("the command ran");
    let parsed = |what: &str| serde_json::from_str::<Value>(&read(what)).unwrap_or_else(|_| panic!("{}", read(what)));
    let info = parsed("info");
    let pid = info["owner_pid"].to_string();
    assert!(info["owner_pid"].is_u64() && info["tags"] == 1, "{info}");
    assert_eq!(parsed("tags")[0]["kind"], "database");
    assert_eq!(parsed("stat")[0]["path"].as_str().map(Path::new), Some(&*database));
    assert!(read("check").contains("sound"), "{}", read("check"));
    assert_not_served(&read("disks"), "disk", &pid);
}
