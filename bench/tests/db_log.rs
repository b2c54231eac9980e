//! The experiment with databases runs whole, and what it reports has every database in every place.

use ferrite_devnode as attach;

mod support;

#[test]
fn every_database_commits_in_every_place() {
    let report = support::run("db-log", None, None);
    assert!(report.rows.iter().all(|row| row.value > 0.0));
    for case in ["append 64 B", "append 1024 B"] {
        for subject in ["bare store and fence", "ferrite, strict", "ferrite, relaxed", "ferrite, 16 a fence"] {
            assert!(report.row(case, subject).is_some(), "{case}: {subject}");
        }
    }
    assert!(report.verdict.contains("SQLite update was left out"), "there is no library: {}", report.verdict);
    if let Err(why) = attach::check() {
        println!("file systems were not tested: {why}");
        return;
    }
    if report.rows.iter().any(|row| row.unit == "/s") {
        support::assert_drawn(&report, &["Commits beside those of Ferrite, strict"]);
    }
    for (case, places) in [("Redis SET, 1 client", 7), ("Redis SET, 50 clients", 7), ("PostgreSQL update", 7)] {
        let found = report.rows.iter().filter(|row| row.case == case).count();
        assert!(found == places || report.verdict.contains(&format!("{case} was left out")), "{case}: {found}");
    }
}
