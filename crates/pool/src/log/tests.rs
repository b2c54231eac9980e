//! Proofs of W1 to W6.

mod killed;
mod lost;
mod model;

use ferrite_crash::{Crash, CrashReport, LyingMemory, Model, explore};
use ferrite_memory::{Memory, Scheme};

use super::*;
use crate::bounds::SEQUENCE_BOUND;
use crate::extent::Role;
use crate::holding::{RoleSpace, TagSpec};
use crate::layout::{CHUNK, PAGE};
use crate::tag::TagKind;
use crate::tests::support::{
    BOOT, CheckVerdict, DeafMemory, MemoryCall, nested, new_pool, open as open_pool, options, reopen,
};
use crate::{NewTag, Pool};

const CAPACITY: u64 = 2 * PAGE;

/// Helpers for the tests of this log and of others, by the log's name in a pool of their own, and record by record.
impl TagLog {
    pub(crate) fn create(pool: Arc<Pool>, name: &str, capacity_bytes: u64) -> Result<Arc<Self>> {
        let parts = [(Role::MAP, PAGE), (Role::DATA, capacity_bytes)].map(|(role, bytes)| RoleSpace { role, bytes });
        let (kind, parts, attributes) = (TagKind::LOG.0, parts.to_vec(), Vec::new());
        TagSpec { name: name.into(), kind, size: capacity_bytes, attributes, parts, has_log: true }.create(&pool)?;
        Self::open(pool, name)
    }

    pub(crate) fn open(pool: Arc<Pool>, name: &str) -> Result<Arc<Self>> {
        Self::open_wiped(Arc::new(pool.hold(name)?)).map(Arc::new)
    }

    pub(crate) fn append(&self, payload: &[u8]) -> Result<LogPosition> {
        self.append_many(&[payload]).map(|at| at[0])
    }
}

fn open(memory: &Arc<LyingMemory>) -> Arc<TagLog> {
    TagLog::open(Arc::new(open_pool(memory)), "log").unwrap()
}

/// The log as a crash left it.
fn recover(crash: &Crash<'_>) -> CheckVerdict<(Arc<LyingMemory>, Arc<TagLog>)> {
    let (memory, pool) = reopen(crash)?;
    let log = TagLog::open(Arc::new(pool), "log").map_err(|error| error.to_string())?;
    Ok((memory, log))
}

/// The log as it lies, with what stands behind its end.
fn open_as_it_lies(memory: &Arc<LyingMemory>) -> TagLog {
    let pool = Arc::new(open_pool(memory));
    TagLog::open_within(Arc::new(pool.hold("log").unwrap())).unwrap()
}

fn create(memory: &Arc<LyingMemory>) -> Arc<TagLog> {
    TagLog::create(Arc::new(open_pool(memory)), "log", CAPACITY).unwrap()
}

/// The payload of record `number`: short ones and ones over several lines.
fn payload(number: u64) -> Vec<u8> {
    let len = [3, 20, 100][number as usize % 3];
    number.to_le_bytes().into_iter().cycle().take(8 + len).collect()
}

