use super::*;

#[test]
fn the_seeds_are_valid() {
    for (seed, wanted) in seeds().into_iter().zip([(100, SPACE_BYTES, true), (0, 0, false)]) {
        target(&seed);
        let field = FIELD.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<u64> = seed.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        field.judge(words.try_into().expect("five"));
        let entry = field.list().expect("the words' layout changed").remove(0);
        assert_eq!((entry.wal_bytes, entry.journal_bytes, entry.marked), wanted);
    }
}
