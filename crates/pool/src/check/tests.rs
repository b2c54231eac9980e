//! What the tests of check and repair share, and the plain ones.

mod crash;
mod planted;
mod refused;

use std::collections::BTreeMap;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Scheme;

use super::*;
use crate::layout::{POOL_BYTES_MIN, bitmap_at, is_meta, kind_at};
use crate::tests::support::BOOT;
use crate::{Format, NewTag, PutOptions, Role, SpaceNeed, Tag, TagKind, Zone};

fn quiet(_: Progress) {}

fn open(memory: &Arc<LyingMemory>) -> Pool {
    Pool::open(memory.clone(), BOOT).unwrap().0
}

fn put(pool: &Pool, name: &str, bytes: &[u8]) {
    pool.put(name, &mut &*bytes, &PutOptions { lose: pool.tag(name).ok().map(|tag| tag.size), size_hint_bytes: None })
        .unwrap();
}

/// Every value by name; one that is damaged is `None`.
fn values(pool: &Pool) -> BTreeMap<String, Option<Vec<u8>>> {
    let value = |tag: &Arc<Tag>| {
        let mut out = Vec::new();
        pool.get(&tag.name, &mut out).ok().map(|_| out)
    };
    pool.tags().iter().map(|tag| (tag.name.clone(), value(tag))).collect()
}

/// A closed pool with a page of space here and there: nine values, so that the tag table has two pages; one with a
/// superpage, and one with many extents.
fn pool() -> Arc<LyingMemory> {
    let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN * 2, Model::MAPPED));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let pool = open(&memory);
    for index in 0..30 {
        put(&pool, &format!("gap {index}"), &[index; 4096]);
    }
    for index in (1..30).step_by(2) {
        pool.remove_tag(&pool.tag(&format!("gap {index}")).unwrap()).unwrap();
    }
    put(&pool, "scattered", &vec![7; 15 * 4096]);
    for index in (2..30).step_by(2) {
        pool.remove_tag(&pool.tag(&format!("gap {index}")).unwrap()).unwrap();
    }
    put(&pool, "super", &vec![8; (2 << 20) + 5000]);
    (0..6).for_each(|index| put(&pool, &format!("value {index}"), &[index; 6000]));
    assert!(pool.tag("scattered").unwrap().extents.len() > crate::tag::INLINE, "it has a page of extents");
    pool.close().unwrap();
    memory
}

fn checked(memory: &Arc<LyingMemory>) -> PoolCheckReport {
    let before = memory.snapshot();
    let report = check(&(memory.clone() as Arc<dyn Memory>), &TagOwners::default(), &mut quiet);
    assert!(memory.snapshot() == before, "K1: a check writes nothing");
    report
}

fn repaired(memory: &Arc<LyingMemory>) -> PoolCheckReport {
    repaired_losing(memory, &[])
}

fn repaired_losing(memory: &Arc<LyingMemory>, lose: &[String]) -> PoolCheckReport {
    repair(&(memory.clone() as Arc<dyn Memory>), &TagOwners::default(), lose, &mut quiet).unwrap()
}

fn text(report: &PoolCheckReport) -> String {
    let lines = report.findings.iter().map(|finding| {
        let tag = finding.tag.as_deref().unwrap_or("-");
        let done = finding.repaired.as_deref().unwrap_or("-");
        format!("{:?} [{tag}] {}: {done}\n", finding.severity, finding.what)
    });
    lines.collect()
}

#[test]
fn a_sound_pool_has_no_findings() {
    let memory = pool();
    let report = checked(&memory);
    assert_eq!(report.findings, [], "{}", text(&report));
    let tags = values(&open(&Arc::new(memory.kill())));
    assert!(report.opened && report.is_sound() && report.tags == tags.len() as u64);
    assert_eq!(report.usage, open(&Arc::new(memory.kill())).usage());
    assert_eq!(repaired(&memory).findings, []);
    assert_eq!(values(&open(&memory)), tags, "K4");
}

/// K1: what a crash left in the lanes is looked at as it will be, and stays where it is.
#[test]
fn k1_a_pool_that_crashed_is_sound_and_untouched() {
    let memory = pool();
    let before = open(&memory);
    put(&before, "late", &[9; 9000]);
    drop(before);
    let killed = Arc::new(memory.kill());
    let report = checked(&killed);
    assert!(report.is_sound(), "{}", text(&report));
    assert!(report.findings[0].what.contains("not closed in order"), "{}", text(&report));
}

/// A pool at work is checked as of one moment.
#[test]
fn a_pool_at_work_is_sound() {
    let memory = pool();
    let pool = open(&memory);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in (0..200u8).cycle().take_while(|_| !done.load(std::sync::atomic::Ordering::SeqCst)) {
                put(&pool, "busy", &vec![round; 5000 + 100 * usize::from(round)]);
            }
        });
        for _ in 0..8 {
            let report = check_open(&pool, &TagOwners::default(), &mut quiet);
            assert_eq!(report.findings, [], "{}", text(&report));
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    let slot = pool.tag("super").unwrap().extents[0].span().at;
    memory.store(slot + 100, &[1], Scheme::Nt);
    assert!(!check_open(&pool, &TagOwners::default(), &mut quiet).is_sound(), "rot since it was opened is found");
}

/// Finds one thing and mends it once.
struct Owner(std::sync::atomic::AtomicBool);

impl TagOwner for Owner {
    fn kind(&self) -> TagKind {
        TagKind(77)
    }

    fn walk(&self, _: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        if !self.0.load(std::sync::atomic::Ordering::SeqCst) {
            findings.error("planted", Some(tag.size));
        }
    }

    fn repair(&self, _: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> Result<()> {
        if !self.0.swap(true, std::sync::atomic::Ordering::SeqCst) {
            findings.repaired("planted", Some(tag.size), "mended");
        }
        Ok(())
    }
}

/// The owner of a tag's kind is asked, and its findings bear the tag's name.
#[test]
fn owners_walk_and_repair_their_tags() {
    let memory = pool();
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: 1 }];
    let new = NewTag { name: "theirs", kind: TagKind(77), size: 5, attributes: [0; 64], needs: &needs };
    let pool = open(&memory);
    pool.create_tag(&new, |_| Ok(())).unwrap();
    pool.close().unwrap();
    let unknown = checked(&memory);
    assert!(unknown.is_sound() && text(&unknown).contains("kind 77"), "{}", text(&unknown));

    let mut owners = TagOwners::default();
    owners.register(Box::new(Owner(false.into())));
    let memory: Arc<dyn Memory> = memory;
    let found = check(&memory, &owners, &mut quiet);
    assert_eq!((found.findings[0].tag.as_deref(), found.findings[0].at), (Some("theirs"), Some(5)));
    assert!(!found.is_sound());
    let mended = repair(&memory, &owners, &[], &mut quiet).unwrap();
    assert!(mended.is_sound() && mended.findings[0].repaired.as_deref() == Some("mended"));
    assert_eq!(repair(&memory, &owners, &[], &mut quiet).unwrap().findings, []);
}

#[test]
fn a_report_survives_json() {
    let memory = pool();
    memory.store(kind_at(3), &[0x80], Scheme::Nt);
    let report = checked(&memory);
    let json = serde_json::to_string(&report).unwrap();
    assert!(json.contains("\"severity\":\"error\""), "{json}");
    assert_eq!(serde_json::from_str::<PoolCheckReport>(&json).unwrap(), report);
}
