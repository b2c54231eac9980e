//! docs/json.md checked against the printed JSON, because scripts rely on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::databases::sqlite::commit_and_be_killed;
use crate::direct::counted;
use crate::programs::{client, ferrite};
use crate::server::{Server, can_attach, folder, json, ok, run};

/// A section of docs/json.md.
#[derive(Default)]
struct Section {
    /// Keys that are present whenever their parent is.
    keys: BTreeSet<String>,
    /// Keys that some outputs omit.
    optional: BTreeSet<String>,
    seen: BTreeSet<String>,
}

/// Keys that only a pool that cannot be defragmented prints, or a pool whose server was killed.
const RARE: [&str; 10] = [
    "machine[].advice",
    "files[].path",
    "files[].bytes",
    "left[].tag",
    "left[].why",
    "left[].mounted_on",
    "left[].pool",
    "damaged[].ino",
    "damaged[].path",
    "damaged[].page",
];

/// The sections of docs/json.md, and their keys that the test has seen.
struct Page(BTreeMap<String, Section>);

impl Page {
    fn read() -> Self {
        let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).expect("the page");
        let mut sections = BTreeMap::<String, Section>::new();
        let mut title = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                title = name.into();
            } else if let Some(key) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) {
                let section = sections.entry(title.clone()).or_default();
                match key.strip_suffix('?') {
                    Some(key) => section.optional.insert(key.into()),
                    None => section.keys.insert(key.into()),
                };
            }
        }
        Self(sections)
    }

    /// Checks `printed`, an object of section `title` or an array of them, against that section.
    fn tells(&mut self, title: &str, printed: &Value) {
        let Section { keys, optional, seen } =
            self.0.get_mut(title).unwrap_or_else(|| panic!("docs/json.md has no section {title:?}"));
        for one in printed.as_array().map_or(std::slice::from_ref(printed), Vec::as_slice) {
            let (mut there, mut empty) = (BTreeSet::new(), BTreeSet::new());
            flatten("", one, &mut there, &mut empty);
            let strange: Vec<_> = there.iter().filter(|key| !keys.contains(*key) && !optional.contains(*key)).collect();
            assert!(strange.is_empty(), "docs/json.md, {title:?}, lacks {strange:?} of {one}");
            let is_in_empty = |key: &str| empty.iter().any(|at| key.strip_prefix(at).is_some_and(starts_part));
            let missing: Vec<_> = keys.iter().filter(|key| !there.contains(*key) && !is_in_empty(key)).collect();
            assert!(missing.is_empty(), "docs/json.md, {title:?}, promises {missing:?}, which {one} lacks");
            let strange: Vec<_> = empty
                .iter()
                .filter(|at| !keys.iter().any(|key| key.strip_prefix(*at).is_some_and(starts_part)))
                .collect();
            assert!(strange.is_empty(), "docs/json.md, {title:?}, lacks {strange:?} of {one}");
            seen.append(&mut there);
            seen.append(&mut empty);
        }
    }

    /// Asserts that some output had every documented key, except the rare ones.
    fn is_whole(&self) {
        for (title, section) in &self.0 {
            let unseen: Vec<_> =
                section.keys.difference(&section.seen).filter(|key| !RARE.contains(&key.as_str())).collect();
            assert!(unseen.is_empty(), "nothing that was printed has {unseen:?} of {title:?} in docs/json.md");
        }
    }
}

/// Returns true if the text after a key is empty or names a part of the key.
fn starts_part(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '['])
}

/// Collects the keys in `value`: into `there` the keys that have a value, into `empty` the keys without a value
/// (`null`, an empty array).
fn flatten(at: &str, value: &Value, there: &mut BTreeSet<String>, empty: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                flatten(&at, field, there, empty);
            }
        }
        Value::Array(items) if items.is_empty() => _ = empty.insert(format!("{at}[]")),
        Value::Array(items) => items.iter().for_each(|item| flatten(&format!("{at}[]"), item, there, empty)),
        Value::Null => _ = empty.insert(at.into()),
        _ => _ = there.insert(at.into()),
    }
}

