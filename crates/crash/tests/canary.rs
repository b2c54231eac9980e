//! Planted bugs that an exploration must find. Each test also runs the same protocol without the bug, which must pass.

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Memory, Scheme, Span};

const SLOT_BYTES: u64 = 80;

/// Returns a slot of generation, payload and checksum. Of two slots, the newer valid one is in effect.
fn slot(generation: u64, checked: bool) -> [u8; SLOT_BYTES as usize] {
    let mut words = [generation * 0x0101_0101; 10];
    words[0] = generation;
    words[9] = if checked { checksum(&words[..9]) } else { generation };
    let mut bytes = [0; SLOT_BYTES as usize];
    bytes.chunks_mut(8).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    bytes
}

fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37, |sum: u64, word| (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31))
}

/// Returns the generation in effect, or an error.
fn recover(crash: &Crash<'_>, checked: bool) -> Result<u64, String> {
    let mut newest = 0;
    for at in [0, SLOT_BYTES] {
        let words: Vec<u64> = (0..10).map(|word| crash.load_word(at + word * 8)).collect();
        let sum = if checked { checksum(&words[..9]) } else { words[0] };
        if words[9] == sum && words[0] > newest {
            newest = words[0];
            if words[1..9].iter().any(|&word| word != newest * 0x0101_0101) {
                return Err(format!("generation {newest} is torn"));
            }
        }
    }
    Ok(newest)
}

/// Checks that all acknowledged data is there, and that every store in the image had at least begun.
fn judge(crash: &Crash<'_>, found: u64) -> Result<(), String> {
    let acknowledged = crash.last_mark().unwrap_or(0);
    match found {
        found if found < acknowledged => Err(format!("acknowledged {acknowledged} is lost, found {found}")),
        found if found > acknowledged + 1 => Err(format!("found {found}, which was not begun")),
        _ => Ok(()),
    }
}

fn two_slots(model: Model, checked: bool) -> CrashReport {
    let memory = LyingMemory::new(2 * SLOT_BYTES, model);
    for generation in 1..=9 {
        memory.store(generation % 2 * SLOT_BYTES, &slot(generation, checked), Scheme::Nt);
        memory.drain().unwrap();
        memory.mark(generation);
    }
    let options = ExploreOptions::default();
    explore(&memory, &options, |crash| judge(crash, recover(crash, checked)?))
}

/// M2, M3: the test tries every subset of the words of a 160-byte two-slot commit, on either model.
#[test]
fn two_slot_commit_survives_every_crash() {
    for model in Model::ALL {
        let report = two_slots(model, true);
        report.assert_clean().assert_exhaustive();
        println!("{model:?}: {report}");
        assert!(report.images > 9 * 500, "{report}");
    }
}

/// Canary b, M2: without a checksum, the protocol accepts a torn record as a whole one.
#[test]
fn torn_record_without_checksum_is_found() {
    for model in Model::ALL {
        let report = two_slots(model, false);
        assert!(report.expect_failure().error.contains("torn"), "{report:?}");
    }
}

/// Stores data in one of two places, and then a word that names the place. If `fenced`, the data is durable before the
/// word.
fn pointer_flip(model: Model, fenced: bool) -> CrashReport {
    let memory = LyingMemory::new(256, model);
    for version in 1..=4u64 {
        let place = 64 + version % 2 * 64;
        memory.store(place, &[version as u8; 64], Scheme::Flush);
        if fenced {
            memory.drain().unwrap();
        }
        memory.store_word(0, version);
        memory.persist(Span::new(0, 8)).unwrap();
        memory.mark(version);
    }
    explore(&memory, &ExploreOptions { points: Points::Widest, ..ExploreOptions::default() }, |crash| {
        let version = crash.load_word(0);
        let mut data = [0; 64];
        crash.load(64 + version % 2 * 64, &mut data);
        if version > 0 && data != [version as u8; 64] {
            return Err(format!("version {version} points at {:?}", &data[..8]));
        }
        judge(crash, version)
    })
}

/// Canary a, M1 and M2: stores to two lines land in any order unless a fence lies between them.
#[test]
fn missing_fence_between_data_and_pointer_is_found() {
    for model in Model::ALL {
        pointer_flip(model, true).assert_clean().assert_exhaustive();
        assert!(pointer_flip(model, false).expect_failure().error.contains("points at"));
    }
}

/// Thread 1 stores a record. Thread 2 publishes the record by a word, and persists only the word.
fn handed_over(storing_thread_fences: bool) -> CrashReport {
    let memory = LyingMemory::new(128, Model::MAPPED);
    {
        let _one = memory.as_thread(1);
        memory.store(64, &7u64.to_le_bytes(), Scheme::Nt);
        if storing_thread_fences {
            memory.fence();
        }
    }
    let _two = memory.as_thread(2);
    memory.fence();
    memory.store_word(0, 1);
    memory.persist(Span::new(0, 8)).unwrap();
    explore(&memory, &ExploreOptions::default(), |crash| match (crash.load_word(0), crash.load_word(64)) {
        (1, record) if record != 7 => Err(format!("published {record}")),
        _ => Ok(()),
    })
}

/// Canary c, M1: only the storing thread's fence makes a non-temporal store durable.
#[test]
fn publishing_before_the_storing_thread_fenced_is_found() {
    handed_over(true).assert_clean();
    assert_eq!(handed_over(false).expect_failure().error, "published 0");
}

/// Canary d, M1: on a file only a barrier makes stores durable.
#[test]
fn relying_on_a_fence_on_a_file_is_found() {
    let run = |model, barrier: bool| {
        let memory = LyingMemory::new(128, model);
        memory.store(0, &1u64.to_le_bytes(), Scheme::Nt);
        memory.fence();
        if barrier {
            memory.barrier().unwrap();
        }
        memory.mark(1);
        explore(&memory, &ExploreOptions::default(), |crash| judge(crash, crash.load_word(0)))
    };
    run(Model::MAPPED, false).assert_clean();
    run(Model::FILE, true).assert_clean();
    assert!(run(Model::FILE, false).expect_failure().error.contains("lost"));
}

/// A failure prints the options that replay it alone.
#[test]
fn a_failure_is_replayed_alone() {
    let memory = LyingMemory::new(128, Model::MAPPED);
    memory.store(0, &[1; 64], Scheme::Nt);
    memory.store(64, &[2; 64], Scheme::Nt);
    for images_per_point_max in [1 << 16, 1] {
        let seen = |crash: &Crash<'_>| Err::<(), _>(format!("{:?}", crash.image()));
        let hit = |crash: &Crash<'_>| if crash.load_word(64) != 0 { seen(crash) } else { Ok(()) };
        let options = ExploreOptions { seed: 9, images_per_point_max, ..ExploreOptions::default() };
        let report = explore(&memory, &options, hit);
        let failure = report.expect_failure();
        let again = explore(&memory, &ExploreOptions { only: Some(failure.place), ..options }, seen);
        assert_eq!((again.images, &again.expect_failure().error), (1, &failure.error));
        assert!(failure.to_string().contains(&format!("variant: {}", failure.place.variant)), "{failure}");
    }
}
