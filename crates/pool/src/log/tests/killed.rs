//! What a process that was killed leaves to the next one.

use super::*;

/// W5: what a killed process left visible is shown, and then power fails.
#[test]
fn w5_crash_after_a_kill_keeps_what_was_shown() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let log = create(&memory);
        log.append_many(&[&payload(0), &payload(1), &payload(2)]).unwrap();
        let (second, head_at) = (log.records().nth(1).unwrap().unwrap().0, log.head_at);
        {
            let _killed = memory.as_thread(9);
            memory.store_word(head_at, seal(log.head_salt, second.number()));
        }
        let _successor = memory.as_thread(1);
        let log = open(&memory);
        assert_eq!(numbers(&log).unwrap(), [1, 2]);
        memory.forget_trace();
        memory.mark(1);
        let report = explore(&memory, &options(1 << 10, 100), |crash| {
            if numbers(&recover(crash)?.1)? == [1, 2] {
                Ok(())
            } else {
                Err("W5: it changed after it was shown".into())
            }
        });
        report.assert_clean();
    }
}

/// W5: the same of a record. One that was stored past the cache may stay in it, and its writer never fenced.
#[test]
fn w5_crash_after_a_kill_keeps_a_record_that_was_in_the_cache() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let log = create(&memory);
        log.append(&payload(0)).unwrap();
        {
            let _killed = memory.as_thread(9);
            log.stage(log.end(), log.session(), &payload(1), Scheme::Writeback);
        }
        let _successor = memory.as_thread(1);
        let found = TagLog::open_within(Arc::clone(&log.holding)).unwrap();
        assert_eq!(numbers(&found).unwrap(), [0, 1]);
        memory.forget_trace();
        memory.mark(1);
        explore(&memory, &options(1 << 10, 100), |crash| {
            if numbers(&recover(crash)?.1)? == [0, 1] {
                Ok(())
            } else {
                Err("W5: it changed after it was shown".into())
            }
        })
        .assert_clean();
    }
}

/// W4: a process beside the owner is killed while one of its threads copies a record and another has copied the next.
#[test]
fn w4_a_kill_beside_the_owner_leaves_no_record_that_comes_back() {
    let memory = new_pool(Model::MAPPED);
    let pool = Arc::new(open_pool(&memory));
    drop(TagLog::create(Arc::clone(&pool), "log", CAPACITY).unwrap());
    let held = || TagLog::open_within(Arc::new(pool.hold("log").unwrap())).unwrap();
    let killed = held();
    let behind = LogPosition(killed.end().0 + TagLog::lines_for(payload(0).len()));
    killed.stage(behind, killed.session(), &payload(1), Scheme::Nt);
    drop(killed);
    let log = held();
    log.append(&payload(0)).unwrap();
    assert_eq!(numbers(&log).unwrap(), [0]);
    drop(log);
    assert_eq!(numbers(&held()).unwrap(), [0], "W4: what was lost is back");
}
