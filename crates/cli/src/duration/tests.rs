use super::*;

#[test]
fn durations_are_read_as_they_are_shown() {
    let rows = [("500ms", 500_000_000), ("10s", 10_000_000_000), ("5m", 300_000_000_000), ("2h", 7_200_000_000_000)];
    for (text, ns) in rows {
        assert_eq!(parse(text), Ok(ns), "{text}");
        assert_eq!(show(ns), text);
    }
    assert_eq!(parse("0"), Ok(0));
    assert_eq!(show(90_000_000_000), "90s");
    assert_eq!(parse(&show(0)), Ok(0));
    for text in ["", "10", "s", "-1s", "1.5s", "1w", "99999999999999d"] {
        let why = parse(text).expect_err(text);
        assert!(why.contains("is no duration") && why.contains("5m"), "{why}");
    }
}

#[test]
fn percentages_are_read_as_they_are_shown() {
    for (text, permille_of) in [("10%", 100), ("2.5%", 25), ("0.1%", 1), ("100%", 1000)] {
        assert_eq!(permille(text), Ok(permille_of), "{text}");
        assert_eq!(show_permille(permille_of), text);
    }
    for text in ["", "10", "%", "-1%", "1.25%", "101%", "1.%", ".5%"] {
        assert!(permille(text).expect_err(text).contains("is no percentage"), "{text}");
    }
}