/// The numbers of the records in `log`, each whole.
fn numbers(log: &TagLog) -> CheckVerdict<Vec<u64>> {
    let mut numbers = Vec::new();
    for record in log.records() {
        let (_, bytes) = record.map_err(|error| error.to_string())?;
        let number = u64::from_le_bytes(*bytes.first_chunk().ok_or("W1: a short record")?);
        if bytes != payload(number) {
            return Err(format!("W1: record {number} holds something else"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// A mark: records `first .. end` are in the log for certain, `.. maybe` perhaps.
fn mark(first: u64, end: u64) -> u64 {
    first << 32 | end
}

/// What was acknowledged is there; of what was begun a beginning; nothing that was cut for certain comes back.
fn judge(numbers: &[u64], marks: &[u64], batch: u64) -> CheckVerdict {
    let (first, end) = marks.last().map_or((0, 0), |mark| (mark >> 32, mark & 0xffff_ffff));
    let runs_on = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let kept = match (numbers.first(), numbers.last()) {
        (Some(from), Some(last)) => (first..=first + batch).contains(from) && (end..=end + batch).contains(&(last + 1)),
        _ => first == end,
    };
    if runs_on && kept { Ok(()) } else { Err(format!("W1, W2: {numbers:?} where {first}..{end} was acknowledged")) }
}

fn check(crash: &Crash<'_>) -> CheckVerdict {
    let (memory, log) = recover(crash)?;
    let found = numbers(&log)?;
    judge(&found, crash.marks(), 3)?;
    if crash.place().variant % 50 == 0 {
        nested(&memory, |crash| {
            let again = numbers(&recover(crash)?.1)?;
            if again == found { Ok(()) } else { Err(format!("W5: {again:?} after {found:?} was shown")) }
        })?;
    }
    let next = found.last().map_or(1000, |last| last + 1);
    log.append(&payload(next)).map_err(|error| error.to_string())?;
    let after = numbers(&log)?;
    if after.len() == found.len() + 1 { Ok(()) } else { Err(format!("W4: {after:?} after an append to {found:?}")) }
}

/// Appends alone and together, cuts, and goes around the ring.
fn traffic(model: Model, ignores: impl Fn(MemoryCall, u64) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = new_pool(model);
    let head_at = create(&memory).head_at;
    let deaf = DeafMemory::new(&memory, move |call| ignores(call, head_at));
    let log = TagLog::open(Arc::new(Pool::open(deaf, BOOT).unwrap().0), "log").unwrap();
    // Nearly once around, so that the ring's end is among what is explored.
    let filler = log.append(&vec![0; CAPACITY as usize - 600]).unwrap();
    assert_eq!(filler.number(), 0);
    log.cut(log.end()).unwrap();
    let (mut first, mut end, mut at) = (0, 0, Vec::new());
    memory.mark(mark(first, end));
    memory.forget_trace();
    for (together, cut) in [(1, 0), (2, 1), (3, 0), (1, 3), (2, 2)] {
        let payloads: Vec<Vec<u8>> = (end..end + together).map(payload).collect();
        at.extend(log.append_many(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap());
        end += together;
        memory.mark(mark(first, end));
        if cut > 0 {
            first += cut;
            log.cut(at[first as usize]).unwrap();
            memory.mark(mark(first, end));
        }
    }
    assert!(log.end().number() > CAPACITY / 64, "it did not go around");
    explore(&memory, &options(1 << 11, 150), check)
}

#[test]
fn w1_w2_w3_crash_keeps_what_was_acknowledged() {
    for model in Model::ALL {
        let report = traffic(model, |_, _| false);
        println!("log: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_an_append_without_its_fence_is_caught() {
    for model in Model::ALL {
        let data =
            |call, head_at| matches!(call, MemoryCall::Settle(span) if span.at >= 2 * CHUNK && span.at != head_at);
        traffic(model, data).expect_failure();
    }
}

/// A ring that is full after each cut: the next append takes the place of what was cut last.
fn tight(model: Model, ignores: impl Fn(MemoryCall, u64) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = new_pool(model);
    let head_at = create(&memory).head_at;
    let deaf = DeafMemory::new(&memory, move |call| ignores(call, head_at));
    let log = TagLog::open(Arc::new(Pool::open(deaf, BOOT).unwrap().0), "log").unwrap();
    let (mut end, mut at) = (0, Vec::new());
    while let Ok(position) = log.append(&payload(end)) {
        at.push(position);
        end += 1;
    }
    memory.mark(mark(0, end));
    memory.forget_trace();
    for number in 0..6 {
        log.cut(at[number + 3]).unwrap();
        memory.mark(mark(number as u64 + 3, end));
        at.push(log.append(&payload(end)).unwrap());
        end += 1;
        memory.mark(mark(number as u64 + 3, end));
    }
    explore(&memory, &options(1 << 9, 60), |crash| judge(&numbers(&recover(crash)?.1)?, crash.marks(), 3))
}

#[test]
fn w3_crash_in_a_full_ring_loses_nothing_behind_the_head() {
    for model in Model::ALL {
        let report = tight(model, |_, _| false);
        println!("full log: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_cut_whose_head_word_is_not_durable_is_caught() {
    for model in Model::ALL {
        let head =
            |call, head_at| matches!(call, MemoryCall::Flush(span) | MemoryCall::Settle(span) if span.at == head_at);
        tight(model, head).expect_failure();
    }
}

#[test]
fn a_full_log_says_so_and_takes_more_when_it_is_cut() {
    let log = create(&new_pool(Model::MAPPED));
    while log.append(&[7; 40]).is_ok() {}
    assert_eq!((log.used_bytes(), log.capacity_bytes()), (CAPACITY, CAPACITY));
    let describe = log.append(&[7; 40]).unwrap_err().to_string();
    assert_eq!(describe, "log \"log\" is full: 64 B needed, 0 B of 8 KiB free: cut it first");
    let third = log.records().nth(2).unwrap().unwrap().0;
    log.cut(third).unwrap();
    assert!(matches!(log.append_many(&[&[1; 40], &[2; 40], &[3; 40]]), Err(Error::LogFull { .. })));
    assert_eq!(log.used_bytes(), CAPACITY - 128, "all or none");
    log.append_many(&[&[1; 40], &[2; 40]]).unwrap();
    assert!(matches!(log.append(&vec![0; CAPACITY as usize]), Err(Error::LogFull { .. })));
}

#[test]
fn cuts_are_at_records_only() {
    let log = create(&new_pool(Model::MAPPED));
    let second = log.append_many(&[&payload(2), &payload(5)]).unwrap()[1];
    log.cut(second).unwrap();
    for bad in [0, second.number() + 1, u64::MAX, log.end().number() + 1] {
        let describe = log.cut(LogPosition::from_number(bad)).unwrap_err().to_string();
        assert!(describe.starts_with(&format!("no record of log \"log\" starts at position {bad}")), "{describe}");
    }
    assert_eq!(numbers(&log).unwrap(), [5]);
    log.cut(log.end()).unwrap();
    assert_eq!((numbers(&log).unwrap(), log.head()), (vec![], log.end()));
}

#[test]
fn w6_crash_a_failed_persist_poisons_and_leaves_old_or_new() {
    let run = |failing: Option<u64>| {
        let memory = new_pool(Model::FILE);
        let log = create(&memory);
        let before = memory.calls();
        failing.inspect(|number| memory.fail_nth(before + number));
        let outcome = (0..4).try_for_each(|number| log.append(&payload(number)).map(|_| ()));
        let outcome = outcome.and_then(|()| log.cut(log.records().nth(2).unwrap()?.0));
        (memory.clone(), log, outcome, memory.calls() - before)
    };
    let (.., outcome, calls) = run(None);
    outcome.unwrap();
    for number in 0..calls {
        let (memory, log, outcome, _) = run(Some(number));
        assert!(outcome.unwrap_err().to_string().contains("planted"));
        assert!(log.append(&[1]).unwrap_err().to_string().contains("poisoned"));
        assert!(log.cut(log.end()).unwrap_err().to_string().contains("poisoned"));
        for seed in 0..10 {
            let found = numbers(&open(&Arc::new(memory.crash(seed)))).unwrap();
            let acknowledged = (number.min(4)) as usize;
            assert!((acknowledged..=acknowledged + 1).contains(&found.len()) || found == [2, 3], "{found:?}");
        }
    }
}

#[test]
fn what_is_no_log_is_refused() {
    let memory = new_pool(Model::MAPPED);
    let pool = Arc::new(open_pool(&memory));
    let new = NewTag { name: "empty", kind: TagKind::LOG, size: 9, attributes: [0; 64], needs: &[] };
    pool.create_tag(&new, |_| Ok(())).unwrap();
    let describe = |name| TagLog::open(pool.clone(), name).unwrap_err().to_string();
    assert!(describe("empty").starts_with("the layout of log \"empty\""), "{}", describe("empty"));
    assert!(describe("none").starts_with("there is no tag"), "{}", describe("none"));
    let head_at = TagLog::create(pool.clone(), "log", CAPACITY).unwrap().head_at;
    memory.store_word(head_at, 0);
    assert!(describe("log").starts_with("the head of log \"log\" at byte"), "{}", describe("log"));
}

/// Damage in the middle ends the log for a caller that opens it, and is an error for a caller that has it open.
#[test]
fn w1_the_first_record_that_does_not_verify_ends_the_log() {
    let memory = new_pool(Model::MAPPED);
    let log = create(&memory);
    let at = log.append_many(&[&payload(0), &payload(1), &payload(2)]).unwrap();
    memory.store_word(log.ring.place(at[1].number()) + 24, 0);
    let describe = log.records().nth(1).unwrap().unwrap_err().to_string();
    assert!(
        describe.starts_with(&format!("the record at position {} of log \"log\" at byte", at[1].number())),
        "{describe}"
    );
    drop(log);
    assert_eq!(numbers(&open(&memory)).unwrap(), [0]);
}

/// Another log made in the same pages sees nothing of the one before.
#[test]
fn w1_records_of_a_removed_log_are_not_found() {
    let memory = new_pool(Model::MAPPED);
    let pool = Arc::new(open_pool(&memory));
    let log = TagLog::create(pool.clone(), "log", CAPACITY).unwrap();
    log.append_many(&[&payload(0), &payload(1)]).unwrap();
    pool.remove_tag(log.tag()).unwrap();
    let again = TagLog::create(pool, "log", CAPACITY).unwrap();
    assert_eq!((again.head_at, numbers(&again).unwrap()), (log.head_at, vec![]));
}

/// F1: while the pool stands still an append waits.
#[test]
fn f1_appends_wait_while_the_pool_stands_still() {
    let pool = Arc::new(open_pool(&new_pool(Model::MAPPED)));
    let log = TagLog::create(pool.clone(), "log", CAPACITY).unwrap();
    let service: Arc<dyn Freeze> = log.clone();
    pool.register_freezer(Arc::downgrade(&service));
    let frozen = pool.freeze();
    std::thread::scope(|scope| {
        let append = scope.spawn(|| log.append(b"waits"));
        for _ in 0..1000 {
            assert_eq!(log.used_bytes(), 0);
            std::thread::yield_now();
        }
        drop(frozen);
        append.join().unwrap().unwrap();
    });
    assert_eq!(log.used_bytes(), 64);
}

/// T2: a log that is there after a crash can be opened, and is empty.
#[test]
fn w1_crash_while_a_log_is_made() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let pool = Arc::new(open_pool(&memory));
        memory.forget_trace();
        TagLog::create(pool, "log", CAPACITY).unwrap();
        memory.mark(1);
        let report = explore(&memory, &options(1 << 10, 300), |crash| {
            let pool = Arc::new(reopen(crash)?.1);
            match TagLog::open(pool, "log") {
                Err(Error::NotFound(_)) if crash.last_mark().is_none() => Ok(()),
                Ok(log) if numbers(&log)?.is_empty() && log.append(b"goes on").is_ok() => Ok(()),
                other => Err(format!("T2: {:?}", other.err())),
            }
        });
        println!("log made: {report}");
        report.assert_clean();
    }
}

/// W3: a restart forward keeps what stands there, whatever was before it.
#[test]
fn w3_crash_in_a_restart_leaves_the_log_before_or_after_it() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let log = create(&memory);
        let at = log.append_many(&[&payload(0), &payload(1), &payload(2)]).unwrap();
        // What the making of the log left in the cache would be images by the thousand.
        memory.persist(Span::new(0, memory.size())).unwrap();
        memory.forget_trace();
        log.restart_at(at[1]).unwrap();
        memory.mark(1);
        let report = explore(&memory, &options(1 << 9, 60), |crash| {
            let found = numbers(&recover(crash)?.1)?;
            let is_old = crash.last_mark().is_none() && found == [0, 1, 2];
            if is_old || found == [1, 2] { Ok(()) } else { Err(format!("{found:?}")) }
        });
        report.assert_clean().assert_exhaustive();
        assert_eq!(numbers(&log).unwrap(), [1, 2]);
        assert!(log.restart_at(at[0]).is_err(), "never back");
    }
}

/// A head behind which no position is left is refused, with its word right.
#[test]
fn a_head_that_nobody_counts_up_to_is_refused() {
    let memory = new_pool(Model::MAPPED);
    let log = create(&memory);
    let (at, salt) = (log.head_at, log.head_salt);
    drop(log);
    for head in [SEQUENCE_BOUND, NUMBER_MAX] {
        memory.store_word(at, seal(salt, head));
        let said = TagLog::open(Arc::new(open_pool(&memory)), "log").unwrap_err().to_string();
        assert!(said.contains("the head of log \"log\"") && said.contains("counts up to"), "{said}");
    }
    memory.store_word(at, seal(salt, SEQUENCE_BOUND - 1));
    open(&memory).append(b"more").unwrap();
}
