use super::*;
use crate::cache::NarrowSet;

/// Two ways: 0 is written, 3 replaces it, and when 0 is written again it becomes dirty again.
#[test]
fn it_has_what_its_policy_would_have() {
    let mut shadow = ShadowSet::<NarrowSet>::EMPTY;
    let mut lru = |print, is_write| shadow.access(print, is_write, 2, |_| 1).cost(is_write);
    let cost = |misses, dirties| ShadowCost { misses, dirties };
    assert_eq!(lru(0, true), cost(true, true), "no unfilled way is taken for it");
    assert_eq!(lru(2, false), cost(true, false));
    assert_eq!(lru(0, true), cost(false, false), "dirty already");
    assert_eq!(lru(2, false), cost(false, false));
    assert_eq!(lru(3, false), cost(true, false), "0 left");
    assert_eq!(lru(0, true), cost(true, true));
    assert_eq!(lru(3, true), cost(false, true));
    assert!(shadow.access(7, false, 2, |_| 0).cost(false).misses);
    assert!(!shadow.access(0, false, 2, |_| 0).cost(false).misses, "3 left, which was the most recent");
}
