use super::*;

#[test]
fn timings_are_read_as_people_write_them() {
    assert_eq!(timing("25:200:1500.5"), Ok(FlashTiming { read_ns: 25_000, program_ns: 200_000, erase_ns: 1_500_500 }));
    assert!(["25", "25:200", "a:b:c", "1:2:-3", "1:2:nan"].into_iter().all(|text| timing(text).is_err()));
}
