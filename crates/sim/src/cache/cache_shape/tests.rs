use super::*;

#[test]
fn sizes_that_make_a_cache_do_and_others_are_refused() {
    let sets = |bytes, ways| CacheShape { bytes, ways, line_bytes: 64 }.sets().ok();
    assert_eq!(sets(2 << 20, 16), Some(2048));
    assert_eq!(sets(24 << 10, 12), Some(32));
    assert_eq!(sets(64, 1), Some(1));
    assert_eq!(sets(8 << 20, 64), Some(2048));
    for (bytes, ways) in [(0, 1), (2 << 20, 0), (8 << 20, 128), (3 << 20, 16), (100, 1)] {
        assert_eq!(sets(bytes, ways), None, "{bytes} {ways}");
    }
    assert!(CacheShape { bytes: 4096, ways: 4, line_bytes: 48 }.sets().is_err());
}
