//! Rows and the verdict of drives that are made by hand.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_erases_copies_and_the_speed() {
    let mut rows = case("fio, page-level: erases", "erase", &[("ext4", 100.0), ("xfs", 80.0), ("btrfs", 150.0)]);
    rows.extend(case("fio, FAST: erases", "erase", &[("ext4", 200.0), ("xfs", 100.0)]));
    rows.extend(case("fio, page-level: copied per erase", "pages", &[("ext4", 20.0), ("xfs", 25.0)]));
    rows.extend(case("rewrite, page-level: copied per erase", "pages", &[("ext4", 31.0)]));
    rows.extend(case(speed::CASE, "M/s", &[("page-level", 6.0), ("FAST", 5.5)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "erases beside ext4: xfs, page-level 0.80, xfs, FAST 0.50, btrfs, page-level 1.50; the paper draws its figures \
         without numbers",
            "pages copied for each erase: page-level 20 to 31",
            "million random writes simulated a second, of 5 wanted: page-level 6.0, FAST 5.5",
        ]
    );
}

/// A trace that reached a drive changes its figures, and one that reached none leaves them.
#[test]
fn a_traced_write_is_a_write_of_the_host() {
    let bytes = 8 << 20;
    let error = Drives::of(bytes).expect("drives").end().expect_err("a load that writes nothing is a mistake");
    assert!(error.to_string().contains("it is empty"), "{error}");
    let drives = Drives::of(bytes).expect("drives");
    let mut trace = drives.trace();
    let text =
        "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x write 0 8192\n/dev/x write 65536 4096\n/dev/x close\n";
    std::io::Write::write_all(&mut trace, text.as_bytes()).expect("both drives take it");
    std::io::Write::flush(&mut trace).expect("it is passed on");
    drop(trace);
    let worn = drives.end().expect("nothing fails");
    assert_eq!(worn.iter().map(|figures| figures.host_writes).collect::<Vec<_>>(), [3, 3]);
}
