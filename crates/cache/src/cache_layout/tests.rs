//! The sizes of a cache.

use super::*;

#[test]
fn layout_of_a_mebibyte_has_one_header_page() {
    let layout = CacheLayout::new(1 << 20, 64, 100_000).expect("a layout");
    assert_eq!((layout.header_pages(), layout.pages()), (1, 255));
    assert_eq!(layout.table_bytes(), 3136);
    assert!(layout.map_bytes() as f64 <= 0.0031 * 100_000.0 * f64::from(layout.leb_bytes), "0.3 % of the flash");
}

#[test]
fn layout_refuses_what_no_place_can_name() {
    for (leb_bytes, buffers, tables) in [(1 << 13, 8, 8), (3 << 20, 8, 8), (1 << 20, 3, 8), (1 << 20, 8, 1 << 24)] {
        CacheLayout::new(leb_bytes, buffers, tables).expect_err("out of range");
    }
}

#[test]
fn pages_of_each_leb_size_end_within_the_leb() {
    for bits in 14..=23 {
        let layout = CacheLayout::new(1 << bits, 8, 8).expect("a layout");
        assert_eq!(layout.page_in_ssd(1, layout.pages()), 2 << bits);
    }
}
