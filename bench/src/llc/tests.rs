//! The verdict of hand-made reports, inputs, and which programs are run.

use super::*;
use crate::options::{BenchOptions, Length};
use crate::tests::{case, options, report, verdict};

fn policies(worth: f64) -> [(&'static str, f64); 5] {
    [("lru", 1.0), ("protect-0", 0.8), ("protect-4", 0.85), ("partitioned-4x4", 1.5), ("worth", worth)]
}

#[test]
fn the_verdict_has_the_papers_means() {
    let means = ["2.5 lifetime, mean of ratios", "2.6 energy, mean of ratios", "2.8 misses, mean of ratios"];
    let rows = means.into_iter().flat_map(|name| case(name, "", &policies(2.0))).collect();
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "lifetime beside LRU, mean: protect-0 0.80, protect-4 0.85, partitioned-4x4 1.50 (paper: 1.49)",
            "energy beside LRU, mean: protect-0 0.80 (paper: 0.81), protect-4 0.85 (paper: 0.84), partitioned-4x4 1.50 (paper: \
         0.79)",
            "misses beside LRU, mean: protect-0 0.80, protect-4 0.85, partitioned-4x4 1.50",
        ]
    );
}

#[test]
fn the_verdict_has_our_policy_by_group_and_by_size() {
    let mut rows = Vec::new();
    for group in ["designed on", "2 MiB"] {
        for (what, worth) in
            [(means::LIFETIME, 2.0), (means::LEAST, 1.1), (means::MISSES, 1.02), (means::MOST, 1.2), (means::GAP, 0.5)]
        {
            rows.extend(case(&means::case(group, what), "", &policies(worth)));
        }
    }
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "worth, programs that it was designed on: lifetime 2.00, of protect-0 0.80, of partitioned-4x4 1.50, misses 1.02, of \
         protect-0 0.80, of partitioned-4x4 1.50, misses at most 1.20, of the gap closed 0.50",
            "worth at 2 MiB: lifetime 2.00, the least lifetime 1.10, misses at most 1.20",
        ]
    );
}

#[test]
fn speeds_are_told_by_their_harmonic_mean_and_the_slowest() {
    let mut rows = case(&format!("{}awk", speed::CASE), "M/s", &[("lru", 300.0), ("worth", 100.0)]);
    rows.extend(case(&format!("{}sort", speed::CASE), "M/s", &[("lru", 300.0), ("worth", 300.0)]));
    let text = speed_text(&report(rows)).expect("both were measured");
    assert_eq!(
        text,
        "million events simulated a second on one core: 150 of worth's (at the least 100), 300 of lru's (at the least 300)"
    );
    assert_eq!(speed_text(&report(Vec::new())), None);
    let accesses =
        case("accesses through the first level and LRU, gzip", "M/s", &[("live", 12.0), ("from a file", 40.0)]);
    assert_eq!(verdict(EXPERIMENT.verdict, accesses), ["million accesses a second: live 12.0, from a file 40"]);
}

#[test]
fn a_ratio_to_nothing_is_one() {
    assert_eq!(beside_lru("a", "worth", 3.0, 2.0).ratio, 1.5);
    assert_eq!(beside_lru("a", "worth", 3.0, 0.0).ratio, 1.0);
}

/// Programs that see other inputs each time cannot be compared.
#[test]
fn inputs_are_the_same_each_time() {
    let place = tempfile::tempdir().expect("a folder");
    let [one, other] = [(); 2].map(|()| {
        let scratch = Scratch::new(place.path()).expect("made");
        let inputs = inputs::make(&scratch, Length::Smoke).expect("written");
        (scratch, inputs)
    });
    let mut names = 0;
    for entry in std::fs::read_dir(&one.1).expect("there").flatten() {
        let (mine, theirs) = (std::fs::read(entry.path()), std::fs::read(other.1.join(entry.file_name())));
        let mine = mine.expect("there");
        assert!(!mine.is_empty() && mine == theirs.expect("there"), "{:?}", entry.file_name());
        names += 1;
    }
    assert_eq!(names, 18);
    let text = std::fs::read_to_string(one.1.join("text")).expect("words");
    assert!((1 << 18..(1 << 18) + 16).contains(&text.len()));
}

