use std::collections::HashMap;

use super::*;

/// Some lines are written so often that their counts are carried, more than once.
#[test]
fn counts_are_those_of_a_map() {
    let (mut writes, mut map) = (WriteCounts::new(2), HashMap::new());
    for n in 0..50_000_u64 {
        let line = if n % 3 == 0 { n % 17 * 4 + 3 } else { (n * n) % 7919 * 4096 + 3 };
        writes.add(line);
        *map.entry(line).or_insert(0_u64) += 1;
    }
    assert!(map.values().any(|count| *count > 3 * u64::from(FULL)));
    assert_eq!(writes.iter().collect::<HashMap<_, _>>(), map);
}

/// The count is right around each carry: at 255 before the next write, at 256 and 510 after.
#[test]
fn a_count_is_carried_when_it_is_full() {
    let mut writes = WriteCounts::new(0);
    for count in 1..=3 * u64::from(FULL) + 1 {
        writes.add(9);
        assert_eq!(writes.iter().collect::<Vec<_>>(), [(9, count)]);
    }
}
