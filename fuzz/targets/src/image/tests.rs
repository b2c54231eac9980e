use super::*;

#[test]
fn the_seeds_are_valid() {
    for seed in seeds() {
        verify(&mut &seed[..], &mut |_| true).expect("the image's layout changed");
        assert_eq!(repaired(&seed), seed, "the image's layout changed");
        let mut hurt = seed.clone();
        hurt[200] ^= 1;
        assert!(verify(&mut &hurt[..], &mut |_| true).is_err());
        restored(&seed);
    }
}
