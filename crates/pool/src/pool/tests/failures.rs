//! M4: every fallible call of the memory fails once. What was acknowledged stays, what was not is old or new, and
//! after a failed persist nothing more is promised.

use ferrite_crash::{LyingMemory, Model};

use super::*;
use crate::tests::support::{BOOT, account, new_pool, open};

/// Steps until one fails; how many were acknowledged, what the tags were then, and the failure.
fn run(memory: &Arc<LyingMemory>) -> (Shot, Option<String>, Option<Pool>) {
    let pool = match Pool::open(memory.clone(), BOOT) {
        Ok((pool, _)) => pool,
        Err(error) => return (Shot::new(), Some(error.to_string()), None),
    };
    let steps: [fn(&Pool) -> Result<()>; 5] = [
        |pool| create(pool, "a", &[need(Zone::Normal, 3 * PAGE)]).map(|_| ()),
        |pool| create(pool, "b", &[need(Zone::Normal, PAGE); 12]).map(|_| ()),
        |pool| change(pool, "b", &[need(Zone::Super, CHUNK)]).map(|_| ()),
        |pool| remove(pool, "a"),
        |pool| create(pool, "c", &[need(Zone::Normal, PAGE)]).map(|_| ()),
    ];
    for step in steps {
        let before = shot(&pool);
        if let Err(error) = step(&pool) {
            return (before, Some(error.to_string()), Some(pool));
        }
    }
    let end = shot(&pool);
    let failure = pool.close().err().map(|error| error.to_string());
    (end, failure, None)
}

#[test]
fn m4_crash_every_failed_call_leaves_old_or_new_and_poisons() {
    for model in Model::ALL {
        let counting = new_pool(model);
        let first = counting.calls();
        assert_eq!(run(&counting).1, None);
        let calls = counting.calls() - first;
        println!("{calls} fallible calls");
        for number in 0..calls {
            let memory = new_pool(model);
            memory.fail_nth(first + number);
            let (acknowledged, failure, pool) = run(&memory);
            match failure {
                Some(why) => assert!(why.contains("planted") || why.contains("poisoned"), "call {number}: {why}"),
                // Space that a host refuses is taken elsewhere in the pool; a failed persist is reported.
                None => memory.barrier().unwrap_or_else(|_| panic!("call {number} failed and nobody was told")),
            }
            if let Some(pool) = pool {
                poisoned_or_unchanged(&pool, &acknowledged, number);
            }
            for seed in 0..6 {
                let pool = open(&Arc::new(memory.crash(seed)));
                account(&pool).unwrap_or_else(|error| panic!("call {number}, seed {seed}: {error}"));
                check_content(&pool).unwrap();
                let found = shot(&pool);
                let changed = found.iter().filter(|tag| !acknowledged.contains_key(tag.0)).count();
                let gone = acknowledged.keys().filter(|name| !found.contains_key(*name)).count();
                assert!(changed + gone <= 1, "call {number}, seed {seed}: {found:?} from {acknowledged:?}");
            }
        }
    }
}

/// A refused reserve leaves the pool as it was and usable; a failed persist refuses every later change.
fn poisoned_or_unchanged(pool: &Pool, acknowledged: &Shot, number: u64) {
    assert_eq!(shot(pool), *acknowledged, "call {number}: what failed is not seen");
    let next = create(pool, "next", &[need(Zone::Normal, PAGE)]);
    if pool.memory().barrier().is_err() {
        assert!(next.unwrap_err().to_string().contains("poisoned"), "call {number}");
    } else {
        next.unwrap();
        account(pool).unwrap_or_else(|error| panic!("call {number}: {error}"));
    }
}
