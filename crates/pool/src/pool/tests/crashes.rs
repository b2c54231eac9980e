//! T1 to T3, T6, A1, A2: crashes of everything that is done to tags, and of the recovery from them.

use ferrite_crash::{Crash, CrashReport, LyingMemory, Model, explore};

use super::*;
use crate::layout::{LANES, RETIRED};
use crate::tests::support::{DeafMemory, MemoryCall, account, nested, new_pool, open, options, reopen, rounds};

type Step = Box<dyn Fn(&Pool) -> Result<()>>;

fn step<T>(step: impl Fn(&Pool) -> Result<T> + 'static) -> Step {
    Box::new(move |pool| step(pool).map(|_| ()))
}

fn pages_need(count: u64) -> Vec<SpaceNeed> {
    vec![need(Zone::Normal, count * PAGE)]
}

/// `count` extents of a page each.
fn scattered(count: usize) -> Vec<SpaceNeed> {
    vec![need(Zone::Normal, PAGE); count]
}

/// Tags of both zones, chunks that go from one zone to the other, extents given up and taken again.
fn zones() -> (Vec<Step>, Vec<Step>) {
    let steps = vec![
        step(|pool| create(pool, "a", &pages_need(3))),
        step(|pool| create(pool, "b", &[need(Zone::Super, CHUNK), need(Zone::Normal, 1)])),
        step(|pool| change(pool, "a", &pages_need(2))),
        step(|pool| remove(pool, "b")),
        step(|pool| create(pool, "c", &[need(Zone::Super, 3 * CHUNK)])),
        step(|pool| remove(pool, "a")),
        step(|pool| create(pool, "d", &[need(Zone::Super, CHUNK)])),
        step(|pool| remove(pool, "c")),
        step(|pool| create(pool, "e", &pages_need(600))),
    ];
    (Vec::new(), steps)
}

/// The tenth tag chains a further page to the table; slots are freed and taken again.
fn chained() -> (Vec<Step>, Vec<Step>) {
    let before = (0..7).map(|number| step(move |pool| create(pool, &format!("t{number}"), &pages_need(1)))).collect();
    let steps = vec![
        step(|pool| create(pool, "eighth", &pages_need(1))),
        step(|pool| remove(pool, "t3")),
        step(|pool| create(pool, "ninth", &pages_need(1))),
        step(|pool| create(pool, "tenth", &[])),
        step(|pool| pool.rename_tag(&*pool.tag("tenth")?, "renamed", [3; 64])),
        step(|pool| remove(pool, "eighth")),
    ];
    (before, steps)
}

/// Extents beyond the slot's: on one page, on two, and back in the slot.
fn overflowing() -> (Vec<Step>, Vec<Step>) {
    let steps = vec![
        step(|pool| create(pool, "wide", &scattered(9))),
        step(|pool| change(pool, "wide", &scattered(260))),
        step(|pool| create(pool, "other", &scattered(12))),
        step(|pool| remove(pool, "wide")),
        step(|pool| create(pool, "wide again", &scattered(20))),
        step(|pool| {
            pool.change_tag(
                &*pool.tag("other")?,
                &TagChange { size: 1, attributes: [9; 64], add: &[], keep: &[] },
                |_| Ok(()),
            )
        }),
    ];
    (Vec::new(), steps)
}

/// A full pool is given a chunk, in which the list of extents has to lie, and where a transaction has written; then
/// another one. What is in the chunk stays there until it is given (T6).
fn giving() -> (Vec<Step>, Vec<Step>) {
    let steps = vec![
        step(|pool| {
            let last = *pool.tag("wide")?.extents.last().expect("it has some");
            let mut transaction = pool.transaction();
            transaction.write((last.end() - CHUNK_PAGES) * PAGE, &stamp("wide").to_le_bytes());
            transaction.commit()
        }),
        step(|pool| give(pool, "wide")),
        step(|pool| create(pool, "new", &pages_need(300))),
        step(|pool| give(pool, "wide")),
        step(|pool| create(pool, "newer", &[need(Zone::Super, CHUNK)])),
        step(|pool| remove(pool, "wide")),
    ];
    (vec![step(fill_up)], steps)
}

struct Run {
    memory: Arc<LyingMemory>,
    /// What the tags are before any step and after each.
    shots: Vec<Shot>,
}