#[test]
fn the_page_tells_what_is_printed_no_more_and_no_less() {
    let mut page = Page::read();
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    of_a_pool_at_rest(&mut page, &at);
    of_a_pool_that_is_served(&mut page, &at);
    of_caches(&mut page, &at);
    of_guests(&mut page, &at);
    of_logs(&mut page, &at);
    of_simulators(&mut page, &at);
    page.tells("Doctor", &json(&["doctor", &at(""), "--time", "1ms"]));
    let words = ["bench", "pace", "--quick", "--only", "asked", "--output", "out", "--json"];
    page.tells("Experiment", &parsed(&run(ferrite().args(words).current_dir(folder.path()))));
    page.is_whole();
}

fn of_a_pool_at_rest(page: &mut Page, at: &dyn Fn(&str) -> String) {
    let (pool, image, restored) = (&at("pool"), &at("image"), &at("restored"));
    page.tells("Pool", &json(&["pool", "create", pool, "--size", "64M"]));
    page.tells("Disk", &json(&["disk", "create", pool, "d", "--size", "4M"]));
    page.tells("Disk", &json(&["disk", "resize", pool, "d", "--size", "8M"]));
    page.tells("File system", &json(&["fs", "create", pool, "f"]));
    fs::File::create(at("ssd")).and_then(|file| file.set_len(8 << 20)).expect("made");
    page.tells("File system", &json(&["fs", "tier", "add", pool, "f", "--ssd", &at("ssd")]));
    page.tells("Tier", &json(&["fs", "tier", "stat", pool, "f"]));
    page.tells("SSD of a tier", &json(&["fs", "tier", "list", pool, "f"]));
    page.tells("Adopted SSDs", &json(&["fs", "tier", "adopt", pool, "f"]));
    fs::write(at("bytes"), "bytes").expect("written");
    page.tells("Tag", &json(&["tag", "put", pool, "b", &at("bytes")]));
    page.tells("Tag", &json(&["tag", "list", pool]));
    page.tells("Check", &json(&["pool", "check", pool]));
    page.tells("Check", &json(&["fs", "check", pool]));
    page.tells("Defragmentation", &json(&["pool", "defrag", pool]));
    page.tells("Growth", &json(&["pool", "grow", pool, "--size", "128M"]));
    page.tells("Image", &json(&["pool", "backup", pool, image]));
    page.tells("Image", &json(&["pool", "restore", image, restored]));
    // The write damages one of the two superblocks.
    let file = fs::OpenOptions::new().write(true).open(restored).expect("opened");
    file.write_all_at(&[0; 4096], 4096).expect("damaged");
    let checked = ferrite().args(["pool", "check", restored, "--repair", "--lose", "none", "--json"]).output();
    let checked = parsed(&String::from_utf8_lossy(&checked.expect("it runs").stdout));
    assert!(checked["unknown"] == serde_json::json!(["none"]) && !checked["findings"][0].is_null(), "{checked}");
    page.tells("Check", &checked);
    fs::write(at("disk"), [1; 4096]).expect("written");
    page.tells("Copy", &json(&["disk", "copy", &at("disk"), &at("copied")]));
}

