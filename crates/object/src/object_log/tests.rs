//! Tests of AL1, AL2, AL3.

use ferrite_crash::{CrashReport, LyingMemory, Model, explore};
use ferrite_memory::{Memory, Span};

use super::*;
use crate::tests::support::{LOGGING, hold, new_pool, open_pool, options, reopen};

fn open(pool: &Arc<ferrite_pool::Pool>, salvage: bool) -> Result<Arc<ObjectLog>> {
    ObjectLog::open(hold(pool, &label().unwrap(), LOGGING.log_bytes), salvage)
}

fn entry(number: u64) -> Vec<u8> {
    vec![number as u8; [5, 40, 90][number as usize % 3]]
}

fn all(log: &ObjectLog) -> Vec<(u64, Vec<u8>)> {
    (log.first()..log.end()).map(|number| (number, log.get(number).unwrap().unwrap())).collect()
}

fn expected(from: u64, to: u64) -> Vec<(u64, Vec<u8>)> {
    (from..to).map(|number| (number, entry(number))).collect()
}

/// Marks count the entries that are certainly cut off, and those appended. After each crash the log is opened, passed
/// to `prepare`, and continues.
fn traffic(model: Model, prepare: fn(&ObjectLog)) -> CrashReport {
    let memory = new_pool(model);
    let log = open(&open_pool(&memory), false).unwrap();
    memory.forget_trace();
    let (mut first, mut end) = (0, 0);
    for (together, cut) in [(1, 0), (3, 1), (1, 4), (2, 0), (1, 3)] {
        let entries: Vec<Vec<u8>> = (end..end + together).map(entry).collect();
        assert_eq!(log.extend(&entries.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap(), end);
        end += together;
        memory.mark(first << 32 | end);
        first += cut;
        log.cut(first).unwrap();
        memory.mark(first << 32 | end);
    }
    assert_eq!((log.first(), log.end()), (8, 8));
    explore(&memory, &options(1 << 8, 40), |crash| {
        let pool = reopen(crash)?.1;
        let log = open(&pool, false).map_err(|error| error.to_string())?;
        let (first, end) = crash.last_mark().map_or((0, 0), |mark| (mark >> 32, mark & 0xffff_ffff));
        let fits = (first..=first + 4).contains(&log.first()) && (end..=end + 3).contains(&log.end());
        if !fits || all(&log) != expected(log.first(), log.end()) {
            return Err(format!("AL1: {}..{} where {first}..{end} was acknowledged", log.first(), log.end()));
        }
        prepare(&log);
        let next = log.append(&entry(log.end())).map_err(|error| error.to_string())? + 1;
        log.cut(next).map_err(|error| error.to_string())?;
        drop(log);
        let log = open(&pool, false).map_err(|error| error.to_string())?;
        let now = (log.first(), log.end());
        if now == (next, next) { Ok(()) } else { Err(format!("AL3: {now:?} after all before {next} was cut")) }
    })
}

#[test]
fn al1_al3_crash_keeps_what_was_acknowledged_and_its_numbers() {
    for model in Model::ALL {
        let report = traffic(model, |_| ());
        println!("log: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_log_that_goes_on_before_what_is_stranded_is_wiped_is_caught() {
    for model in Model::ALL {
        let found = traffic(model, |log| log.state.lock().has_stranded = false).expect_failure().error.clone();
        assert!(found.starts_with("AL3"), "{found}");
    }
}

#[test]
fn al2_damage_is_told_by_name_and_what_is_left_is_rescued() {
    let memory = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let log = open(&pool, false).unwrap();
    (0..4).for_each(|number| assert_eq!(log.append(&entry(number)).unwrap(), number));
    let at = {
        let state = log.state.lock();
        state.records.place(state.places[1])
    };
    memory.store_word(at + 24, 0);
    let error = log.get(1).unwrap_err().to_string();
    assert!(error.starts_with("object \"it\" is damaged: entry 1 at byte"), "{error}");
    assert_eq!(log.get(2).unwrap(), Some(entry(2)), "the rest stays readable");
    drop(log);
    let error = open(&pool, false).unwrap_err().to_string();
    assert!(error.starts_with("object \"it\" is damaged: entry 1 at byte"), "{error}");
    let log = open(&pool, true).unwrap();
    assert_eq!((all(&log), log.rescued().to_vec()), (expected(0, 1), expected(2, 4)));
}

/// The word of a log that was never empty does not say where it begins.
#[test]
fn al2_the_first_entry_of_a_cut_log_is_told_by_its_number() {
    let memory = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let log = open(&pool, false).unwrap();
    (0..6).for_each(|number| _ = log.append(&entry(number)).unwrap());
    log.cut(3).unwrap();
    let at = {
        let state = log.state.lock();
        state.records.place(state.places[0])
    };
    drop(log);
    spoil(&memory, at);
    for _ in 0..2 {
        assert_reported(&pool, 3);
        let log = open(&pool, true).unwrap();
        assert_eq!((log.first(), log.end(), log.rescued().to_vec()), (3, 3, expected(4, 6)));
    }
    assert_eq!(open(&pool, true).unwrap().append(&entry(3)).unwrap(), 3);
    assert_eq!(all(&open(&pool, false).unwrap()), expected(3, 4));
}

#[test]
fn al2_a_damaged_word_costs_no_entry() {
    let memory = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let log = open(&pool, false).unwrap();
    (0..4).for_each(|number| _ = log.append(&entry(number)).unwrap());
    let at = log.holding.stream(ferrite_pool::Role::MAP).locate(64).unwrap().at;
    drop(log);
    memory.store_word(at, 1);
    let error = open(&pool, false).unwrap_err().to_string();
    assert!(error.starts_with("object \"it\" is damaged: its word at byte"), "{error}");
    let log = open(&pool, true).unwrap();
    assert_eq!((all(&log), log.losses().len(), log.rescued().len()), (expected(0, 4), 1, 0));
    log.cut(4).unwrap();
    drop(log);
    assert_eq!(open(&pool, false).unwrap().end(), 4, "sound again");
}

#[test]
fn a_full_log_says_so_and_takes_more_when_it_is_cut() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let log = open(&pool, false).unwrap();
    while log.append(&[7; 10]).is_ok() {}
    assert_eq!((log.len() as u64 * 64, log.used_bytes()), (LOGGING.log_bytes, log.capacity_bytes()));
    assert!(matches!(log.append(b"x"), Err(Error::Pool(ferrite_pool::Error::LogFull { .. }))));
    log.cut(5).unwrap();
    assert_eq!((log.get(4).unwrap(), log.append(b"x").unwrap()), (None, 128));
    assert!(log.cut(1000).is_err());
    drop(log);
    let log = open(&pool, false).unwrap();
    assert_eq!((log.first(), log.end(), log.get(128).unwrap()), (5, 129, Some(b"x".to_vec())));
}

/// The numbers of entries appended together, in each opening of a log.
const OPENINGS: [&[u64]; 3] = [&[1, 1, 3, 1], &[2, 1], &[1, 1]];

/// Opens a log several times, and returns the place of each entry and the first of its batch.
fn of_several_openings(pool: &Arc<ferrite_pool::Pool>) -> Vec<(u64, u64)> {
    let mut batches = Vec::new();
    for together in OPENINGS {
        let log = open(pool, false).unwrap();
        for count in together {
            let batch = log.end();
            let entries: Vec<Vec<u8>> = (batch..batch + count).map(entry).collect();
            log.extend(&entries.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
            batches.extend(vec![batch; *count as usize]);
        }
    }
    let log = open(pool, false).unwrap();
    let state = log.state.lock();
    state.places.iter().map(|place| state.records.place(*place)).zip(batches).collect()
}

/// Damages the record at byte `at`, durably.
fn spoil(memory: &LyingMemory, at: u64) {
    memory.store_word(at + 24, !memory.load_word(at + 24));
    memory.persist(Span::new(at + 24, 8)).unwrap();
}

fn assert_reported(pool: &Arc<ferrite_pool::Pool>, number: u64) {
    let error = open(pool, false).unwrap_err().to_string();
    assert!(error.starts_with(&format!("object \"it\" is damaged: entry {number} at byte")), "{error}");
}

/// Ways to continue with a salvaged log from entry `end`; each returns the resulting range.
type Way = fn(&ObjectLog, u64) -> (u64, u64);
const WAYS: [Way; 4] = [
    |log, end| (0, log.append(&entry(end)).unwrap() + 1),
    |log, end| (0, log.extend(&[&entry(end), &entry(end + 1), &entry(end + 2)]).unwrap() + 3),
    |log, end| {
        log.cut(end).unwrap();
        (end, log.append(&entry(end)).unwrap() + 1)
    },
    |log, end| {
        log.append(&entry(end)).unwrap();
        log.cut(end + 1).unwrap();
        (end + 1, end + 1)
    },
];

/// Each entry is damaged in turn, and a log that was salvaged and continued is damaged in turn again.
#[test]
fn al2_al3_any_damage_is_told_once_and_what_was_salvaged_stays_so() {
    let memory = new_pool(Model::MAPPED);
    let end = of_several_openings(&open_pool(&memory)).len() as u64;
    for (lost, way) in (0..end).flat_map(|lost| WAYS.map(|way| (lost, way))) {
        let memory = new_pool(Model::MAPPED);
        let pool = open_pool(&memory);
        let places = of_several_openings(&pool);
        spoil(&memory, places[lost as usize].0);
        if places.last().unwrap().1 <= lost {
            // As if a crash had come before it was durable.
            assert_eq!(all(&open(&pool, false).unwrap()), expected(0, lost));
            continue;
        }
        // Until it continues, however often it is opened.
        for _ in 0..2 {
            assert_reported(&pool, lost);
            let log = open(&pool, true).unwrap();
            assert_eq!((all(&log), log.rescued().to_vec()), (expected(0, lost), expected(lost + 1, end)));
        }
        let (first, next) = way(&open(&pool, true).unwrap(), lost);
        let log = open(&pool, false).unwrap_or_else(|error| panic!("entry {lost}: {error}"));
        assert_eq!((log.first(), log.end(), all(&log)), (first, next, expected(first, next)), "entry {lost}");
        (next..next + 2).for_each(|number| _ = log.append(&entry(number)).unwrap());
        let again = {
            let state = log.state.lock();
            state.records.place(state.places[(next - first) as usize])
        };
        drop(log);
        spoil(&memory, again);
        assert_reported(&pool, next);
        let log = open(&pool, true).unwrap();
        assert_eq!(log.rescued().to_vec(), expected(next + 1, next + 2));
    }
}

/// An entry that does not fit wipes nothing.
#[test]
fn al3_an_append_that_has_no_room_leaves_what_was_rescued() {
    let memory = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let places = of_several_openings(&pool);
    spoil(&memory, places[1].0);
    let log = open(&pool, true).unwrap();
    let large = vec![0; LOGGING.log_bytes as usize - 64];
    assert!(log.append(&large).is_err());
    assert_eq!(log.extend(&[]).unwrap(), 1);
    log.cut(0).unwrap();
    drop(log);
    assert_eq!(open(&pool, true).unwrap().rescued().len(), places.len() - 2);
}

/// A crash while a salvaged log continues: the log is as it was salvaged, some of the rescued entries gone, or has the
/// appended entry.
#[test]
fn al3_crash_while_a_salvaged_log_goes_on_leaves_it_damaged_or_sound() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let pool = open_pool(&memory);
        let places = of_several_openings(&pool);
        spoil(&memory, places[3].0);
        let log = open(&pool, true).unwrap();
        memory.forget_trace();
        log.append(&entry(3)).unwrap();
        memory.mark(1);
        let report = explore(&memory, &options(1 << 10, 200), |crash| {
            let pool = reopen(crash)?.1;
            let went_on = match open(&pool, false) {
                Ok(log) => all(&log) == expected(0, log.end()) && (3..=4).contains(&log.end()),
                Err(Error::Damaged { .. }) if crash.last_mark().is_none() => {
                    let log = open(&pool, true).map_err(|error| error.to_string())?;
                    all(&log) == expected(0, 3) && log.rescued().iter().all(|(number, it)| *it == entry(*number))
                }
                Err(error) => return Err(error.to_string()),
            };
            let is_there = crash.last_mark().is_none() || open(&pool, false).is_ok_and(|log| log.end() == 4);
            if went_on && is_there { Ok(()) } else { Err("AL3: another log".into()) }
        });
        println!("salvaged log: {report}");
        report.assert_clean();
    }
}

/// A crash lost the first of three. The entry that took its place is cut off: the others do not come back.
#[test]
fn al3_what_a_crash_left_of_a_batch_does_not_come_back_when_all_before_it_is_cut() {
    let memory = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let log = open(&pool, false).unwrap();
    log.extend(&[b"one", b"two", b"three"]).unwrap();
    let at = {
        let state = log.state.lock();
        state.records.place(state.places[0])
    };
    drop(log);
    spoil(&memory, at);
    let log = open(&pool, false).unwrap();
    assert_eq!(log.append(b"ONE").unwrap(), 0);
    log.cut(1).unwrap();
    drop(log);
    let log = open(&pool, false).unwrap();
    assert_eq!((log.first(), log.end()), (1, 1));
}

/// Numbers of entries that leave no room for another are damage, without a panic.
#[test]
fn al2_a_number_that_no_log_comes_to_is_damage() {
    for number in [SEQUENCE_BOUND, u64::MAX - 1, u64::MAX] {
        let memory = new_pool(Model::MAPPED);
        let pool = open_pool(&memory);
        let log = open(&pool, false).unwrap();
        log.state.lock().first = number;
        if number < u64::MAX - 1 {
            log.append(b"entry").unwrap();
        } else {
            log.state.lock().records.append_alone_with([number, number], b"entry").unwrap();
        }
        drop(log);
        let refused = open(&pool, false).unwrap_err().to_string();
        assert!(refused.contains("the number of an entry") && refused.contains("counts up to"), "{refused}");
        open(&pool, true).unwrap_err();
    }
}
