use super::*;
use crate::cache::NarrowSet;

const BOTH: ShadowCost = ShadowCost { misses: true, dirties: true };
const NONE: ShadowCost = ShadowCost { misses: false, dirties: false };
const MISS: ShadowCost = ShadowCost { misses: true, dirties: false };
const DIRTY: ShadowCost = ShadowCost { misses: false, dirties: true };

fn paid(cost: ShadowCost, more_at_risk: i64) -> AccessCost {
    AccessCost { cost, more_at_risk }
}

/// A new bank may lose two writebacks. 128 writebacks of LRU pay for a third.
#[test]
fn a_debt_is_paid_by_what_lru_may_be_exceeded_by() {
    let mut budget = LossBudget::of(1000);
    (0..2).for_each(|_| budget.access(NONE, paid(DIRTY, 0), paid(NONE, 0)));
    assert!(!budget.is_spent());
    budget.access(NONE, paid(DIRTY, 0), paid(NONE, 0));
    let repaid = (1..1000).find(|_| {
        budget.access(BOTH, paid(BOTH, 0), paid(BOTH, 0));
        !budget.is_spent()
    });
    assert_eq!(repaid, Some(128));
}

/// Savings do not expire, and saturate at the number of lines.
#[test]
fn what_was_saved_may_be_at_risk() {
    let mut budget = LossBudget::of(16);
    (0..10).for_each(|_| budget.access(DIRTY, paid(NONE, 0), paid(DIRTY, 3)));
    budget.access(NONE, paid(NONE, 12), paid(NONE, 0));
    assert!(!budget.is_spent());
    budget.access(NONE, paid(NONE, 1), paid(NONE, 0));
    assert!(budget.is_spent());
    (0..1000).for_each(|_| budget.access(DIRTY, paid(NONE, 0), paid(DIRTY, 0)));
    assert!(!budget.is_spent());
    budget.access(NONE, paid(NONE, 4), paid(NONE, 0));
    assert!(budget.is_spent(), "17 at risk");
}

/// Savings of the shadow that always trusts suffice while the sets themselves are not behind LRU.
#[test]
fn the_trusting_shadow_covers_the_risk_of_the_sets() {
    let mut budget = LossBudget::of(16);
    budget.access(NONE, paid(NONE, 9), paid(NONE, 5));
    (0..7).for_each(|_| budget.access(DIRTY, paid(DIRTY, 0), paid(NONE, 0)));
    assert!(budget.is_spent());
    budget.access(DIRTY, paid(DIRTY, 0), paid(NONE, 0));
    assert!(!budget.is_spent(), "five are at risk, and ten were saved");
    (0..3).for_each(|_| budget.access(NONE, paid(DIRTY, 0), paid(NONE, 0)));
    assert!(budget.is_spent());
}

#[test]
fn misses_that_are_not_allowed_spend_it() {
    let mut budget = LossBudget::of(16);
    (0..8).for_each(|_| budget.access(NONE, paid(MISS, 0), paid(NONE, 0)));
    assert!(!budget.is_spent());
    budget.access(NONE, paid(MISS, 0), paid(NONE, 0));
    assert!(budget.is_spent());
}

/// Two ways: the set replaces line 1, which is dirty, and LRU replaces line 2.
#[test]
fn a_dirty_line_that_only_lru_holds_is_at_risk() {
    let (mut lru, mut mirror) = (ShadowSet::<NarrowSet>::EMPTY, SetMirror::<2>::EMPTY);
    let mut access = |print, is_write, way, is_hit| {
        lru.access(print, is_write, 2, |_| 1);
        mirror.access(print, is_write, ShadowAccess { way, is_hit, was_dirty: is_hit }, &lru)
    };
    assert_eq!(access(2, true, 0, false), 0);
    assert_eq!(access(1, true, 1, false), 0);
    assert_eq!(access(3, false, 1, false), 1, "1 is dirty under LRU alone");
    assert_eq!(access(2, false, 0, true), -1, "and now LRU has given it up, too");
}