fn of_a_pool_that_is_served(page: &mut Page, at: &dyn Fn(&str) -> String) {
    let (pool, mount) = (&at("served"), &at("mount"));
    let node: &[&str] = if can_attach() { &[] } else { &["--no-attach"] };
    let up = ["up", "--pool", pool, "--size", "128M", "--disk", "json=8M", "--mount", mount, "--wear", "line"];
    let how = ["--stages", "--guard", "buffered"];
    let begun = [&up[..], &how, node].concat();
    Server::start_as_program(&begun).kill();
    made_cache(pool, at);
    let server = Server::start_as_program(&begun);
    page.tells("Serving", &server.told());
    page.tells("Faulty disks", &json(&["disk", "fault", pool]));
    if node.is_empty() {
        page.tells("Node", &in_a_line(&["disk", "attach", pool, "json"]));
    }
    ok(&["disk", "create", pool, "other", "--size", "1M"]);
    let serve = |how: &[&str]| Server::start_as_program(&[&["disk", "serve", pool, "other"], how].concat()).told();
    let written_back = serve(&["--scheme", "writeback"]);
    page.tells("Serving", &written_back);
    // Of disks served like that, only flushed data survives. Of the pool itself, completed writes survive.
    let waits = |told: &Value| told["survives"]["when_flushed"].clone();
    assert_eq!((waits(&server.told()), waits(&written_back)), (true.into(), true.into()));
    assert_eq!((waits(&serve(&[])), waits(&json(&["pool", "info", pool]))), (false.into(), false.into()));
    ok(&["fs", "create", pool, "more"]);
    page.tells("File system", &in_a_line(&["fs", "mount", pool, "more", &at("more")]));
    fs::write(at("disk"), [1; 1 << 20]).expect("written");
    page.tells("Copy", &json(&["disk", "copy", &at("disk"), &format!("{pool}:json")]));
    page.tells("Pool", &json(&["pool", "info", pool]));
    page.tells("Disk", &json(&["disk", "stat", pool, "json"]));
    page.tells("Disk", &json(&["disk", "list", pool]));
    page.tells("File system", &json(&["fs", "stat", pool, "files"]));
    fs::File::create(at("ssd2")).and_then(|file| file.set_len(8 << 20)).expect("made");
    ok(&["fs", "create", pool, "tiered", "--ssd", &at("ssd2")]);
    in_a_line(&["fs", "mount", pool, "tiered", &at("tiered")]);
    page.tells("Scrub of a tier", &json(&["fs", "tier", "scrub", &at("tiered")]));
    page.tells("File system", &json(&["fs", "list", pool]));
    page.tells("Wear", &json(&["pool", "wear", pool]));
    page.tells("Calls", &counted(client("ls").arg(mount)).1);
    page.tells("Statistics", &json(&["stat", pool]));
    page.tells("Status", &json(&["status"]));
    server.interrupt();
    let mut detached = ferrite();
    detached.args(["up", "--pool", pool, "--no-mount", "--no-attach", "--keep", &at("kept"), "--detach", "--json"]);
    detached.env("XDG_STATE_HOME", at("state"));
    // The second server reports the save of the first one.
    for _ in 0..2 {
        page.tells("Serving", &parsed(&run(&mut detached)));
        page.tells("Pool", &json(&["pool", "info", pool]));
        page.tells("Status", &json(&["status"]));
        ok(&["down", pool]);
    }
}

/// Makes a small cache called `c` in `pool`, and returns its announcement.
fn made_cache(pool: &str, at: &dyn Fn(&str) -> String) -> Value {
    for name in ["cached", "extra", "s0", "s1", "s2"] {
        fs::File::create(at(name)).and_then(|file| file.set_len(8 << 20)).expect("made");
    }
    let members = [
        "--disk",
        &at("cached"),
        "--ssd",
        &format!("fault:none:{}", at("s0")),
        "--ssd",
        &at("s1"),
        "--mode",
        "write-back",
    ];
    json(&[&["cache", "create", pool, "c", "--leb", "64K", "--buffer", "1M"], &members[..]].concat())
}

