//! The stamps of members.

use ferrite_pool::tie::{Generation, TieRole};

use super::*;

fn stamp() -> MemberStamp {
    let generation = Generation::first(3);
    let record = TieRecord { role: TieRole::Ssd, pool: [1; 16], object: [2; 16], generation, previous: None };
    MemberStamp { record, cache: 4, id: 5, leb_bytes: 1 << 20, lebs: 100 }
}

#[test]
fn stamp_with_a_flipped_bit_does_not_count() {
    let page = stamp().encode();
    assert_eq!(MemberStamp::decode(&page), Some(stamp()));
    for bit in 0..100 * 8 {
        let mut flipped = page.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(MemberStamp::decode(&flipped), None, "bit {bit}");
    }
    assert_eq!(MemberStamp::decode(&page[..100]), None, "a page that ends early");
}
