use super::*;

#[test]
fn files_move_to_superpages_from_a_size_on_that_one_can_have() {
    for (text, bytes) in [("never", None), ("2M", Some(2 << 20)), ("128T", Some(FILE_BYTES_MAX))] {
        assert_eq!(threshold(text).map(|it| it.0), Ok(bytes));
    }
    for wrong in ["1", "2047K", "129T", "none"] {
        assert!(threshold(wrong).is_err(), "{wrong}");
    }
}
