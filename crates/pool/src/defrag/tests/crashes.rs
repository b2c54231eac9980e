//! X1: crashes of a defragmentation, and failing calls.

use ferrite_crash::{Crash, CrashReport, explore};

use super::*;
use crate::layout::CHUNK_PAGES;
use crate::tests::support::{DeafMemory, MemoryCall, options, reopen, rounds};

/// As little as has everything: both zones, a hole, a log, a list of extents, a further page of tags.
fn little(pool: Pool) -> Pool {
    let pool = Arc::new(pool);
    make(&pool, "hole", &[superpages(1)]).unwrap();
    make(&pool, "gap", &[pages(3)]).unwrap();
    let log = TagLog::create(Arc::clone(&pool), "log", 2 * PAGE).unwrap();
    log.append(b"a record").unwrap();
    make(&pool, "super", &[superpages(2)]).unwrap();
    make(&pool, "wide", &[pages(1); 12]).unwrap();
    (0..5).for_each(|number| drop(make(&pool, &format!("{number}"), &[pages(2)]).unwrap()));
    ["hole", "gap", "1", "3"].iter().for_each(|name| remove(&pool, name));
    extend(&pool, "4", &[pages(3)]).unwrap();
    drop(log);
    Arc::into_inner(pool).unwrap()
}

/// The content that users see, except the word of a log that depends on its place.
fn contents(pool: &Pool) -> BTreeMap<String, Seen> {
    let mut seen = seen(pool);
    for tag in seen.values_mut().filter(|tag| tag.0 == TagKind::LOG) {
        tag.4.remove(&Role::MAP);
    }
    seen
}

fn log_reads(pool: Pool) -> CheckVerdict {
    let log = TagLog::open(Arc::new(pool), "log").map_err(|error| error.to_string())?;
    let records: Vec<Vec<u8>> = log.records().filter_map(|record| record.ok().map(|(_, bytes)| bytes)).collect();
    if records == [b"a record"] { Ok(()) } else { Err(format!("X1: the log holds {records:?}")) }
}

struct Proof {
    memory: Arc<LyingMemory>,
    before: BTreeMap<String, Seen>,
}

