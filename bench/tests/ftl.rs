//! The experiment with flash drives runs whole, and what it reports has every file system under every load.

use std::collections::BTreeSet;

use ferrite_devnode as attach;

mod support;

#[test]
fn every_load_wears_both_drives_under_every_file_system() {
    let report = support::run("ftl", None, None);
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
            assert_eq!(found, ["ext4", "xfs", "btrfs", "ferrite"].into_iter().filter(here).collect(), "{load}");
        }
    }
    support::assert_drawn(&report, &["Figure 3.11: erases of a page-level drive", "of a FAST drive", "Figure 3.12"]);
}
