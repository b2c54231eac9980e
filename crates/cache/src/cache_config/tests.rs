//! The configuration (CC1).

use ferrite_crash::{CrashReport, Model, explore};
use ferrite_memory::planted::plant;

use super::*;
use crate::tests::{RigShape, options};

fn numbered(sequence: u64) -> NumberedConfig {
    NumberedConfig { sequence, config: CacheConfig { is_complete: true, next_ssd: 3, ..CacheConfig::default() } }
}

#[test]
fn cc1_damaged_configuration_does_not_count() {
    let bytes = encode_config(9, &numbered(4)).expect("it fits");
    assert_eq!(decode_config(9, &bytes), Some(numbered(4)));
    for byte in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 0x10;
        assert_eq!(decode_config(9, &flipped), None, "byte {byte}");
        assert_eq!(decode_config(9, &bytes[..byte]), None, "{byte} bytes");
    }
    assert_eq!(decode_config(8, &bytes), None, "the salt of another cache");
}

/// Changes a setting, with the bug if wanted, and judges what a crash at each event leaves.
fn explored_change(model: Model, bug: Option<&str>) -> CrashReport {
    let shape = RigShape { model, ..RigShape::default() };
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    let before = rig.cache.settings();
    let after = CacheSettings { grace_ns: before.grace_ns + 1, ..before };
    world.memory().forget_trace();
    let planted = bug.map(plant);
    rig.cache.set(after).expect("set");
    drop(planted);
    world.memory().mark(1);
    drop(rig);
    explore(world.memory(), &options(), &mut |crash: &ferrite_crash::Crash<'_>| {
        let found = shape.open(&crash.world())?.cache.settings();
        let is_legal = found == after || (found == before && crash.last_mark().is_none());
        if is_legal { Ok(()) } else { Err(format!("the settings {found:?}")) }
    })
}

#[test]
fn cc1_crash_leaves_the_old_configuration_or_the_new_one() {
    for model in [Model::MAPPED, Model::FILE] {
        explored_change(model, None).assert_clean();
    }
}

#[test]
fn canary_change_that_overwrites_the_current_configuration_is_caught() {
    explored_change(Model::MAPPED, Some("cache: a change overwrites the current configuration")).expect_failure();
}
