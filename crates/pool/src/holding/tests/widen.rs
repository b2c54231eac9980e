//! HO6: a widening of two parts under crashes.

use ferrite_crash::{Crash, CrashReport, explore};

use super::*;
use crate::layout::{CHUNK, LANES};
use crate::tests::support::BOOT;
use crate::tests::support::CheckVerdict;
use crate::tests::support::DeafMemory;
use crate::tests::support::MemoryCall;
use crate::tests::support::nested;
use crate::tests::support::options;
use crate::tests::support::reopen;

/// The two parts that are widened.
const ROLES: [Role; 2] = [Role(2), Role(3)];
const CONTENT: &[u8] = b"of before";

fn parts(pages: [u64; 2]) -> [RoleSpace; 2] {
    [0, 1].map(|index| RoleSpace { role: ROLES[index], bytes: pages[index] * PAGE })
}

fn pages(held: &TagLease) -> [u64; 2] {
    ROLES.map(|role| held.stream(role).len() / PAGE)
}

fn content_at(held: &TagLease, role: Role) -> u64 {
    held.stream(role).locate(0).expect("it has a page").at
}

/// Widens the parts of a tag by `widen`, which has `extents` in each of them: few are in its slot, many on pages of their
/// own.
fn run(
    model: Model,
    extents: u64,
    ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static,
    widen: impl Fn(&TagLease, [u64; 2]),
) -> CrashReport {
    let memory = new_pool(model);
    let pool = Arc::new(Pool::open(DeafMemory::new(&memory, ignores), BOOT).unwrap().0);
    spec("a", false).create(&pool).unwrap();
    let held = pool.hold("a").unwrap();
    // Turn by turn, so that none goes on where the last one of its part ended.
    for (pages, role) in (1..=extents).flat_map(|pages| ROLES.map(|role| (pages, role))) {
        held.widen(&[RoleSpace { role, bytes: pages * PAGE }]).unwrap();
    }
    ROLES.into_iter().for_each(|role| held.memory().store(content_at(&held, role), CONTENT, Scheme::Nt));
    held.drain().unwrap();
    memory.barrier().unwrap();
    memory.forget_trace();
    let wanted = [extents + 2, extents + 3];
    widen(&held, wanted);
    memory.mark(1);
    explore(&memory, &options(1 << 8, 60), |crash| judge(crash, [extents; 2], wanted))
}

/// The parts are as long as before or as wanted, both, with their content, and go on.
fn judge(crash: &Crash<'_>, before: [u64; 2], wanted: [u64; 2]) -> CheckVerdict {
    let (memory, pool) = reopen(crash)?;
    let pool = Arc::new(pool);
    let found = found(&pool)?;
    if found != wanted && (found != before || crash.last_mark().is_some()) {
        return Err(format!("HO6: {before:?} pages became {found:?} for {wanted:?}"));
    }
    if crash.place().variant % 40 == 0 {
        nested(&memory, |crash| {
            let again = self::found(&Arc::new(reopen(crash)?.1))?;
            if again == found { Ok(()) } else { Err(format!("HO6: {again:?} pages after {found:?}")) }
        })?;
    }
    let held = pool.hold("a").map_err(|error| error.to_string())?;
    held.widen(&parts(wanted)).map_err(|error| error.to_string())?;
    drop(held);
    if self::found(&pool)? == wanted { Ok(()) } else { Err("HO6: it is not widened again".into()) }
}

/// Pages of the parts in a pool that holds together.
fn found(pool: &Arc<Pool>) -> CheckVerdict<[u64; 2]> {
    account(pool)?;
    let held = pool.hold("a").map_err(|error| error.to_string())?;
    for role in ROLES {
        let mut content = [0; CONTENT.len()];
        held.memory().load(content_at(&held, role), &mut content);
        if content != CONTENT {
            return Err(format!("HO6: {content:?} in role {}", role.0));
        }
    }
    Ok(pages(&held))
}

fn at_once(held: &TagLease, wanted: [u64; 2]) {
    held.widen(&parts(wanted)).unwrap();
}

#[test]
fn ho6_crash_widens_both_parts_or_none() {
    for (model, extents) in Model::ALL.into_iter().flat_map(|model| [(model, 1), (model, 5)]) {
        let report = run(model, extents, |_| false, at_once);
        println!("widen: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_widening_part_by_part_is_caught() {
    for model in Model::ALL {
        let by_part = |held: &TagLease, wanted| parts(wanted).iter().for_each(|part| held.widen(&[*part]).unwrap());
        run(model, 1, |_| false, by_part).expect_failure();
    }
}

#[test]
fn canary_a_widening_without_the_fence_of_its_commit_is_caught() {
    for model in Model::ALL {
        let unsettled = |call| matches!(call, MemoryCall::Settle(span) if (LANES..CHUNK).contains(&span.at));
        run(model, 1, unsettled, at_once).expect_failure();
    }
}
