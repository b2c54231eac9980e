use super::*;

#[test]
fn numbers_and_times_are_read_exactly_or_refused() {
    assert_eq!([digits(b"0"), digits(b"18446744073709551615")], [Some(0), Some(u64::MAX)]);
    for wrong in [&b""[..], b"-1", b"1x", b"18446744073709551616", b"99999999999999999999"] {
        assert_eq!(digits(wrong), None, "{wrong:?}");
    }
    let seconds = |text: &str| time_ns(text.as_bytes(), 1_000_000_000, "time");
    assert_eq!(seconds("12.000345"), Ok(12_000_345_000));
    assert_eq!((seconds("3"), seconds("0.1234567899")), (Ok(3_000_000_000), Ok(123_456_789)));
    assert!(["", ".5", "1.5.2", "99999999999"].into_iter().all(|text| seconds(text).is_err()));
}

/// Python and awk print small and large times so.
#[test]
fn times_with_an_exponent_are_read_exactly_or_refused() {
    let seconds = |text: &str| time_ns(text.as_bytes(), 1_000_000_000, "time");
    assert_eq!(
        [seconds("5e-05"), seconds("1.25e-3"), seconds("1.5E+2")].map(Result::unwrap),
        [50_000, 1_250_000, 150_000_000_000]
    );
    assert_eq!([seconds("3e0"), seconds("0e999"), seconds("1e-400")].map(Result::unwrap), [3_000_000_000, 0, 0]);
    let wrong = ["e5", "5e", "5e-", "1e11", "5e99", "5e1.5", "1e5e5", "-1e5", "0x1e5", "5e99999999999999999999"];
    assert!(wrong.into_iter().all(|text| seconds(text).is_err()));
}

#[test]
fn spans_that_overflow_are_refused() {
    assert_eq!(sectors(2, 3), Ok(Span::new(1024, 1536)));
    assert!(sectors(u64::MAX, 1).is_err() && sectors(1 << 55, 0).is_err() && sectors((1 << 55) - 1, 1).is_err());
}

#[test]
fn long_words_are_cut_in_messages() {
    assert_eq!(quoted(b"a\n"), "\"a\\n\"");
    assert_eq!(quoted(&[b'x'; 100]).len(), 45);
}
