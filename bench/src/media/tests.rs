//! The verdict of a hand-made report.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_the_papers_media_and_every_peer() {
    let times = [(OURS, 2.0), (LOOP, 1.8), (NBDKIT, 2.2), (QEMU, 2.4), (OWN, 5.0), (SSD, 9.0), (HDD, 180.0)];
    let rows = ["tpcc", "devel"].into_iter().flat_map(|name| case(name, "s", &times)).collect();
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "tpcc, times as long as on ferrite: the simulated hard disk 90 (paper: 110), the simulated SSD 4.5 (paper: 5.7), \
         this machine's disk 2.50",
            "devel, times as long as on ferrite: the simulated hard disk 90 (paper: 1.8)",
            "all applications, times as long as on ferrite: the simulated hard disk 90, the simulated SSD 4.5, the kernel's loop \
         device on tmpfs, which takes no second trip through the kernel, 0.90, nbdkit's memory 1.10, qemu-nbd on tmpfs 1.20; \
         applications that mostly compute gain little, as in the paper",
        ]
    );
}

/// A hard disk answers a hundred requests a second: a plan for memory would take hours on it.
#[test]
fn few_rounds_are_enough_for_a_hard_disk() {
    assert_eq!([Length::Full, Length::Quick, Length::Smoke].map(|length| plan(length).rounds), [5, 3, 1]);
    assert_eq!(applications(Length::Quick).loads, ["untar", "tar", "sfs", "tpcc"]);
    assert_eq!(applications(Length::Full).size.source_bytes, AppSize::of(Length::Full).source_bytes / 4);
}
