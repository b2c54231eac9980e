//! Pools of format versions 1 and 2, kept as they were written: what reads them today must read them for ever.

use std::path::{Path, PathBuf};

use ferrite_crash::{LyingMemory, Model};

use super::*;
use crate::layout::POOL_BYTES_MIN;
use crate::tests::support::{account, format, lines_of, of_lines, open};
use crate::tie::Generation;
use crate::{MemberKind, PoolMember, PutOptions, TagLog, VERSION};

fn path(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/pool-v{version}.lines"))
}

/// A little of everything; stopped without closing, so that there is something to replay.
fn make() -> Vec<u8> {
    let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED));
    Pool::create(&*memory, &format()).unwrap();
    let pool = open(&memory);
    for number in 0..8 {
        create(&pool, &format!("tag {number}"), &[need(Zone::Normal, PAGE)]).unwrap();
    }
    create(&pool, "wide", &[need(Zone::Normal, PAGE); 12]).unwrap();
    create(&pool, "Überseite", &[need(Zone::Super, CHUNK)]).unwrap();
    remove(&pool, "tag 3").unwrap();
    pool.close().unwrap();
    let pool = Arc::new(open(&memory));
    pool.put("value", &mut &b"the content of a value"[..], &PutOptions::default()).unwrap();
    let label = "golden disk".into();
    let (generation, previous) = (Generation::first(3), None);
    let member = PoolMember { uuid: [7; 16], kind: MemberKind::Disk, generation, previous, size: 1 << 30, label };
    pool.add_member(&member).unwrap();
    let log = TagLog::create(pool.clone(), "log", PAGE).unwrap();
    let at = log.append_many(&[b"first", b"second", b"third"]).unwrap();
    log.cut(at[1]).unwrap();
    change(&pool, "tag 1", &[need(Zone::Normal, PAGE)]).unwrap();
    // A transaction that frees space retires the lanes; this one stays to be replayed.
    create(&pool, "last", &[need(Zone::Normal, 2 * PAGE)]).unwrap();
    memory.snapshot()
}

/// `FERRITE_GOLDEN=write cargo test -p ferrite-pool golden` writes it again, which only a new format version may
/// require.
#[test]
fn pools_of_every_version_open_and_have_all_they_had() {
    if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
        let what = format!("A pool of format version {VERSION}");
        std::fs::write(path(VERSION), lines_of(&what, &make())).unwrap();
    }
    (1..=VERSION).for_each(opens);
}

fn opens(version: u32) {
    let path = path(version);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let memory = Arc::new(LyingMemory::from_image(&of_lines(&text, POOL_BYTES_MIN), Model::MAPPED));
    let (pool, recovery) = Pool::open(memory, [0; 16]).unwrap();
    assert!(!recovery.clean && !recovery.same_boot && recovery.replay.transactions > 0, "{recovery:?}");
    account(&pool).unwrap();
    assert_eq!(pool.superblock().version, version);
    let names: Vec<String> = pool.tags().iter().map(|tag| tag.name.clone()).collect();
    let expected =
        ["last", "log", "tag 0", "tag 1", "tag 2", "tag 4", "tag 5", "tag 6", "tag 7", "value", "wide", "Überseite"];
    assert_eq!(names, expected);
    let tag = |name: &str| pool.tag(name).unwrap();
    assert_eq!((tag("wide").extents.len(), tag("Überseite").extents[0].zone), (12, Zone::Super));
    assert_eq!((tag("tag 1").size, tag("tag 1").attributes, tag("tag 2").size), (78, [2; 64], 77));
    for name in ["tag 0", "tag 1", "wide", "Überseite"] {
        assert!(pages(&tag(name).extents).all(|at| pool.memory().load_word(at) == stamp(name)), "{name}");
    }
    let mut value = Vec::new();
    pool.get("value", &mut value).unwrap();
    assert_eq!(value, b"the content of a value");
    assert_eq!(pool.members().unwrap()[0].label, "golden disk");
    let log = TagLog::open(Arc::new(pool), "log").unwrap();
    let records: Vec<Vec<u8>> = log.records().map(|record| record.unwrap().1).collect();
    assert_eq!(records, [&b"second"[..], b"third"]);
}
