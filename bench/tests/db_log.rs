//! The experiment with databases runs whole, and what it reports has every database in every place.

use ferrite_bench::{BenchOptions, CaseFilter, Length, find};
use ferrite_devnode as attach;

#[test]
fn every_database_commits_in_every_place() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let options = BenchOptions {
        length: Length::Smoke,
        place: folder.path().into(),
        ferrite: None,
        threads_many: 3,
        only: CaseFilter::default(),
    };
    let report = find("db-log").expect("registered").run(&options, &mut |_| true).unwrap_or_else(|why| panic!("{why}"));
    for row in &report.rows {
        assert!(row.value.is_finite() && row.value > 0.0 && row.ratio.is_finite(), "{row:?}");
        assert!(report.row(&row.case, &row.beside).is_some(), "{row:?} is beside nobody");
    }
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
    for (case, places) in [("Redis SET, 1 client", 7), ("Redis SET, 50 clients", 7), ("PostgreSQL update", 7)] {
        let found = report.rows.iter().filter(|row| row.case == case).count();
        assert!(found == places || report.verdict.contains(&format!("{case} was left out")), "{case}: {found}");
    }
    report.svg().expect("it can be drawn");
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "something else was left behind");
}
