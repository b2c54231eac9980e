use super::*;

#[test]
fn the_seeds_are_valid() {
    let [member, grant] = seeds().try_into().expect("two");
    let found = decode_member(&member.try_into().expect("128 bytes"), 0).expect("the member slot's layout changed");
    assert_eq!(found.expect("used").label, "disk");
    let found = decode_slot(&grant.try_into().expect("128 bytes"), 0, PAGES).expect("the grant slot's layout changed");
    assert_eq!(found.expect("used").record.extents.len(), 1);
}
