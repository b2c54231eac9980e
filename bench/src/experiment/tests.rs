//! The table of experiments.

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_experiment_is_found_by_its_name_alone() {
    let names: BTreeSet<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    assert_eq!(names.len(), EXPERIMENTS.len());
    for experiment in EXPERIMENTS {
        assert!(find(experiment.name).is_some_and(|found| found.about == experiment.about), "{}", experiment.name);
    }
    assert!(find("proetction").is_none() && find("").is_none() && find("Zones").is_none());
}

/// `ferrite bench --list` has a line for each, which a terminal holds.
#[test]
fn every_experiment_is_described_in_a_line_with_its_source() {
    for Experiment { name, about, .. } in EXPERIMENTS {
        assert!(name.len() <= 14 && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'), "{name}");
        assert!(about.len() < 125 && !about.contains('\n') && about.contains('('), "{name}: {about}");
    }
}

#[test]
fn shorter_runs_are_shorter() {
    for Experiment { name, expected_ms: [full, quick, smoke], .. } in EXPERIMENTS {
        assert!(full > quick && quick >= smoke && *quick < 180_000, "{name}: {full} {quick} {smoke}");
    }
}

/// A report without claims or charts compares with nothing.
#[test]
fn every_experiment_has_claims_lines_and_charts() {
    for Experiment { name, verdict, paper, charts, .. } in EXPERIMENTS {
        assert!(!verdict.is_empty() && !paper.is_empty() && !charts.is_empty(), "{name}");
    }
}