fn record(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> Proof {
    let memory = blank(6, model);
    little(open(&memory)).close().unwrap();
    memory.keep_trace(true);
    let mut pool = Pool::open(DeafMemory::new(&memory, ignores), BOOT).unwrap().0;
    let before = contents(&pool);
    memory.forget_trace();
    let place = |pool: &Pool, name: &str| pool.tag(name).unwrap().extents[0].page;
    let places = |pool: &Pool| {
        let table = pool.table().pages[1] / PAGE;
        [table, place(pool, "log"), place(pool, "wide"), place(pool, "super")]
    };
    let from = places(&pool);
    let report = run(&mut pool);
    memory.mark(1);
    let to = places(&pool);
    assert!(from.iter().zip(&to).all(|(from, to)| from != to), "{from:?} {to:?}");
    assert!(report.transactions > 5 && report.left.is_empty(), "{report:?}");
    Proof { memory, before }
}

impl Proof {
    /// Everything is as it was, the pool is sound, and the next run ends what this one began.
    fn check(&self, crash: &Crash<'_>) -> CheckVerdict {
        let (memory, mut pool) = reopen(crash)?;
        memory.keep_trace(false);
        self.judge(&pool)?;
        if crash.place().variant % 4 == 0 {
            let report = defrag(&mut pool, &owners(), &mut quiet).map_err(|error| error.to_string())?;
            if (report.after.free_runs, report.after.page_chunks) != (1, 1) {
                return Err(format!("X4: {report:?}"));
            }
            self.judge(&pool)?;
        }
        drop(pool);
        sound(&memory)?;
        log_reads(open(&memory))
    }

    fn judge(&self, pool: &Pool) -> CheckVerdict {
        if contents(pool) != self.before {
            return Err("X1: a stream is not what it was".into());
        }
        account(pool)
    }

    fn explore(&self, samples: u64) -> CrashReport {
        explore(&self.memory, &options(samples * 2, samples), |crash| self.check(crash))
    }
}

#[test]
fn x1_crash_seeded_every_stream_is_what_it_was() {
    for model in Model::ALL {
        let report = record(model, |_| false).explore(rounds(4));
        println!("defragmentation: {report}");
        report.assert_clean();
    }
}

/// The canary: copies that are not settled before the transaction that names them.
#[test]
fn canary_a_copy_that_is_not_drained_is_caught() {
    for model in Model::ALL {
        let data = |call| matches!(call, MemoryCall::Settle(span) if span.at >= 2 * CHUNK);
        record(model, data).explore(40).expect_failure();
    }
}

/// Each call that can fail fails once: the error is reported, the content stays, and the next run completes the work.
#[test]
fn every_failed_call_leaves_everything_as_it_was() {
    for model in Model::ALL {
        let image = blank(6, model);
        little(open(&image)).close().unwrap();
        let run = |fail: Option<u64>| {
            let memory = Arc::new(image.kill());
            memory.keep_trace(false);
            let mut pool = open(&memory);
            let (before, first) = (contents(&pool), memory.calls());
            fail.inspect(|call| memory.fail_nth(first + call));
            let result = defrag(&mut pool, &owners(), &mut quiet);
            if pool.check_poison().is_ok() {
                account(&pool).unwrap_or_else(|error| panic!("call {fail:?}: {error}"));
            }
            let calls = memory.calls() - first;
            // A host without storage ends the defragmentation, or is not needed (X2); a failed persist is reported.
            let is_well = result.is_ok() && (fail.is_none() || memory.barrier().is_ok());
            assert!(is_well || (result.is_err() && fail.is_some()), "call {fail:?}: {result:?}");
            drop(pool);
            let left =
                Arc::new(if fail.is_none_or(|call| call % 2 == 0) { memory.kill() } else { memory.crash(calls) });
            left.keep_trace(false);
            let mut pool = open(&left);
            assert!(contents(&pool) == before, "call {fail:?}");
            let report = defrag(&mut pool, &owners(), &mut quiet).unwrap();
            assert_eq!((report.after.free_runs, report.after.page_chunks), (1, 1), "call {fail:?}");
            assert!(contents(&pool) == before, "call {fail:?}");
            drop(pool);
            sound(&left).unwrap();
            calls
        };
        let calls = run(None);
        assert!(calls > 5, "{calls}");
        for call in 0..calls {
            run(Some(call));
        }
    }
}

/// Lane L6: a word that a transaction wrote in a tag's page is carried along, and never replayed into the page it left.
#[test]
fn l6_what_transactions_wrote_moves_and_is_not_replayed_into_its_old_place() {
    for model in Model::ALL {
        let memory = blank(4, model);
        let mut pool = open(&memory);
        make(&pool, "gap", &[pages(2)]).unwrap();
        let tag = make(&pool, "written", &[pages(3)]).unwrap();
        make(&pool, "between", &[pages(2)]).unwrap();
        extend(&pool, "written", &[pages(1)]).unwrap();
        remove(&pool, "gap");
        let old = tag.extents[0].span().at;
        memory.keep_trace(true);
        let mut transaction = pool.transaction();
        transaction.write(old + 64, &[0xAB; 64]);
        transaction.commit().unwrap();
        memory.mark(1);
        let report = run(&mut pool);
        assert!(report.moved_bytes > 0);
        make(&pool, "next", &[pages(CHUNK_PAGES / 2)]).unwrap();
        memory.mark(2);
        let report = explore(&memory, &options(64, rounds(12)), |crash| {
            let (_, pool) = reopen(crash)?;
            let mut found = [0; 64];
            pool.memory().load(pool.tag("written").unwrap().extents[0].span().at + 64, &mut found);
            let is_there = found == [0xAB; 64] || crash.last_mark().is_none();
            let next = pool.tag("next").ok().and_then(|tag| wrong_page(pool.memory(), &tag));
            if is_there && next.is_none() { Ok(()) } else { Err(format!("L6: {is_there} {next:?}")) }
        });
        report.assert_clean();
    }
}
