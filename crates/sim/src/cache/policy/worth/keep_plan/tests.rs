use super::*;

/// By hand: all of 16 parts come back at age 0 (four accesses, half of that on average) with the chance of the class
/// and of eight others like it: 16 / 144 in common, then (16 + 128 / 9) / 144.
#[test]
fn chances_lean_on_those_of_all_classes() {
    let mut back = ZERO;
    back[0] = [16.0; LANES];
    let common = chances(&back, &ZERO, 128.0, &ZERO);
    assert_eq!((common[0][0], common[1][0]), (1.0 / 9.0, 0.0));
    assert_eq!(chances(&back, &ZERO, 128.0, &common)[0][0], (16.0 + 128.0 / 9.0) / 144.0);
}

/// By hand: a line that certainly comes back within four accesses occupies its way for two of them, whatever follows. A
/// line that certainly comes back at the next age costs four and two. Classes do not affect each other.
#[test]
fn a_line_is_worth_what_it_brings_for_each_access() {
    let mut chances = ZERO;
    chances[0][0] = 1.0;
    chances[1][1] = 1.0;
    let worth = best(&chances);
    assert_eq!((worth[0][0], worth[0][1], worth[0][2]), (32767, 10922, 0), "parts of 65536");
    assert_eq!((worth[1][1], worth[2][1]), (32767, 0), "the older the more, until its time is past");
}