fn run(
    model: Model,
    (before, steps): (Vec<Step>, Vec<Step>),
    ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static,
) -> Run {
    let memory = new_pool(model);
    let pool = Pool::open(DeafMemory::new(&memory, ignores), crate::tests::support::BOOT).unwrap().0;
    before.iter().for_each(|step| step(&pool).unwrap());
    memory.forget_trace();
    let mut shots = vec![shot(&pool)];
    for (number, step) in steps.iter().enumerate() {
        step(&pool).unwrap();
        memory.mark(number as u64 + 1);
        shots.push(shot(&pool));
    }
    Run { memory, shots }
}

impl Run {
    /// Every step is whole or absent, and all space accounted for; also after a crash within recovery.
    fn check(&self, crash: &Crash<'_>) -> CheckVerdict {
        let done = crash.last_mark().unwrap_or(0) as usize;
        let (memory, pool) = reopen(crash)?;
        let found = Self::judge(&pool, &self.shots[done..self.shots.len().min(done + 2)])?;
        if crash.place().variant % 40 == 0 {
            nested(&memory, |crash| Self::judge(&reopen(crash)?.1, std::slice::from_ref(&found)).map(|_| ()))?;
        }
        Self::goes_on(&pool)
    }

    fn judge(pool: &Pool, allowed: &[Shot]) -> CheckVerdict<Shot> {
        let found = shot(pool);
        if !allowed.contains(&found) {
            return Err(format!("T1: neither old nor new: {found:?}"));
        }
        account(pool)?;
        check_content(pool)?;
        Ok(found)
    }

    /// T3, and that the pool can be used: a tag made now is newer than every other, and spoils none.
    fn goes_on(pool: &Pool) -> CheckVerdict {
        let newest = pool.tags().iter().map(|tag| tag.generation).max().unwrap_or(0);
        let tag = match create(pool, "after", &pages_need(5)) {
            Err(Error::Full { .. }) => return Ok(()),
            made => made.map_err(|error| error.to_string())?,
        };
        if tag.generation <= newest {
            return Err(format!("T3: generation {} again", tag.generation));
        }
        account(pool)?;
        check_content(pool)
    }

    fn explore(&self, samples: u64) -> CrashReport {
        explore(&self.memory, &options(samples * 4, samples), |crash| self.check(crash))
    }

    /// Every way in which one line of what is on its way during the step after `mark` may land, where all else has. A record
    /// has too many lines to see how several land; whether it counts its checksum says, which each of them spoils.
    fn explore_lines(&self, mark: u64) -> u64 {
        let (mut nothing, mut pending, mut images) = (Vec::new(), Vec::new(), 0);
        explore(&self.memory, &options(1, 2), |crash| {
            match crash.place().variant {
                _ if crash.last_mark() != Some(mark) => {}
                0 => nothing = crash.image(),
                _ => pending.push((nothing.clone(), crash.image())),
            }
            Ok(())
        })
        .assert_clean();
        for (before, after) in pending {
            let mut base = after.clone();
            for at in (0..after.len() / 64 * 64).step_by(64) {
                let line = at..at + 64;
                if before[line.clone()] == after[line.clone()] {
                    continue;
                }
                base[line.clone()].copy_from_slice(&before[line.clone()]);
                let memory = LyingMemory::from_image(&base, Model::MAPPED);
                base[line.clone()].copy_from_slice(&after[line.clone()]);
                memory.mark(mark);
                memory.forget_trace();
                memory.store(at as u64, &after[line], Scheme::Nt);
                let report = explore(&memory, &options(1 << 8, 0), |crash| self.check(crash));
                report.assert_clean().assert_exhaustive();
                images += report.images;
            }
        }
        images
    }
}

fn prove(what: &str, steps: fn() -> (Vec<Step>, Vec<Step>)) {
    for model in Model::ALL {
        let report = run(model, steps(), |_| false).explore(rounds(80));
        println!("{what}: {report}");
        report.assert_clean();
    }
}

#[test]
fn t1_t2_crash_seeded_tags_of_both_zones() {
    prove("zones", zones);
}

#[test]
fn t1_crash_seeded_a_chained_page_of_slots() {
    prove("chained slots", chained);
}

#[test]
fn t1_crash_seeded_extents_beyond_the_slot() {
    prove("overflow", overflowing);
}

#[test]
fn t1_t6_l6_crash_seeded_a_full_pool_is_given_space() {
    prove("giving", giving);
}

/// Where the list is stored where a record has written.
#[test]
fn t6_every_way_in_which_a_line_is_torn_while_a_full_pool_is_given_space() {
    let images = run(Model::MAPPED, giving(), |_| false).explore_lines(1);
    println!("giving, line by line: {images} images");
    assert!(images > 1000, "the test looks at too little");
}

