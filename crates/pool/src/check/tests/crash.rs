//! Repair under crashes and failing calls.

use ferrite_crash::{ExploreOptions, Points, explore};

use super::*;

/// A pool with every kind of damage that a repair mends, and the values that must be there afterwards.
fn damaged() -> (Vec<u8>, BTreeMap<String, Option<Vec<u8>>>) {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    let mut expected = values(&sound);
    expected.remove("value 1");
    let page = sound.tag("gap 0").unwrap().extents[0].page;
    let free = sound.tag("value 5").unwrap().extents[0].page + 40;
    let table = sound.table();
    let bit = |page: u64| bitmap_at(page / CHUNK_PAGES) + page % CHUNK_PAGES / 8;
    let [lost, copy] = crate::tag_table::copies(table.tags["value 1"].slot);
    let spare = table.tags["value 2"].slot;
    for at in [lost + 9, copy + 9, spare + 9, table.pages[1] + 4, bit(page), bit(free), kind_at(3)] {
        let mut byte = [0];
        memory.load(at, &mut byte);
        memory.store(at, &[!byte[0]], Scheme::Nt);
    }
    (memory.snapshot(), expected)
}

/// What a repair gives up.
fn lost() -> [String; 1] {
    ["value 1".into()]
}

fn is_mended(
    memory: &Arc<LyingMemory>,
    expected: &BTreeMap<String, Option<Vec<u8>>>,
) -> std::result::Result<(), String> {
    let report = checked(memory);
    if report.findings.iter().any(|finding| finding.severity != Severity::Note) {
        return Err(text(&report));
    }
    if values(&open(memory)) == *expected { Ok(()) } else { Err("values are not what they were".into()) }
}

/// K4: a repair that was cut short anywhere is finished by the next one.
#[test]
fn k4_a_crash_in_a_repair_is_mended_by_the_next() {
    let (image, expected) = damaged();
    for model in Model::ALL {
        let memory = Arc::new(LyingMemory::from_image(&image, model));
        let report = repaired_losing(&memory, &lost());
        assert!(report.is_sound(), "{}", text(&report));
        memory.mark(1);
        let options = ExploreOptions {
            points: Points::Widest,
            images_per_point_max: 16,
            samples_per_point: 8,
            ..ExploreOptions::default()
        };
        let report = explore(&memory, &options, |crash| {
            let memory = Arc::new(crash.memory());
            memory.keep_trace(false);
            let report = repaired_losing(&memory, &lost());
            if !report.is_sound() || crash.has_mark(1) && report.findings.len() > 1 {
                return Err(text(&report));
            }
            is_mended(&memory, &expected)
        });
        assert!(report.assert_clean().images > 40, "{report}");
    }
}

/// K4: every call of a repair that can fail fails once; the next repair finishes. Two are no failure of it: as it
/// opens the pool the host keeps storage behind what is free.
#[test]
fn k4_every_failed_call_is_mended_by_the_next() {
    let (image, expected) = damaged();
    let run = |fail: Option<u64>| {
        let memory = Arc::new(LyingMemory::from_image(&image, Model::FILE));
        memory.keep_trace(false);
        fail.inspect(|call| memory.fail_nth(*call));
        let result = repair(&(memory.clone() as Arc<dyn Memory>), &TagOwners::default(), &lost(), &mut quiet);
        assert!(fail.is_some() || result.is_ok(), "{result:?}");
        let after = Arc::new(memory.kill());
        assert!(repaired_losing(&after, &lost()).is_sound());
        is_mended(&after, &expected).unwrap_or_else(|error| panic!("call {fail:?}: {error}"));
        (memory.calls(), result.is_ok())
    };
    let (calls, _) = run(None);
    assert!(calls > 5);
    let unnoticed: Vec<u64> = (0..calls).filter(|call| run(Some(*call)).1).collect();
    assert_eq!(unnoticed.len(), 2, "{unnoticed:?}");
}
