//! The experiments on caches of SSDs run whole, and report every case with every subject.

use std::collections::BTreeSet;

use ferrite_bench::BenchReport;

mod support;

fn subjects<'a>(report: &'a BenchReport, case: &str) -> BTreeSet<&'a str> {
    report.rows.iter().filter(|row| row.case == case).map(|row| row.subject.as_str()).collect()
}

#[test]
fn multi_ssd_measures_every_cache_and_a_dead_ssd_loses_nothing() {
    let report = support::run("multi-ssd", None, None);
    let cached = ["ferrite", "the paper's policy", "RAID-1", "RAID-0"];
    for mix in ["9:1", "1:1"] {
        let case = |measure: &str| format!("{mix}, zipf 0.5, flash 60 %: {measure}");
        for measure in ["hit ratio", "SSD bytes a byte", "LEBs of SSD 0", "LEBs of SSD 1"] {
            assert_eq!(subjects(&report, &case(measure)), cached.into(), "{}", case(measure));
        }
        let all = cached.into_iter().chain(["no cache"]).collect();
        assert_eq!(subjects(&report, &case("requests")), all);
        let inserts =
            ["LEBs of SSD 0", "LEBs of SSD 1"].map(|ssd| report.row(&case(ssd), "RAID-1").expect("a row").value);
        assert_eq!(inserts[0], inserts[1], "a mirror writes the same to both SSDs");
    }
    assert!(
        report.verdict.contains("requests 0 failed and 0 read wrong data, 0 bytes were lost"),
        "{}",
        report.verdict
    );
    for mix in ["9:1", "1:1"] {
        let case = format!("{mix}, zipf 0.5, flash 60 %: p99 of a request");
        assert_eq!(subjects(&report, &case), ["no destaging", "destaging"].into(), "{case}");
    }
    support::assert_drawn(&report, &["Figure 4.5", "Figures 4.6 and 4.7", "p99", "while an SSD dies"]);
}

#[test]
fn flash_cache_measures_every_scheme_on_both_kinds_of_drives() {
    let report = support::run("flash-cache", None, None);
    let cases: BTreeSet<&str> = report.rows.iter().map(|row| row.case.as_str()).collect();
    assert_eq!(cases.len(), 4, "{cases:?}");
    for case in cases {
        let all = ["base", "flush", "write-through", "nt", "nt and logged table"];
        assert_eq!(subjects(&report, case), all.into(), "{case}");
    }
    support::assert_drawn(&report, &["Figure 6", "over RAM disks"]);
}

#[test]
fn nvmfs_measures_every_load_on_every_file_system() {
    let report = support::run("nvmfs", None, Some(env!("CARGO_BIN_EXE_ferrite-bench-worker").into()));
    if let Err(why) = ferrite_devnode::check() {
        println!("file systems were not tested: {why}");
        assert!(report.verdict.contains("left out"), "{}", report.verdict);
        return;
    }
    for load in ["durable rewrites", "iozone", "iozone-3/4", "fio", "postmark", "file server"] {
        let name = format!("{load}, 60 % live");
        if report.verdict.contains(&format!("{name} was left out")) {
            continue;
        }
        for measure in ["written to the SSD", "write request", "operations", "operations, drained"] {
            let found = subjects(&report, &format!("{name}: {measure}"));
            assert!(found.contains("ferrite") && found.contains("ext4"), "{name}: {measure}: {found:?}");
            let is_compared = found.contains("the paper's rules") && found.contains("ferrite mount");
            assert!(load != "iozone" || is_compared, "{name}: {measure}: {found:?}");
        }
    }
    let references = ["exact LRU", "exact LRU of our content", "Conquest's rule", "bound"];
    for case in ["iozone, 60 % live", "iozone, 90 % live", "fio, 60 % live"] {
        for measure in ["written to the SSD", "hit ratio"] {
            let found = subjects(&report, &format!("{case}: {measure}"));
            assert!(references.iter().all(|name| found.contains(name)), "{case}: {measure}: {found:?}");
        }
    }
    let served = subjects(&report, "file server, 60 % live: written to the SSD");
    assert!(served.contains("Conquest's rule") && served.contains("bound"), "{served:?}");
    for case in ["tier or none: reads", "tier or none: overwrites"] {
        assert_eq!(subjects(&report, case), ["ferrite", "no tier"].into());
    }
    let recovery = subjects(&report, "recovery of a pool with a tier that was killed under load");
    assert!(recovery.contains("ferrite"), "{recovery:?}");
    assert!(report.verdict.contains("geometric mean"), "{}", report.verdict);
    support::assert_drawn(&report, &["Figures 3.7", "Figure 3.8", "Figure 3.10", "Figure 3.13", "Figure 3.14"]);
}
