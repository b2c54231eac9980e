use super::*;

/// N15: all shares stay within the budget, a drop or a release returns bytes, and a refusal acquires none.
#[test]
fn shares_are_of_one_whole() {
    let all = Arc::new(Budget::default());
    let mut shares: Vec<Share> = (0..3).map(|_| Share::none(Arc::clone(&all))).collect();
    assert!(shares[0].raise(ALL_BYTES / 2) && shares[0].raise(ALL_BYTES / 4) && shares[1].raise(ALL_BYTES / 2));
    assert!(!shares[2].raise(1) && !shares[1].raise(ALL_BYTES));
    shares[0].release();
    assert!(shares[2].raise(ALL_BYTES / 2));
    drop(shares);
    assert_eq!(all.0.load(Ordering::Relaxed), ALL_BYTES);
}
