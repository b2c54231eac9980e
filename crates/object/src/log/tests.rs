//! AL1, AL2.

use ferrite_crash::{Model, explore};
use ferrite_medium::Memory;

use super::*;
use crate::proof::{LOGGING, hold, new_pool, open_pool, options, reopen};

fn open(pool: &Arc<ferrite_pool::Pool>, salvage: bool) -> Result<Arc<Log>> {
    Log::open(hold(pool, &label().unwrap(), LOGGING.log_bytes), salvage)
}

fn entry(number: u64) -> Vec<u8> {
    vec![number as u8; [5, 40, 90][number as usize % 3]]
}

fn all(log: &Log) -> Vec<(u64, Vec<u8>)> {
    (log.first()..log.end()).map(|number| (number, log.get(number).unwrap().unwrap())).collect()
}

fn expected(from: u64, to: u64) -> Vec<(u64, Vec<u8>)> {
    (from..to).map(|number| (number, entry(number))).collect()
}

/// Marks: how many are cut off for certain, and how many were appended.
#[test]
fn al1_crash_keeps_what_was_acknowledged_and_its_numbers() {
    for model in Model::ALL {
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
        let report = explore(&memory, &options(1 << 8, 40), |crash| {
            let log = open(&reopen(crash)?.1, false).map_err(|error| error.to_string())?;
            let (first, end) = crash.last_mark().map_or((0, 0), |mark| (mark >> 32, mark & 0xffff_ffff));
            let fits = (first..=first + 4).contains(&log.first()) && (end..=end + 3).contains(&log.end());
            if fits && all(&log) == expected(log.first(), log.end()) {
                Ok(())
            } else {
                Err(format!("AL1: {}..{} where {first}..{end} was acknowledged", log.first(), log.end()))
            }
        });
        println!("log: {report}");
        report.assert_clean();
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
    let told = log.get(1).unwrap_err().to_string();
    assert!(told.starts_with("object \"it\" is damaged: entry 1 at byte"), "{told}");
    assert_eq!(log.get(2).unwrap(), Some(entry(2)), "the rest stays readable");
    drop(log);
    let told = open(&pool, false).unwrap_err().to_string();
    assert!(told.starts_with("object \"it\" is damaged: entry 1 at byte"), "{told}");
    let log = open(&pool, true).unwrap();
    assert_eq!((all(&log), log.rescued().to_vec()), (expected(0, 1), expected(2, 4)));
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
    let told = open(&pool, false).unwrap_err().to_string();
    assert!(told.starts_with("object \"it\" is damaged: its word at byte"), "{told}");
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
