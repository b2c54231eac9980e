use super::*;

fn parsed(line: &str) -> Result<CommandLine, String> {
    parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), 7)
}

#[test]
fn good_words_are_understood() {
    let runs = |seed, rounds| Ok(CommandLine::Soak(Runs { seed, rounds }));
    assert_eq!(parsed(""), Ok(CommandLine::Help));
    assert_eq!(parsed("soak --help"), Ok(CommandLine::Help));
    assert_eq!(parsed("test --quick"), Ok(CommandLine::Test { quick: true }));
    assert_eq!(parsed("soak"), runs(7, SOAK_ROUNDS));
    assert_eq!(parsed("soak --seed 5"), runs(5, SOAK_ROUNDS));
    assert_eq!(parsed("soak --rounds 3 --seed 2"), runs(2, 3));
    assert_eq!(parsed("prose docs"), Ok(CommandLine::Prose("docs".into())));
    assert_eq!(parsed("ledger"), Ok(CommandLine::Ledger));
    assert_eq!(parsed("package"), Ok(CommandLine::Package(vec![PackageKind::Wheel, PackageKind::Deb])));
    assert_eq!(parsed("package --deb"), Ok(CommandLine::Package(vec![PackageKind::Deb])));
    assert_eq!(parsed("figures pace"), Ok(CommandLine::Figures(vec!["pace".into()])));
}

#[test]
fn bad_words_are_refused() {
    for line in [
        "nonsense",
        "test --fast",
        "crash",
        "soak --seed",
        "soak --seed x",
        "soak 1",
        "ledger all",
        "figures",
        "package x",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}
