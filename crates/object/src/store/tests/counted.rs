//! The counts of objects, as the owner of the pool reports them.

use ferrite_owner::MetricSample;

use super::*;

/// Returns the value of metric `name` for operation `op` on the object called `object`.
fn counted(store: &Store, name: &str, object: &str, op: &str) -> Option<f64> {
    let metrics = store.own().expect("this process owns it").metrics();
    let metric = metrics.iter().find(|metric| metric.name == name).expect("a metric of objects");
    let is_ours = |sample: &&MetricSample| sample.labels["object"] == object && sample.labels["op"] == op;
    let value = &metric.samples.iter().find(is_ours)?.value;
    value.number().or_else(|| value.latency().map(|latency| latency.count() as f64))
}

/// Checks the counts of the objects that `user` changed, which `owner` reports.
fn assert_counted(owner: &Store, user: &Store) {
    let log = user.log("log", SMALL).unwrap();
    (0..5).for_each(|_| _ = log.append(b"twelve bytes").unwrap());
    log.extend(&[b"four", b"more"]).unwrap();
    log.cut(3).unwrap();
    assert!(log.append(&[0; 1 << 20]).is_err(), "more than a log holds");
    let count = |name: &str, op: &str| counted(owner, &format!("object_{name}"), "log", op);
    assert_eq!(count("requests_total", "append"), Some(7.0));
    assert_eq!(count("bytes_total", "append"), Some(68.0));
    assert_eq!(count("errors_total", "append"), Some(1.0));
    assert_eq!(count("request_seconds", "append"), Some(7.0));
    assert_eq!((count("requests_total", "cut"), count("requests_total", "change")), (Some(1.0), None));
    // The map gets more space, and so a client gets another grant: its counts go on.
    let map = user.map("map", SMALL).unwrap();
    (0..500u32).for_each(|number| map.put(&number.to_le_bytes(), &[7; 200]).unwrap());
    drop((map, log));
    assert_eq!(counted(owner, "object_requests_total", "map", "change"), Some(500.0));
    assert!(counted(owner, "object_requests_total", "map", "checkpoint") > Some(5.0));
    assert!(counted(owner, "object_bytes_total", "map", "checkpoint") > Some(100_000.0));
    assert_eq!(counted(owner, "object_errors_total", "map", "change"), Some(0.0));
    let (value, scheme) = (user.direct("value", &7u64, Scheme::Nt).unwrap(), Scheme::Nt);
    (0..20).for_each(|_| value.set(&8).unwrap());
    value.update(|value| *value += 1).unwrap();
    drop(value);
    // Opening a new value sets it.
    assert_eq!(counted(owner, "object_requests_total", "value", "change"), Some(22.0));
    assert_eq!(user.direct("value", &7u64, scheme).unwrap().get(), 9);
}

#[test]
fn the_owner_reports_the_changes_of_its_own_objects() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    assert_counted(&store, &store);
}

#[test]
fn the_owner_reports_the_changes_that_a_client_makes_without_it() {
    let place = place();
    let owner = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    let client = Store::open(&place.path, &OPEN).unwrap();
    assert!(client.own().is_none(), "the pool is lent");
    assert_counted(&owner, &client);
}
