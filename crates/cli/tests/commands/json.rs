//! JSON for scripts: every key that a command prints is one that testdata/freeze/json.txt promises.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Workshop;

/// Collects the keys in `value` that have a value, in the notation of docs/json.md.
fn collect_keys(at: &str, value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            let separator = if at.is_empty() { "" } else { "." };
            collect_keys(&format!("{at}{separator}{name}"), field, keys);
        }),
        Value::Array(items) => items.iter().for_each(|item| collect_keys(&format!("{at}[]"), item, keys)),
        Value::Null => {}
        _ => _ = keys.insert(at.into()),
    }
}

#[test]
fn each_report_has_the_keys_that_are_promised() {
    let promised = include_str!("../../../../testdata/freeze/json.txt");
    let workshop = Workshop::with_pool();
    std::fs::write(workshop.0.path().join("bytes"), "bytes").expect("written");
    let rows = [
        ("Pool", "pool create new --size 32M"),
        ("Pool", "pool info pool"),
        ("Check", "pool check pool"),
        ("Image", "pool backup pool saved"),
        ("Image", "pool restore saved restored"),
        ("Growth", "pool grow restored --size 40M"),
        ("Defragmentation", "pool defrag pool"),
        ("Tag", "tag put pool t bytes"),
        ("Tag", "tag list pool"),
        ("Disk", "disk create pool e --size 1M --thin"),
        ("Disk", "disk list pool"),
        ("Disk", "disk stat pool d"),
        ("Disk", "disk resize pool d --size 2M"),
        ("Copy", "disk copy image pool:d"),
        ("File system", "fs create pool f"),
        ("File system", "fs list pool"),
        ("Check", "fs check pool"),
        ("Logs of databases", "wal stat pool"),
        ("Logs given back", "wal drain pool"),
        ("Status", "status"),
    ];
    for (section, line) in rows {
        let report: Value = serde_json::from_str(&workshop.ok(&format!("{line} --json"))).expect(line);
        let mut keys = BTreeSet::new();
        // A list has the keys of its items.
        let items = report.as_array().map_or(std::slice::from_ref(&report), Vec::as_slice);
        items.iter().for_each(|item| collect_keys("", item, &mut keys));
        let is_promised = |key: &String| {
            promised.lines().any(|line| {
                line.strip_prefix(section)
                    .and_then(|rest| rest.strip_prefix(": "))
                    .is_some_and(|promise| promise.trim_end_matches('?') == key)
            })
        };
        let unknown: Vec<_> = keys.iter().filter(|key| !is_promised(key)).collect();
        assert!(unknown.is_empty(), "{line}: testdata/freeze/json.txt, {section:?}, lacks {unknown:?}");
    }
}
