use std::collections::HashMap;

use super::*;

/// Lines that are near, far, and at the end of the address space, of the second of four banks.
#[test]
fn numbers_are_those_of_a_map() {
    let (mut numbers, mut map) = (LineNumbers::<u64>::new(2), HashMap::new());
    for n in 1..20_000_u64 {
        let line = [n % 300, n * n % 7919 * 70_001, (1 << 52) - 1 - n % 999][n as usize % 3] << 2 | 1;
        *numbers.of(line) += n;
        *map.entry(line).or_insert(0) += n;
    }
    assert!(map.iter().all(|(line, number)| numbers.get(*line) == *number));
    assert_eq!(numbers.iter().collect::<HashMap<_, _>>(), map);
    assert_eq!((numbers.get(1 << 40 | 1), numbers.get(301 << 2 | 1)), (0, 0), "of no line that is there");
}
