//! A check finds what was planted, and nothing else.

use ferrite_disk::{Access, Disk};
use ferrite_memory::planted::plant;

use crate::tests::{CacheRig, LEB, RigShape, block_of};
use crate::{BLOCK, CacheCheckOptions, CacheCheckReport};

const ALL: CacheCheckOptions = CacheCheckOptions { read: true, against_disk: true };

fn check(rig: &CacheRig) -> CacheCheckReport {
    let mut last = None;
    let mut note = |done, all| {
        last = Some((done, all));
        true
    };
    let report = rig.cache.check(&ALL, &mut note).unwrap().expect("it was not ended");
    let (done, all) = last.expect("progress is reported");
    assert_eq!(done, all);
    report
}

fn filled(rig: &CacheRig) {
    (0..6).for_each(|block| rig.write(block, 10 + block));
    rig.settle();
    rig.clean();
    (2..7).for_each(|block| rig.write(block, 30 + block));
    rig.settle();
}

#[test]
fn sound_cache_has_no_findings() {
    let shape = RigShape::default();
    let world = shape.world();
    for _ in 0..2 {
        let rig = shape.open(&world).unwrap();
        filled(&rig);
        let report = check(&rig);
        assert!(report.is_sound(), "{report:?}");
        assert!(
            report.tables > 0 && report.slots > 0 && report.pages_read > 0 && report.blocks_compared > 0,
            "{report:?}"
        );
    }
    let rig = shape.open_without(&world, &["ssd1"]).unwrap();
    let report = check(&rig);
    assert!(report.is_sound() && report.copies_away > 0, "{report:?}");
}

#[test]
fn changed_bytes_of_an_ssd_are_found() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    let core = &rig.cache.core;
    let is_dirty = |table: &u32| core.memory.table_state(*table).dirty.load(std::sync::atomic::Ordering::Relaxed) > 0;
    let table = (0..core.memory.tables()).find(is_dirty).expect("one is dirty");
    let content = core.memory.load_table(table).unwrap().unwrap();
    let index = content.pages.iter().position(|page| page.word.live).unwrap();
    let place = content.places[1].expect("it has two copies");
    let at = core.memory.layout().page_in_ssd(place.leb, index as u32);
    world.disk(usize::from(place.ssd)).write(at, &block_of(99), Access::Cached).unwrap();
    let report = check(&rig);
    assert_eq!(report.found, 1, "{report:?}");
    let finding = &report.findings[0];
    let block = content.pages[index].word.key.block();
    assert!(
        finding.contains(&format!("SSD {}, LEB {} (table {table}), page {index}", place.ssd, place.leb))
            && finding.contains(&format!("block {block} of disk 0")),
        "{finding}"
    );
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<CacheCheckReport>(&json).unwrap(), report);
}

/// Copies the header of another LEB, or zeros, over the header of one, and returns the findings.
fn findings_of_header(other: bool) -> Vec<String> {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    let core = &rig.cache.core;
    let valid = (0..core.memory.tables()).filter_map(|table| core.memory.load_table(table).unwrap());
    let mut places = valid.map(|content| content.places[0].expect("it has a copy"));
    let (place, source) = (places.next().unwrap(), places.next().unwrap());
    let mut header = vec![0; BLOCK as usize];
    if other {
        world.disk(usize::from(source.ssd)).read(u64::from(source.leb) * LEB, &mut header).unwrap();
    }
    world.disk(usize::from(place.ssd)).write(u64::from(place.leb) * LEB, &header, Access::Cached).unwrap();
    let found = check(&rig).findings;
    assert!(found.iter().all(|finding| finding.contains(&format!("SSD {}, LEB {}", place.ssd, place.leb))));
    found
}

#[test]
fn changed_headers_of_lebs_are_found() {
    let (other, empty) = (findings_of_header(true), findings_of_header(false));
    assert!(other.len() == 1 && other[0].contains("its header has the sequence"), "{other:?}");
    assert!(empty.len() == 1 && empty[0].contains("its header is empty"), "{empty:?}");
}

#[test]
fn canary_check_that_does_not_compare_headers_is_caught() {
    let _bug = plant("cache: a check does not compare headers");
    assert!(findings_of_header(true).is_empty());
}

/// Overwrites the stamp of an SSD, and returns the findings.
fn findings_of_stamp() -> Vec<String> {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    world.disk(1).write(0, &[0; 2 * BLOCK as usize], Access::Cached).unwrap();
    check(&rig).findings
}

#[test]
fn ca11_changed_stamp_is_found() {
    let found = findings_of_stamp();
    assert!(found.len() == 1 && found[0].contains("SSD 1: its stamp is not the one"), "{found:?}");
}

#[test]
fn canary_check_that_does_not_compare_stamps_is_caught() {
    let _bug = plant("cache: a check does not compare stamps");
    assert!(findings_of_stamp().is_empty());
}

#[test]
fn check_ends_when_the_caller_asks() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    assert_eq!(rig.cache.check(&ALL, &mut |done, _| done == 0).unwrap(), None);
}

#[test]
fn changed_bytes_of_a_disk_are_found() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    world.disk(2).write(BLOCK, &block_of(99), Access::Cached).unwrap();
    // A dirty block is not compared.
    world.disk(2).write(4 * BLOCK, &block_of(99), Access::Cached).unwrap();
    let report = check(&rig);
    assert_eq!(report.found, 1, "{report:?}");
    assert!(report.findings[0].contains("block 1 of disk 0 is clean, and the disk has other bytes"), "{report:?}");
}

#[test]
fn wrong_counts_and_places_and_words_are_found() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    let core = &rig.cache.core;
    let table = (0..core.memory.tables()).find(|table| core.memory.table_sequence(*table).unwrap().is_some()).unwrap();
    let state = core.memory.table_state(table);
    state.live.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let report = check(&rig);
    assert!(report.found == 1 && report.findings[0].contains("pages are counted"), "{report:?}");
    state.live.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);

    let places = core.memory.table_places(table).unwrap();
    let outside = crate::page_word::LebPlace { ssd: 0, leb: 16 };
    core.memory.set_table_places(table, [Some(outside), None]);
    let report = check(&rig);
    assert!(report.findings[0].contains(&format!("table {table}: SSD 0 has no LEB 16")), "{report:?}");
    let far = crate::page_word::LebPlace { ssd: 9, leb: 1 };
    core.memory.set_table_places(table, [Some(far), None]);
    assert!(check(&rig).findings[0].contains("SSD 9 is not in the cache"));
    let other = (table + 1..core.memory.tables())
        .find(|table| core.memory.table_sequence(*table).unwrap().is_some())
        .expect("two tables are valid");
    core.memory.set_table_places(table, core.memory.table_places(other).unwrap());
    assert!(check(&rig).findings.iter().any(|finding| finding.contains("another table has LEB")));
    core.memory.set_table_places(table, places);

    let page = core.memory.page_ref(table, 0);
    let word = core.memory.page_word(page).unwrap();
    core.memory.set_page_word(page, crate::page_word::PageWord { live: !word.live, ..word });
    let report = check(&rig);
    assert!(report.findings[0].contains(&format!("table {table}, page 0")), "{report:?}");
    core.memory.set_page_word(page, word);
    assert!(check(&rig).is_sound());
    assert_eq!(LEB, u64::from(core.memory.layout().leb_bytes));
}

#[test]
fn canary_check_that_does_not_ask_the_index_finds_dead_pages() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    filled(&rig);
    let _bug = plant("cache: a check does not ask the index");
    assert!(!check(&rig).is_sound());
}
