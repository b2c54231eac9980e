use super::*;

#[test]
fn sizes_are_shown_with_the_largest_unit_that_fits() {
    let shown = |bytes| ByteCount(bytes).to_string();
    assert_eq!([0, 100, 1023].map(shown), ["0 B", "100 B", "1023 B"]);
    assert_eq!([1 << 10, 3 << 29, 1 << 30, 2 << 40].map(shown), ["1 KiB", "1.5 GiB", "1 GiB", "2 TiB"]);
    assert_eq!(shown((1 << 20) + 1), "1.0 MiB");
}
