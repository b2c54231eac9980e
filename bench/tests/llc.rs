//! The figures of the processor cache, as short as they can be.

use ferrite_bench::{Length, Options, Report, find};

/// Its report, of the programs whose names contain `name`.
fn of(name: &str) -> Report {
    let place = tempfile::tempdir().expect("a folder");
    let options = Options {
        length: Length::Smoke,
        place: place.path().into(),
        ferrite: None,
        only: ferrite_bench::Only::containing(Some(name)),
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
            assert!(report.row(&format!("{figure}, mean of ratios"), policy).is_some(), "{figure} {policy}");
        }
    }
    for figure in ["2.9 lifetime", "2.10 energy", "2.11 writebacks", "2.12 misses"] {
        assert!(report.row(&format!("{figure}, sort, 8 threads"), "partitioned-4x4").is_some(), "{figure}");
    }
    assert!(report.row("designed on: lifetime, geometric mean", "worth").is_some_and(|row| row.ratio > 0.0));
    assert!(report.row("2.1 sort: writebacks of a dirty line", "lru").is_some_and(|row| row.value >= 1.0));
    assert!(report.verdict.contains("lifetime"), "{}", report.verdict);
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
