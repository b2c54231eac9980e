use super::*;

const BOTH: ShadowCost = ShadowCost { misses: true, dirties: true };
const NONE: ShadowCost = ShadowCost { misses: false, dirties: false };
const MISS: ShadowCost = ShadowCost { misses: true, dirties: false };
const DIRTY: ShadowCost = ShadowCost { misses: false, dirties: true };

/// After eight misses that LRU does not have, a writeback weighs a step less; after eight that only LRU has, a step
/// more.
#[test]
fn the_weight_follows_the_misses() {
    let mut allowance = WritebackAllowance::default();
    assert_eq!(allowance.weight(), 10);
    (0..8).for_each(|_| allowance.access(NONE, MISS));
    assert_eq!(allowance.weight(), 8);
    (0..8).for_each(|_| allowance.access(MISS, NONE));
    assert_eq!(allowance.weight(), 10);
    (0..10_000).for_each(|_| allowance.access(MISS, NONE));
    assert_eq!(allowance.weight(), 431);
}

/// LRU is trusted until its losses exceed chance; half of the trust is reached 8 writebacks later. LRU is trusted again
/// soon after it was better, however long the time before.
#[test]
fn what_was_learned_is_trusted_when_it_would_have_saved() {
    let mut allowance = WritebackAllowance::default();
    let mut after = |count, lru, own| {
        (0..count).for_each(|_| allowance.access(lru, own));
        allowance.trust()
    };
    assert_eq!(after(4, DIRTY, NONE), 0);
    assert_eq!(after(8, DIRTY, NONE), WritebackAllowance::TRUST / 2);
    assert_eq!(after(10_000, DIRTY, NONE), WritebackAllowance::TRUST);
    assert_eq!(after(16, NONE, DIRTY), 0);
    assert_eq!(after(10_000, NONE, DIRTY), 0);
    assert_eq!(after(6, DIRTY, NONE), 1, "one is owed, four prove nothing");
}

/// Nine misses with eight to spare: until the ninth is saved again, 3/64 at a time, there is no trust.
#[test]
fn what_is_owed_has_to_be_saved_again() {
    let mut allowance = WritebackAllowance::default();
    (0..20).for_each(|_| allowance.access(DIRTY, NONE));
    (0..9).for_each(|_| allowance.access(NONE, MISS));
    assert_eq!((allowance.trust(), allowance.weight()), (0, 8));
    let tries = (1..2000).find(|_| {
        allowance.access(BOTH, BOTH);
        allowance.trust() == WritebackAllowance::TRUST
    });
    assert_eq!(tries, Some(64_usize.div_ceil(3)));
}
