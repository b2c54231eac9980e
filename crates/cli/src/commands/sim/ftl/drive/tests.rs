use super::*;

#[test]
fn blocks_are_read_as_people_write_them() {
    let Blocks { logical, extra } = blocks("64+8").expect("it is right");
    assert_eq!((logical, extra), (64, 8));
    assert!(["64", "+8", "a+b", "64+-8"].into_iter().all(|text| blocks(text).is_err()));
}
