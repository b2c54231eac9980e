use super::*;

/// Three of four lines come back at age 9, after ten or eleven steps; one is lost at the end. Their worth grows with
/// age until then, and is next to nothing a moment later.
#[test]
fn what_comes_back_late_is_worth_more_when_it_is_old() {
    let mut reuse = ReuseCounts::new();
    for _ in 0..1000 {
        (0..3).for_each(|_| reuse.came_back(cell(0, 9)));
        reuse.left(cell(0, 19));
    }
    reuse.learn();
    let worth: Vec<u32> = (0..=10).map(|age| reuse.worth(cell(0, age))).collect();
    assert!(worth[..=9].is_sorted(), "{worth:?}");
    assert!(worth[9] > 5 * worth[0] && worth[10] * 50 < worth[9], "{worth:?}");
}

#[test]
fn counts_fade_and_what_was_learned_stays() {
    let mut reuse = ReuseCounts::new();
    (0..64).for_each(|_| reuse.came_back(cell(1, 0)));
    reuse.learn();
    assert_eq!(reuse.back[ROW], 64 * LINE - 64 * LINE / 16);
    assert!(reuse.worth(cell(1, 0)) > reuse.worth(cell(0, 0)), "the other class has seen nothing");
    assert_eq!(reuse.worth(NOTHING), 0);
}
