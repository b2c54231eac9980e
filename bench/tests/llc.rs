//! The figures of the processor cache, as short as they can be.

use ferrite_bench::{BenchOptions, BenchReport, Length, find};

/// Its report, of the programs whose names contain `name`.
fn of(name: &str) -> BenchReport {
    let place = tempfile::tempdir().expect("a folder");
    let options = BenchOptions {
        length: Length::Smoke,
        place: place.path().into(),
        ferrite: None,
        only: ferrite_bench::CaseFilter::containing(Some(name)),
        threads_many: 2,
    };
    find("llc").expect("it is there").run(&options, &mut |_| true).expect("it runs")
}

/// Every policy of the paper is there, beside LRU, and the means over the programs.
#[test]
fn llc_measures_every_policy_on_a_program_of_one_thread_and_of_eight() {
    if !std::path::Path::new("/usr/bin/qemu-x86_64").exists() {
        println!("skipped: qemu-user is not installed");
        return;
    }
    let report = of("sort");
    for figure in ["2.5 lifetime", "2.6 energy", "2.7 writebacks", "2.8 misses"] {
        for policy in ["lru", "protect-0", "protect-4", "partitioned-4x4", "worth"] {
            let row = report.row(&format!("{figure}, sort"), policy);
            assert!(row.is_some_and(|row| row.ratio > 0.0), "{figure} {policy}");
            for mean in ["mean of ratios", "geometric mean", "median"] {
                assert!(report.row(&format!("{figure}, {mean}"), policy).is_some(), "{figure} {policy} {mean}");
            }
        }
    }
    for figure in ["2.9 lifetime", "2.10 energy", "2.11 writebacks", "2.12 misses"] {
        assert!(report.row(&format!("{figure}, sort, 8 threads"), "partitioned-4x4").is_some(), "{figure}");
    }
    assert!(report.row("designed on: lifetime, geometric mean", "worth").is_some_and(|row| row.ratio > 0.0));
    assert!(report.row("2.1 sort: writebacks of a dirty line", "lru").is_some_and(|row| row.value >= 1.0));
    assert!(report.verdict.contains("lifetime"), "{}", report.verdict);
}

/// Every policy is there at every size, and the bound of its writebacks, which is drawn.
#[test]
fn llc_measures_every_size_of_the_cache() {
    if !std::path::Path::new("/usr/bin/qemu-x86_64").exists() {
        println!("skipped: qemu-user is not installed");
        return;
    }
    let report = of("tsort");
    let own = report.row("2.7 writebacks, tsort", "worth").map(|row| row.value);
    for size in ["1 MiB", "2 MiB", "4 MiB", "8 MiB"] {
        let writebacks = |policy| report.row(&format!("{size} writebacks, tsort"), policy).map(|row| row.value);
        for policy in ["lru", "protect-0", "partitioned-4x4", "worth"] {
            assert!(writebacks("bound") <= writebacks(policy), "{size} {policy}");
            let mean = report.row(&format!("{size}: lifetime, geometric mean"), policy);
            assert!(mean.is_some_and(|row| row.ratio > 0.0), "{size} {policy}");
        }
        assert!(size != "2 MiB" || writebacks("worth") == own && own.is_some(), "{own:?}");
    }
    assert!(
        ["1", "2", "4", "8"].iter().all(|size| report.verdict.contains(&format!("worth at {size} MiB: lifetime "))),
        "{}",
        report.verdict
    );
    assert!(report.svg().expect("it is drawn").contains("bound"));
}

/// Each figure of the paper that the programs give is drawn.
#[test]
fn llc_draws_the_figures_of_the_paper() {
    if !std::path::Path::new("/usr/bin/qemu-x86_64").exists() {
        println!("skipped: qemu-user is not installed");
        return;
    }
    for (program, figures) in [("awk", &["2.1", "2.5", "2.6", "2.7", "2.8", "2.14"][..]), ("bzip2", &["2.1", "2.13"])] {
        let report = of(program);
        for figure in figures {
            let named = format!("(figure {figure})");
            let drawn = report.charts.iter().filter(|chart| chart.title.contains(&named));
            let cases: Vec<&String> = drawn.flat_map(|chart| &chart.cases).collect();
            assert!(!cases.is_empty(), "{program}: {named} is missing");
            assert!(cases.iter().all(|case| report.rows.iter().any(|row| row.case == **case)), "{cases:?}");
        }
    }
}

#[test]
fn llc_measures_how_fast_each_policy_is_simulated() {
    if !std::path::Path::new("/usr/bin/qemu-x86_64").exists() {
        println!("skipped: qemu-user is not installed");
        return;
    }
    let report = of("awk");
    for policy in ["lru", "protect-0", "protect-4", "partitioned-4x4", "worth"] {
        let row = report.row("simulated on one core, awk", policy);
        assert!(row.is_some_and(|row| row.value > 0.0 && row.beside == "lru"), "{policy}");
    }
    assert!(report.verdict.contains("million events simulated a second on one core: "), "{}", report.verdict);
}