/// Settles whose last store satisfied `at` are not made.
fn undrained(at: impl Fn(u64) -> bool + Send + Sync + 'static) -> impl Fn(MemoryCall) -> bool + Send + Sync + 'static {
    move |call| matches!(call, MemoryCall::Settle(span) if at(span.at))
}

#[test]
fn canary_a_tag_made_before_its_space_is_durable_is_caught() {
    for model in Model::ALL {
        let data = undrained(|at| at >= 2 * CHUNK);
        run(model, zones(), data).explore(100).expect_failure();
    }
}

#[test]
fn canary_a_tag_operation_without_the_fence_of_its_commit_is_caught() {
    for model in Model::ALL {
        run(model, chained(), undrained(|at| (LANES..CHUNK).contains(&at))).explore(100).expect_failure();
    }
}

#[test]
fn canary_a_list_that_is_named_before_it_is_durable_in_what_is_given_up_is_caught() {
    for model in Model::ALL {
        run(model, giving(), undrained(|at| at >= 2 * CHUNK)).explore(100).expect_failure();
    }
}

#[test]
fn canary_a_list_over_which_a_record_is_replayed_is_caught() {
    let retired =
        |call| matches!(call, MemoryCall::Flush(span) | MemoryCall::Settle(span) if RETIRED.contains(&span.at));
    run(Model::MAPPED, giving(), retired).explore(100).expect_failure();
}

/// Lane L6: a page that transactions wrote is freed and given to another tag; no old record is replayed into it.
fn reused(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = new_pool(model);
    let pool = Pool::open(DeafMemory::new(&memory, ignores), crate::tests::support::BOOT).unwrap().0;
    let first = create(&pool, "first", &pages_need(1)).unwrap();
    let at = first.extents[0].span().at;
    let mut transaction = pool.transaction();
    transaction.write(at, &[0xAA; 8]);
    transaction.commit().unwrap();
    pool.remove_tag(&first).unwrap();
    let second = create(&pool, "second", &pages_need(1)).unwrap();
    assert_eq!(second.extents, first.extents, "the page was not used again");
    memory.mark(1);
    explore(&memory, &options(64, 30), |crash| {
        let (_, pool) = reopen(crash)?;
        if crash.last_mark() == Some(1) { check_content(&pool) } else { Ok(()) }
    })
}

#[test]
fn l6_crash_replays_nothing_into_space_that_is_used_again() {
    for model in Model::ALL {
        reused(model, |_| false).assert_clean();
    }
}

#[test]
fn canary_space_given_back_before_its_records_are_retired_is_caught() {
    reused(
        Model::MAPPED,
        |call| matches!(call, MemoryCall::Flush(span) | MemoryCall::Settle(span) if RETIRED.contains(&span.at)),
    )
    .expect_failure();
}

/// A pool that was opened and closed in order says so, and is as it was.
#[test]
fn a_closed_pool_is_clean_and_needs_no_replay() {
    let memory = new_pool(Model::FILE);
    let pool = open(&memory);
    create(&pool, "kept", &scattered(20)).unwrap();
    let before = shot(&pool);
    pool.close().unwrap();
    let (pool, recovery) = Pool::open(memory, [1; 16]).unwrap();
    assert_eq!((recovery.clean, recovery.same_boot, recovery.replay.transactions), (true, false, 0));
    assert_eq!(shot(&pool), before);
    account(&pool).unwrap();
}

/// Making a pool, and closing one, are crashes like any other: no pool, or a whole one.
#[test]
fn s1_crash_while_a_pool_is_made_or_closed() {
    for model in Model::ALL {
        let memory = LyingMemory::new(crate::tests::support::POOL_BYTES, model);
        Pool::create(&memory, &crate::tests::support::format()).unwrap();
        memory.mark(1);
        let memory = Arc::new(memory);
        let pool = open(&memory);
        create(&pool, "kept", &pages_need(2)).unwrap();
        memory.mark(2);
        pool.close().unwrap();
        let report = explore(&memory, &options(256, 40), |crash| match (crash.last_mark(), reopen(crash)) {
            (None, _) => Ok(()),
            (Some(mark), Ok((_, pool))) if mark == 1 || pool.tag("kept").is_ok() => account(&pool),
            (_, other) => Err(format!("S1: {:?}", other.err())),
        });
        println!("create, open, close: {report}");
        report.assert_clean();
    }
}
