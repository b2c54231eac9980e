use super::*;

#[test]
fn the_seeds_are_valid() {
    let seed = seeds().remove(0);
    let field = FIELD.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(field.repaired(&seed), seed, "the segment's layout changed");
    assert_eq!((field.read(seed.clone()).len(), field.records.len()), (6, 6));
    let mut hurt = seed;
    hurt[LINES_AT + 64 + 20] ^= 1;
    assert_eq!(field.read(hurt.clone()).len(), 1);
    assert_eq!(field.read(field.repaired(&hurt)).len(), 6);
}
