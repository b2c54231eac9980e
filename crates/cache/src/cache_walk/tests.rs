use ferrite_memory::{Scheme, Span};
use ferrite_owner::PoolAccess;
use ferrite_owner::services::PoolRequest;
use serde_json::Value;

use super::*;
use crate::cache_reports::CreatedCache;
use crate::cache_service::tests::{CachedWorld, ask, create};
use crate::settings_change::SettingsChange;

/// Returns the findings of a check of the pool.
fn findings(access: &mut PoolAccess) -> Vec<String> {
    let report: Value = ask(access, &PoolRequest::Check);
    let all = report["findings"].as_array().expect("a list");
    all.iter().map(|finding| finding["what"].as_str().expect("text").to_owned()).collect()
}

/// A user finds the damage of a pool by its check, before a cache meets it.
#[test]
fn each_damaged_part_is_named() {
    let world = CachedWorld::new();
    let mut access = world.open();
    ask::<CreatedCache>(&mut access, &create("c", &["s0", "s1"], SettingsChange::default()));
    assert_eq!(findings(&mut access), Vec::<String>::new());
    let owner = std::sync::Arc::clone(access.owner().expect("ours"));
    let tag = owner.pool().tag("c").expect("there");
    let map = Stream::new(&tag.extents, Role::MAP);
    let data = Stream::new(&tag.extents, Role::DATA);
    let spoil = |at: u64| {
        let memory = owner.pool().memory();
        memory.store(at, &[0x5a; 8], Scheme::Nt);
        memory.persist(Span::new(at, 8)).expect("stored");
    };
    spoil(map.locate(CHUNK).expect("a table").at);
    assert!(matches!(&findings(&mut access)[..], [one] if one.contains("table 0: its state")));
    spoil(data.locate(0).expect("a buffer").at);
    assert!(matches!(&findings(&mut access)[..], [_, two] if two.contains("the head of buffer 0")));
    for slot in [0, CONFIG_SLOT] {
        spoil(map.locate(0).expect("a slot").at + slot);
    }
    assert!(matches!(&findings(&mut access)[..], [one] if one.contains("its configuration")));
}
