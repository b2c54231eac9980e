use super::*;

#[test]
fn the_seeds_are_valid() {
    for seed in seeds() {
        let verified = verify_kept(&*disk(&seed), &mut |_| true);
        verified.expect("the seed lacks blocks of the image");
        assert_eq!(repaired(&seed), seed, "the image's layout changed");
        target(&seed);
    }
}
