//! Whole services: interrupted recoveries, memories with too many images to try all, and crashes by seed.

use ferrite_crash::{CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Memory, Result, Scheme, Span};

const LOG: u64 = 64;
const DATA: [u64; 2] = [128, 192];

/// Moves `amount` from the first account to the second through a redo record: both words, then the record's flag.
fn transfer(memory: &LyingMemory, amount: u64) -> Result<()> {
    let balances = [memory.load_word(DATA[0]) - amount, memory.load_word(DATA[1]) + amount];
    for (number, balance) in balances.iter().enumerate() {
        memory.store(LOG + number as u64 * 8, &balance.to_le_bytes(), Scheme::Nt);
    }
    memory.drain()?;
    memory.store_word(LOG + 16, 1);
    memory.persist(Span::new(LOG + 16, 8))?;
    replay(memory, true)
}

/// Applies the redo record, if it is set. If `careful`, the record is cleared only after its work is durable.
fn replay(memory: &LyingMemory, careful: bool) -> Result<()> {
    if memory.load_word(LOG + 16) == 0 {
        return Ok(());
    }
    for (number, at) in DATA.into_iter().enumerate() {
        memory.store_word(at, memory.load_word(LOG + number as u64 * 8));
        memory.flush(Span::new(at, 8));
    }
    if careful {
        memory.drain()?;
    }
    memory.store_word(LOG + 16, 0);
    memory.persist(Span::new(LOG + 16, 8))
}

fn balanced(memory: &LyingMemory) -> std::result::Result<(), String> {
    let balances = DATA.map(|at| memory.load_word(at));
    if balances[0] + balances[1] == 100 { Ok(()) } else { Err(format!("{balances:?}")) }
}

/// Tries every crash, every recovery from it, every crash of that recovery, and every recovery from that.
fn recoveries(model: Model, careful: bool) -> CrashReport {
    let memory = LyingMemory::new(256, model);
    memory.store_word(DATA[0], 100);
    memory.persist(Span::new(DATA[0], 8)).unwrap();
    memory.forget_trace();
    for (number, amount) in [30, 5].into_iter().enumerate() {
        transfer(&memory, amount).unwrap();
        memory.mark(number as u64);
    }
    let options = ExploreOptions::default();
    explore(&memory, &options, |crash| {
        let recovering = crash.memory();
        replay(&recovering, careful).map_err(|error| error.to_string())?;
        balanced(&recovering)?;
        let again = explore(&recovering, &options, |crash| {
            let recovering = crash.memory();
            replay(&recovering, true).map_err(|error| error.to_string())?;
            balanced(&recovering)
        });
        again.failure.map_or(Ok(()), |failure| Err(format!("recovery interrupted: {failure}")))
    })
}

/// A crash within recovery is a crash like any other. The exploration finds a recovery that clears its record too
/// early.
#[test]
fn recovery_interrupted_and_rerun() {
    for model in Model::ALL {
        recoveries(model, true).assert_clean().assert_exhaustive();
        let failure = recoveries(model, false);
        assert!(failure.expect_failure().error.contains("recovery interrupted"), "{failure:?}");
    }
}

/// Writes a 4 KiB block to a free place, and then a word that names it, on a memory as large as a pool. If `fenced`, a
/// fence lies between the two.
fn blocks(fenced: bool, points: Points) -> (LyingMemory, CrashReport) {
    let memory = LyingMemory::new(64 << 20, Model::MAPPED);
    for version in 1..=20u64 {
        memory.store(version << 20, &[version as u8; 4096], Scheme::Nt);
        if fenced {
            memory.fence();
        }
        memory.store_word(0, version);
        memory.persist(Span::new(0, 8)).unwrap();
        memory.mark(version);
    }
    let report =
        explore(&memory, &ExploreOptions { points, ..ExploreOptions::default() }, |crash| whole(&crash.memory()));
    (memory, report)
}

fn whole(memory: &LyingMemory) -> std::result::Result<(), String> {
    let (version, mut block) = (memory.load_word(0), [0; 4096]);
    memory.load(version << 20, &mut block);
    let torn = version > 0 && block != [version as u8; 4096];
    if torn { Err(format!("version {version} is torn")) } else { Ok(()) }
}

/// M2: with 2^512 images, sampling finds the missing fence at each choice of points.
#[test]
fn sampling_finds_a_missing_fence() {
    for points in [Points::Every, Points::Widest, Points::Sampled(30)] {
        let (_, report) = blocks(true, points);
        report.assert_clean();
        assert!(report.sampled_points > 0 && report.images > 100, "{report}");
        blocks(false, points).1.expect_failure();
    }
}

/// A crash by seed, as long runs use it, leaves one of the possible images, with and without a kept trace.
#[test]
fn a_crash_by_seed_is_one_of_the_possible_images() {
    for keep in [true, false] {
        let memory = LyingMemory::new(4 << 20, Model::MAPPED);
        memory.keep_trace(keep);
        memory.store(1 << 20, &[1; 4096], Scheme::Nt);
        memory.store_word(0, 1);
        let torn = (0..100).filter(|&seed| whole(&memory.crash(seed)).is_err()).count();
        assert!((10..90).contains(&torn), "{torn} of 100 crashes tore an unfenced block");
        memory.persist(Span::new(0, 8)).unwrap();
        (0..100).try_for_each(|seed| whole(&memory.crash(seed))).unwrap();
    }
}

/// If the code under test panics, the report has a failure with a position for the replay.
#[test]
fn a_panic_in_the_checker_is_a_failure() {
    let memory = LyingMemory::new(64, Model::MAPPED);
    memory.store_word(0, 5);
    let report = explore(&memory, &ExploreOptions::default(), |crash| {
        assert_ne!(crash.load_word(0), 5, "planted");
        Ok(())
    });
    assert!(report.expect_failure().error.contains("planted"), "{report:?}");
}
