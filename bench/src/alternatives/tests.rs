//! The verdict of a hand-made report, and which loads are run.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_every_file_system_beside_tmpfs() {
    let times =
        [(TMPFS, 10.0), (RAMFS, 9.0), (MOUNT, 15.0), (CACHED, 12.0), ("ext2 on disk", 20.0), ("xfs on disk", 30.0)];
    assert_eq!(
        verdict(EXPERIMENT.verdict, case("untar", "s", &times)),
        [
            "time of applications beside tmpfs, which keeps nothing: ferrite 1.50, ferrite --cached 1.20, ramfs 0.90, ext2 on \
         disk 2.00 (paper: 1.1 to 3, on PMBD), xfs on disk 3.0",
        ]
    );
}

#[test]
fn every_disk_file_system_has_a_figure() {
    for (name, _) in ON_DISK {
        let lines = verdict(EXPERIMENT.verdict, case("tar", "s", &[(TMPFS, 1.0), (name, 2.0)]));
        assert!(lines.concat().contains(&format!("{name} 2.00")), "{name}: {lines:?}");
    }
}

#[test]
fn a_quick_run_has_the_database_once() {
    let quick = plans(Length::Quick);
    assert_eq!((quick.len(), quick[1].loads, quick[1].rounds), (2, &["tpcc"][..], 1));
    assert_eq!(plans(Length::Full)[0].loads.len(), 8);
}
