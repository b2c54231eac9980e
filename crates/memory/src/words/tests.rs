use std::sync::atomic::Ordering;

use super::*;

#[test]
fn two_mappings_have_the_same_words() {
    let one = SharedWords::<0>::new(1000).expect("memory");
    let other = SharedWords::<1000>::of(one.share().expect("a descriptor")).expect("they are shared");
    assert_eq!(other.count(), 1000);
    one.word(999).store(7, Ordering::Release);
    assert_eq!((other.word(999).load(Ordering::Acquire), other.word(0).load(Ordering::Acquire)), (7, 0));
    assert_eq!(other.first()[999].load(Ordering::Acquire), 7);
    assert!(SharedWords::<1001>::of(one.share().expect("a descriptor")).is_err(), "they are fewer");
}

#[test]
fn what_may_shrink_is_refused() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(4096).expect("room");
    assert!(SharedWords::<0>::of(file.into()).is_err());
}
