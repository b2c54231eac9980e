use super::*;

#[test]
fn the_seeds_are_valid() {
    let [slot, page] = seeds().try_into().expect("two");
    let decoded = decode_slot(&slot.try_into().expect("512 bytes"), 0, PAGES);
    let tag = decoded.expect("the slot's layout changed").expect("used").tag;
    assert_eq!((tag.name.as_str(), tag.extents.len()), ("disk0", 1));
    assert_eq!(decode_overflow(&page, 0, PAGES).expect("the page's layout changed").0.len(), 2);
}
