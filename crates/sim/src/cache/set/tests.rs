//! Both kinds of sets, compared with a list.

use proptest::prelude::*;

use super::*;

type Move = (u32, u32, bool);

/// Windows of four ways: the window, the rank in it, and whether the line becomes dirty.
fn moves(ways: usize) -> impl Strategy<Value = Vec<Move>> {
    proptest::collection::vec((0..ways as u32 / 4, 0_u32..4, any::<bool>()), 0..120)
}

/// Invariants 1 and 3: a set moves its ways as a list does.
fn moves_as_a_list<S: Set>(moves: Vec<Move>) -> Result<(), TestCaseError> {
    let (mut set, mut list) = (S::EMPTY, (0..S::WAYS).map(|way| (way, false)).collect::<Vec<_>>());
    for (window, within, dirty) in moves {
        let (top, rank) = (window * 4, window * 4 + within);
        set.promote(rank, top, dirty);
        let (way, was) = list.remove(rank as usize);
        list.insert(top as usize, (way, was || dirty));
        let ranks = 0..S::WAYS as u32;
        let ways: Vec<usize> = ranks.clone().map(|rank| set.way(rank)).collect();
        prop_assert_eq!(ways, list.iter().map(|one| one.0).collect::<Vec<_>>());
        let bits = list.iter().enumerate().map(|(rank, one)| u64::from(one.1) << rank).sum::<u64>();
        prop_assert_eq!(set.dirty(), bits);
        prop_assert!(ranks.clone().all(|rank| set.rank(set.way(rank)) == rank));
    }
    Ok(())
}

proptest! {
    #[test]
    fn recency_of_a_narrow_set_moves_as_in_a_list(moves in moves(NarrowSet::WAYS)) {
        moves_as_a_list::<NarrowSet>(moves)?;
    }

    #[test]
    fn recency_of_a_wide_set_moves_as_in_a_list(moves in moves(WideSet::WAYS)) {
        moves_as_a_list::<WideSet>(moves)?;
    }
}

fn compares_way_by_way<S: Set>() {
    let (mut set, last) = (S::EMPTY, S::WAYS as u32 - 1);
    set.replace(3, 77);
    set.replace(last, 77);
    assert_eq!(set.matches(77), 1 << 3 | 1 << last);
    assert_eq!(set.matches(0), ones(0..last + 1) & !(1 << 3 | 1 << last));
    assert_eq!(least_recent(set.clean(0..last + 1)), Some(last));
    assert_eq!(least_recent(0), None);
}

#[test]
fn prints_are_compared_way_by_way() {
    compares_way_by_way::<NarrowSet>();
    compares_way_by_way::<WideSet>();
}
