//! W4: what a crash left behind a lost record.

use super::*;

/// Whether what is appended to the log in `memory` is alone where it ends, and alone when all before it is cut off.
fn goes_on_alone(memory: &Arc<LyingMemory>) -> Verdict {
    let log = open(memory);
    let found = numbers(&log)?;
    // The same bytes again: only the session tells the new record from the lost one.
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

/// The first of three that share a fence is lost, the others landed. The opening after it is crashed, too.
#[test]
fn w4_crash_records_behind_a_lost_one_never_come_back() {
    let memory = new_pool(Model::FILE);
    let log = create(&memory);
    memory.forget_trace();
    let payloads = [payload(0), payload(1), payload(2)];
    log.append_many(&payloads.each_ref().map(Vec::as_slice)).unwrap();
    let mut lost_first = 0;
    let report = explore(&memory, &options(4, 3000), |crash| {
        let (first, second) = (0, Ring::lines_for(SESSION + payload(0).len()));
        let [has_first, has_second] = [first, second].map(|at| log.ring.record(&crash.memory(), at, 8).is_some());
        if has_second && !has_first {
            lost_first += 1;
            if lost_first % 20 == 1 {
                nested(&recover(crash)?.0, |crash| goes_on_alone(&Arc::new(crash.memory())))?;
            }
        }
        goes_on_alone(&Arc::new(crash.memory()))
    });
    println!("lost first records: {report}, {lost_first} of interest");
    report.assert_clean();
    assert!(lost_first > 0, "no image had what this is about");
}

/// What a hole in the ring leaves behind it is found, and a log that goes on a lap later has none of it.
#[test]
fn w4_what_is_stranded_behind_a_hole_is_told_and_left_behind() {
    let memory = new_pool(Model::MAPPED);
    let log = create(&memory);
    let at = log.append_many(&[&payload(0), &payload(1), &payload(2)]).unwrap();
    assert_eq!((log.view().stranded().next(), log.record_at(at[1])), (None, Some(payload(1))));
    memory.store_word(log.ring.place(at[1].number()) + 24, 0);
    drop(log);
    let log = open_as_it_lies(&memory);
    let left = Stranded { position: at[2], payload: payload(2), is_old: false };
    assert_eq!(log.view().stranded().collect::<Vec<_>>(), [left]);
    assert_eq!(log.view().behind(at[2], payload(2).len()).number(), at[2].number() + Ring::lines_for(SESSION + 108));
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
    let stranded = |log: &Log| log.view().stranded().map(|it| (it.position, it.is_old)).collect::<Vec<_>>();
    assert_eq!(stranded(&log), [(at[1], false), (at[2], false)]);
    log.append(&payload(0)).unwrap();
    drop(log);
    let mut log = open_as_it_lies(&memory);
    assert_eq!(stranded(&log), [(at[1], true), (at[2], true)]);
    log.wipe_stranded().unwrap();
    assert_eq!((stranded(&log), numbers(&log).unwrap()), (vec![], vec![0]));
}