#[test]
fn a_short_run_has_the_quick_programs_only() {
    let options = |length| BenchOptions { length, ..options(Some("sort, ")) };
    let names = |length| {
        let (ready, missing) = programs::ready(&options(length));
        (ready.iter().map(|entry| entry.name).collect::<Vec<_>>(), missing)
    };
    assert_eq!(names(Length::Smoke), (vec!["sort, 8 threads"], vec![]));
    assert_eq!(names(Length::Full).0.len(), 4);
}

#[test]
fn programs_have_the_caches_of_the_paper() {
    let options = BenchOptions { length: Length::Full, ..options(None) };
    for entry in programs::ready(&options).0 {
        assert_eq!(SIZES[own_size(entry)], if entry.is_threaded { 8 } else { 2 }, "{}", entry.name);
    }
}

/// The report of a small program that reads and writes more lines than the cache has.
fn studied() -> Studied {
    let mut study = Study::new(model(1)).expect("there is such a cache");
    let events: Vec<CacheEvent> = (0..200_000_u64)
        .map(|at| if at % 3 == 0 { CacheEvent::write(at * 7 % 40_000) } else { CacheEvent::read(at % 50_000) })
        .collect();
    study.feed(&events);
    study.finish("by hand")
}

#[test]
fn every_policy_has_a_row_beside_lru_in_every_mean() {
    let report = studied();
    let policies = report.policies.len();
    for PaperFigure { what, of, .. } in FIGURES {
        let rows = means::of_figure("2.5", what, of, &[&report, &report]);
        assert_eq!(rows.len(), policies * if what == "lifetime" { 3 } else { 4 }, "{what}");
        let lru = rows.iter().filter(|row| row.subject == "lru");
        assert!(lru.into_iter().all(|row| (row.ratio - 1.0).abs() < 1e-9 && row.beside == "lru"), "{what}");
        assert!(
            rows.iter().all(|row| row.ratio.is_finite() && row.case.starts_with(&format!("2.5 {what}, "))),
            "{what}"
        );
    }
    assert!(means::of_figure("2.5", "misses", |one| one.misses() as f64, &[]).is_empty());
}

#[test]
fn a_group_has_every_mean_of_every_policy() {
    let report = studied();
    let rows = means::of_group("held out", &[&report]);
    assert_eq!(rows.len(), 5 * report.policies.len());
    let of = |what: &str, policy: &str| {
        let case = means::case("held out", what);
        rows.iter().find(|row| row.case == case && row.subject == policy).map(|row| row.ratio).expect("a row")
    };
    for policy in report.policies.iter().map(|one| one.policy.as_str()) {
        // Of one program the mean, the least and the most are the same.
        assert!((of(means::LIFETIME, policy) - of(means::LEAST, policy)).abs() < 1e-9, "{policy}");
        assert_eq!(of(means::MISSES, policy), of(means::MOST, policy), "{policy}");
    }
    assert_eq!(of(means::MISSES, "lru"), 1.0);
    assert!(means::of_group("held out", &[]).is_empty());
}

#[test]
fn no_policy_writes_back_less_than_the_bound() {
    let report = studied();
    let rows = figure_rows("by hand", &report, FIGURES.iter().map(|figure| ("4 MiB".to_owned(), figure)));
    let writebacks: Vec<&ReportRow> = rows.iter().filter(|row| row.case == "4 MiB writebacks, by hand").collect();
    let bound = writebacks.iter().find(|row| row.subject == BOUND).expect("the bound").value;
    assert_eq!(writebacks.len(), report.policies.len() + 1);
    assert!(bound > 0.0 && writebacks.iter().all(|row| row.value >= bound), "{writebacks:?}");
}

/// Figure 2.14 compares parts of a cache, so the shares of all parts together are the whole.
#[test]
fn accesses_of_the_quarters_add_up() {
    let report = studied();
    let mut control = QuarteredCaches::new(model(1).llc).expect("there is such a cache");
    let events: Vec<CacheEvent> = (0..10_000_u64).map(|at| CacheEvent::read(at * 13)).collect();
    control.feed(&events);
    let mut rows = Vec::new();
    control.add_rows(&mut rows, &report);
    for policy in ["protect-0, 4 ways", "protect-1, 4 ways"] {
        let shares = rows.iter().filter(|row| row.subject == policy && row.case.starts_with("2.14 accesses"));
        let sum: f64 = shares.map(|row| row.value).sum();
        assert!((sum - 4.0).abs() < 1e-9, "{policy}: {sum}");
    }
}