fn of_caches(page: &mut Page, at: &dyn Fn(&str) -> String) {
    let (pool, blocks) = (&at("caches"), at("blocks"));
    ok(&["pool", "create", pool, "--size", "64M"]);
    page.tells("Cache", &made_cache(pool, at));
    fs::write(&blocks, vec![1; 7 << 20]).expect("written");
    ok(&["disk", "copy", &blocks, &format!("{pool}:c")]);
    page.tells("Cache", &json(&["cache", "list", pool]));
    page.tells("Cache in use", &json(&["cache", "stat", pool, "c"]));
    page.tells("Cache", &json(&["cache", "set", pool, "c", "--dirty-age", "1s", "--destage-rate", "9"]));
    page.tells("Cache in use", &json(&["cache", "stat", pool, "c"]));
    page.tells("Cache", &json(&["cache", "clean", pool, "c"]));
    page.tells("Checked cache", &json(&["cache", "check", pool, "c"]));
    page.tells("Dropped content", &json(&["cache", "drop", pool, "c"]));
    page.tells("SSD of a cache", &json(&["cache", "add-ssd", pool, "c", &at("s2")]));
    page.tells("Cache", &json(&["cache", "remove-ssd", pool, "c", "0"]));
    page.tells("Disk of a cache", &json(&["cache", "add-disk", pool, "c", &format!("more={}", at("extra"))]));
    ok(&["cache", "clean", pool, "c"]);
    page.tells("Cache", &json(&["cache", "forget", pool, "c", "--clean"]));
    ok(&["cache", "remove-disk", pool, "c", "more"]);
    ok(&["cache", "remove", pool, "c"]);
}

fn of_guests(page: &mut Page, at: &dyn Fn(&str) -> String) {
    let (pool, image) = (&at("guests"), &at("guest.img"));
    ok(&["pool", "create", pool, "--size", "32M"]);
    page.tells("Guest", &json(&["guest", "create", pool, "g", "--size", "8M", "--pm", "4M", "--disk", image]));
    page.tells("Guest", &json(&["guest", "list", pool]));
    page.tells("Guest", &json(&["guest", "stat", pool, "g"]));
    page.tells("Guest", &json(&["guest", "flush", pool, "g"]));
    page.tells("Guest", &json(&["guest", "set", pool, "g", "--pm", "2M..8M", "--weight", "50"]));
    page.tells("Guest budget", &json(&["guest", "budget", pool]));
    if can_attach() {
        let attached = Server::of(ferrite().args(["guest", "attach", pool, "g", "--json"]), pool.as_ref(), "\"path\"");
        page.tells("Guest file", &attached.told());
        attached.interrupt();
    }
    page.tells("Guest", &json(&["guest", "detach", pool, "g"]));
    page.tells("Guest", &json(&["guest", "resize", pool, "g", "--size", "12M"]));
    page.tells("Guest image", &json(&["guest", "export", pool, "g", &at("guest.raw")]));
    page.tells("Guest image", &json(&["guest", "import", pool, "g", &at("guest.raw")]));
    ok(&["guest", "remove", pool, "g"]);
}

fn of_logs(page: &mut Page, at: &dyn Fn(&str) -> String) {
    let (pool, database) = (&at("logs"), at("a.db"));
    ok(&["pool", "create", pool, "--size", "32M"]);
    commit_and_be_killed(pool.as_ref(), database.as_ref(), 100);
    page.tells("Logs of databases", &json(&["wal", "stat", pool]));
    page.tells("Logs given back", &json(&["wal", "drain", pool]));
}

fn of_simulators(page: &mut Page, at: &dyn Fn(&str) -> String) {
    let (blocks, lines) = (&at("blocks"), &at("lines"));
    fs::write(blocks, "W 0 4\nW 4 1\nR 0 8\nW 4 1\n").expect("written");
    let drive = ["sim", "ftl", "--trace", blocks, "--blocks", "8+4", "--block", "16K"];
    page.tells("Flash translation", &json(&drive));
    page.tells("Flash translation", &json(&[&drive[..], &["--scheme", "page", "--scheme", "fast"]].concat())["runs"]);
    fs::write(lines, (0..64).map(|n| format!("1 {:x}\n", n % 40 * 64)).collect::<String>()).expect("written");
    page.tells("Last-level cache", &json(&["sim", "llc", "--trace", lines]));
}

/// Runs a command that starts to serve, and returns its one line of JSON.
fn in_a_line(words: &[&str]) -> Value {
    let text = run(ferrite().args(words).arg("--json"));
    assert_eq!(text.lines().count(), 1, "{text}");
    parsed(&text)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}
