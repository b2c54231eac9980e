//! W4: what a crash left behind a lost record.

use super::*;
use crate::checked_record::ALIGN;

type Opening = fn(&Arc<LyingMemory>) -> Arc<TagLog>;

/// Whether what is appended to the log in `memory`, which `open` opens, is alone where it ends, and alone when all before it
/// is cut off.
fn goes_on_alone(memory: &Arc<LyingMemory>, open: Opening) -> CheckVerdict {
    let log = open(memory);
    let found = numbers(&log)?;
    // The same bytes again: only the session distinguishes the new record from the lost one.
    log.append(&payload(found.len() as u64)).map_err(|error| error.to_string())?;
    let now = numbers(&log)?;
    drop(log);
    let log = open_as_it_lies(memory);
    let reopened = numbers(&log)?;
    log.cut(log.end()).map_err(|error| error.to_string())?;
    drop(log);
    let left = numbers(&open_as_it_lies(memory))?;
    if now == reopened && now.len() == found.len() + 1 && left.is_empty() {
        return Ok(());
    }
    Err(format!("W4: {now:?}, then {reopened:?}, and {left:?} when all was cut off"))
}

/// The first of three that share a fence is lost, the others landed; `open` opens that. The opening after it is crashed, too.
/// How many images were so.
fn first_is_lost(open: Opening) -> (CrashReport, u64) {
    let memory = new_pool(Model::FILE);
    let log = create(&memory);
    memory.forget_trace();
    let payloads = [payload(0), payload(1), payload(2)];
    log.append_many(&payloads.each_ref().map(Vec::as_slice)).unwrap();
    let mut lost_first = 0;
    let report = explore(&memory, &options(4, 3000), |crash| {
        let (first, second) = (0, LogRing::lines_for(SESSION + payload(0).len()));
        let [has_first, has_second] = [first, second].map(|at| log.ring.record(&crash.memory(), at, 8).is_some());
        if has_second && !has_first {
            lost_first += 1;
            if lost_first % 20 == 1 {
                nested(&recover(crash)?.0, |crash| goes_on_alone(&Arc::new(crash.memory()), open))?;
            }
        }
        goes_on_alone(&Arc::new(crash.memory()), open)
    });
    (report, lost_first)
}

#[test]
fn w4_crash_records_behind_a_lost_one_never_come_back() {
    let (report, lost_first) = first_is_lost(open);
    println!("lost first records: {report}, {lost_first} of interest");
    report.assert_clean();
    assert!(lost_first > 0, "no image had what this is about");
}

#[test]
fn canary_a_log_that_is_opened_and_not_wiped_is_caught() {
    let found = first_is_lost(|memory| Arc::new(open_as_it_lies(memory))).0.expect_failure().error.clone();
    assert!(found.contains("W4: "), "{found}");
}

/// One thread wipes what stands behind a lost record; another one, whose fences settle nothing of that, appends in its place
/// and cuts all off.
fn wiped_beside(ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = new_pool(Model::MAPPED);
    let log = create(&memory);
    let at = log.append_many(&[&payload(2), &payload(0)]).unwrap();
    memory.store_word(log.ring.place(at[0].number()) + 24, 0);
    memory.persist(Span::new(0, memory.size())).unwrap();
    drop(log);
    let pool = Pool::open(DeafMemory::new(&memory, ignores), BOOT).unwrap().0;
    let log = TagLog::open(Arc::new(pool), "log").unwrap();
    memory.forget_trace();
    let _other = memory.as_thread(2);
    log.append(&payload(2)).unwrap();
    log.cut(log.end()).unwrap();
    memory.mark(1);
    explore(&memory, &options(1 << 9, 60), |crash| {
        let left = numbers(&open_as_it_lies(&Arc::new(crash.memory())))?;
        let is_begun = crash.last_mark().is_none() && left == [2];
        if left.is_empty() || is_begun { Ok(()) } else { Err(format!("W4: {left:?} when all was cut off")) }
    })
}

#[test]
fn w4_crash_what_was_wiped_stays_so_when_another_thread_goes_on() {
    wiped_beside(|_| false).assert_clean();
}

#[test]
fn canary_a_wipe_that_is_not_drained_is_caught() {
    let wipe = |call| matches!(call, MemoryCall::Settle(span) if span.at >= 2 * CHUNK && span.len == ALIGN as u64);
    let found = wiped_beside(wipe).expect_failure().error.clone();
    assert!(found.starts_with("W4"), "{found}");
}

/// Records behind a hole in the ring are found, and a log that continues a lap later does not contain them.
#[test]
fn w4_what_is_stranded_behind_a_hole_is_told_and_left_behind() {
    let memory = new_pool(Model::MAPPED);
    let log = create(&memory);
    let at = log.append_many(&[&payload(0), &payload(1), &payload(2)]).unwrap();
    assert_eq!((log.view().stranded().next(), log.record_at(at[1])), (None, Some(payload(1))));
    memory.store_word(log.ring.place(at[1].number()) + 24, 0);
    drop(log);
    let log = open_as_it_lies(&memory);
    let left = StrandedRecord { position: at[2], payload: payload(2), is_old: false };
    assert_eq!(log.view().stranded().collect::<Vec<_>>(), [left]);
    assert_eq!(log.view().behind(at[2], payload(2).len()).number(), at[2].number() + LogRing::lines_for(SESSION + 108));
    let lap = log.next_lap();
    log.restart_at(lap).unwrap();
    assert_eq!((log.view().stranded().next(), log.head(), log.end()), (None, lap, lap));
    log.append(&payload(7)).unwrap();
    assert_eq!(numbers(&open(&memory)).unwrap(), [7]);
}

/// W4: what a crash left behind a lost record says nothing once another one stands in its place.
#[test]
fn w4_what_is_of_an_older_session_says_nothing_and_can_be_wiped() {
    let memory = new_pool(Model::MAPPED);
    let log = create(&memory);
    let at = log.append_many(&[&payload(0), &payload(1), &payload(2)]).unwrap();
    memory.store_word(log.ring.place(at[0].number()) + 24, 1);
    drop(log);
    let log = open_as_it_lies(&memory);
    let stranded = |log: &TagLog| log.view().stranded().map(|it| (it.position, it.is_old)).collect::<Vec<_>>();
    assert_eq!(stranded(&log), [(at[1], false), (at[2], false)]);
    log.append(&payload(0)).unwrap();
    drop(log);
    let mut log = open_as_it_lies(&memory);
    assert_eq!(stranded(&log), [(at[1], true), (at[2], true)]);
    log.wipe_stranded().unwrap();
    assert_eq!((stranded(&log), numbers(&log).unwrap()), (vec![], vec![0]));
}
