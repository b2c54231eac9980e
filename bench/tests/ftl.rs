//! The experiment with flash drives runs whole, and what it reports has every file system under every load.

use std::collections::BTreeSet;

use ferrite_bench::{BenchOptions, CaseFilter, Length, find};
use ferrite_devnode as attach;

#[test]
fn every_load_wears_both_drives_under_every_file_system() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let options = BenchOptions {
        length: Length::Smoke,
        place: folder.path().into(),
        ferrite: None,
        threads_many: 3,
        only: CaseFilter::default(),
    };
    let report = find("ftl").expect("registered").run(&options, &mut |_| true).unwrap_or_else(|why| panic!("{why}"));
    for row in &report.rows {
        let numbers = [row.value, row.ratio, row.low, row.high];
        assert!(numbers.iter().all(|number| number.is_finite()), "{row:?}");
        assert!(report.row(&row.case, &row.beside).is_some(), "{row:?} is beside nobody");
    }
    let speeds = report.rows.iter().filter(|row| row.unit == "M/s");
    assert_eq!(speeds.map(|row| row.subject.as_str()).collect::<Vec<_>>(), ["page-level", "FAST"]);
    if let Err(why) = attach::check() {
        println!("file systems were not tested: {why}");
        assert!(report.verdict.contains("left out"), "{}", report.verdict);
        return;
    }
    for load in ["postmark", "fio", "rewrite"] {
        let written = report.rows.iter().filter(|row| row.case == format!("{load}: written"));
        let found: BTreeSet<&str> = written.map(|row| row.subject.as_str()).collect();
        if !report.verdict.contains(&format!("{load} was left out")) {
            let here = |name: &&str| !report.verdict.contains(&format!("{name} was left out"));
            assert_eq!(found, ["ext4", "xfs", "btrfs"].into_iter().filter(here).collect(), "{load}");
        }
    }
    report.svg().expect("it can be drawn");
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "something else was left behind");
}
