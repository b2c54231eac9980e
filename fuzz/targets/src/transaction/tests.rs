use super::*;

#[test]
fn the_seeds_are_valid() {
    let counts: Vec<usize> = seeds().iter().map(|seed| changes(seed, SIZE).expect("it is refused").len()).collect();
    assert_eq!(counts, [4, 1]);
}
