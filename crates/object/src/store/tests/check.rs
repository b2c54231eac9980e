//! LG4, AL2: a check reports for each object what opening it reports, and nothing about a sound one.

use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::Span;
use ferrite_pool::check::{PoolCheckReport, Severity, check_open};
use ferrite_pool::{Role, Stream};

use super::*;

const RECORDS: usize = 12;

/// Objects of each form, by name.
const NAMES: [&str; 4] = ["bundle", "log", "map", "queue"];

fn entry(number: usize) -> Vec<u8> {
    format!("entry {number:02}, which can be found").into_bytes()
}

fn checked(store: &Store) -> PoolCheckReport {
    let pool = owned(store);
    let mut owners = TagOwners::default();
    owners.register(Box::new(ObjectService));
    check_open(pool, &owners, &mut |_| ())
}

/// Opens the object called `name`.
fn opened(store: &Store, name: &str, logging: Logging) -> Result<()> {
    match name {
        "bundle" => store.bundle(name, logging).map(drop),
        "log" => store.log(name, logging).map(drop),
        "map" => store.map(name, logging).map(drop),
        _ => store.queue(name, logging).map(drop),
    }
}

fn append(store: &Store, number: usize) {
    let entry = &entry(number)[..];
    store.map("map", SMALL).unwrap().put(entry, b"value").unwrap();
    store.queue("queue", SMALL).unwrap().push(QueueEnd::Back, entry).unwrap();
    store.log("log", SMALL).unwrap().append(entry).unwrap();
    let change = |_: &crate::BundleMembers, change: &mut crate::BundleChange| {
        change.map("in it").put(entry, b"value");
        Ok(())
    };
    store.bundle("bundle", SMALL).unwrap().change(change).unwrap();
}

/// Flips a byte of what was stored as entry `number` of the object called `name`.
fn flip(store: &Store, name: &str, number: usize) {
    let pool = owned(store);
    let tag = pool.tag(name).unwrap();
    let mark = entry(number);
    let data = Stream::new(&tag.extents, Role::DATA);
    for run in data.runs(Span::new(0, data.len())) {
        let mut bytes = vec![0; run.len as usize];
        pool.memory().load(run.at, &mut bytes);
        if let Some(at) = bytes.windows(mark.len()).position(|it| it == mark) {
            return pool.memory().store(run.at + at as u64, b"E", Scheme::Flush);
        }
    }
    panic!("no entry {number} of {name}");
}

#[test]
fn lg4_al2_a_check_tells_what_opening_refuses() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    for name in NAMES {
        for number in [0, 1, RECORDS / 2, RECORDS - 2, RECORDS - 1] {
            NAMES.iter().for_each(|name| _ = store.free(name));
            (0..RECORDS).for_each(|number| append(&store, number));
            assert!(checked(&store).findings.is_empty(), "{:?}", checked(&store));
            flip(&store, name, number);
            let report = checked(&store);
            match opened(&store, name, SMALL) {
                Err(Error::Damaged { what, at, .. }) => {
                    let found: Vec<_> = report.findings.iter().map(|it| (it.tag.as_deref(), it.at)).collect();
                    assert_eq!(found, [(Some(name), Some(at))], "{number}");
                    assert!(report.findings[0].what.starts_with(&what) && !report.is_sound(), "{report:?}");
                }
                // As if a crash had come before it was durable.
                other => assert!(other.is_ok() && number == RECORDS - 1 && report.is_sound(), "{other:?}, {report:?}"),
            }
            let salvage = Logging { salvage: true, ..SMALL };
            match name {
                "log" => _ = store.log(name, salvage).unwrap().append(b"goes on").unwrap(),
                _ => opened(&store, name, salvage).unwrap(),
            }
            append(&store, RECORDS);
            assert!(checked(&store).findings.is_empty(), "{:?}", checked(&store));
        }
    }
}

#[test]
fn al2_a_check_tells_a_damaged_word_of_a_log() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    append(&store, 0);
    let pool = owned(&store);
    let word = crate::object_word::place(&pool.tag("log").unwrap()).unwrap();
    pool.memory().store_word(word, 1);
    assert!(matches!(opened(&store, "log", SMALL), Err(Error::Damaged { at, .. }) if at == word));
    let found: Vec<_> = checked(&store).findings.iter().map(|it| (it.tag.clone(), it.at)).collect();
    assert_eq!(found, [(Some("log".into()), Some(word))]);
}

/// By the owner of the pool, which stands still, and by a tenant, which does not.
#[test]
fn lg4_al2_a_check_finds_nothing_wrong_with_what_is_just_being_appended_to() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    append(&store, 0);
    let tenant = Store::open(&place.path, &OPEN).unwrap();
    let value = tenant.direct("value", &0_u64, Scheme::Flush).unwrap();
    for user in [&store, &tenant] {
        let (log, map) = (user.log("log", SMALL).unwrap(), user.map("map", SMALL).unwrap());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0_u64.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    log.extend(&[b"one", b"two"]).unwrap();
                    log.cut(log.end().saturating_sub(number % 40)).unwrap();
                    map.put(&[number as u8], b"value").unwrap();
                    value.set(&number).unwrap();
                }
            });
            let findings: Vec<_> = (0..60).flat_map(|_| checked(&store).findings).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(findings.iter().all(|it| it.severity == Severity::Note), "{findings:?}");
            let lent = findings.iter().filter(|it| it.tag.as_deref() != Some("value")).count();
            assert_eq!(lent == 0, user.owner_pid().is_none(), "{findings:?}");
        });
    }
}

#[test]
fn al2_a_check_tells_damage_of_what_a_tenant_had_open_when_it_has_closed_it() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    (0..RECORDS).for_each(|number| append(&store, number));
    let tenant = Store::open(&place.path, &OPEN).unwrap();
    let log = tenant.log("log", SMALL).unwrap();
    flip(&store, "log", 5);
    let report = checked(&store);
    let message = format!("process {} has it open", std::process::id());
    assert!(report.is_sound() && report.findings[0].what.starts_with(&message), "{report:?}");
    drop((log, tenant));
    let report = checked(&store);
    assert!(!report.is_sound() && report.findings[0].what.starts_with("entry 5 is damaged"), "{report:?}");
}
