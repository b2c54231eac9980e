use super::*;

#[test]
fn the_seeds_are_whole_conversations() {
    for (which, seed) in seeds().iter().enumerate() {
        assert!(converse(seed), "conversation {which} is not understood to its end");
        let cut_short = &seed[..seed.len() - 1];
        assert!(!converse(cut_short), "conversation {which} ended in good order without its last byte");
    }
}
