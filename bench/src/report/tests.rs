//! The shapes of a report: JSON, CSV and the table.

use super::*;

fn report() -> BenchReport {
    let series = |name: &str, values: &[f64]| Series { name: name.into(), values: values.to_vec() };
    let all = [series("bare", &[4.0, 8.0]), series("keys", &[2.0, 4.0])];
    BenchReport {
        experiment: "x",
        machine: MachineState::here(),
        rows: rows("read", "MB/s", &all, &all[0]),
        paper: vec![],
        verdict: "so".into(),
        charts: vec![],
    }
}

/// Scripts of users read these names.
#[test]
fn json_has_the_promised_shape() {
    let json: serde_json::Value = serde_json::from_str(&report().json().expect("it can be written")).expect("JSON");
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let mut names = keys(&json);
    names.sort();
    assert_eq!(names, ["experiment", "machine", "paper", "rows", "verdict"]);
    for name in ["case", "subject", "unit", "value", "beside", "ratio"] {
        assert!(!json["rows"][1][name].is_null(), "{name}");
    }
    assert_eq!(json["rows"][1]["ratio"], 0.5);
}

#[test]
fn csv_and_table_have_a_line_for_each_row() {
    let report = report();
    assert_eq!(report.csv().lines().nth(2), Some("read,keys,MB/s,3.0000,bare,0.5000,0.5000,0.5000"));
    assert_eq!(report.table().lines().count(), 3);
    assert_eq!(field("a, b"), "\"a, b\"", "a name is one field");
}

/// Scripts of users read these names and no others.
#[test]
fn json_has_every_field_of_the_machine_the_rows_and_the_paper() {
    let paper = vec![PaperClaim { place: "figure 3", what: "writes", ratio: 0.054 }];
    let report = BenchReport { paper, ..report() };
    let json: serde_json::Value = serde_json::from_str(&report.json().expect("plain")).expect("JSON");
    let keys = |value: &serde_json::Value| {
        let mut names: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(keys(&json["machine"]), "cores kernel load memory_bytes processor stolen");
    assert_eq!(keys(&json["rows"][0]), "beside case high low ratio subject unit value");
    assert_eq!(keys(&json["paper"][0]), "place ratio what");
    assert_eq!((&json["experiment"], &json["verdict"]), (&"x".into(), &"so".into()));
    assert_eq!(json["rows"][1]["subject"], "keys");
    assert!(report.json().expect("plain").ends_with("}\n"), "a line of its own");
}

#[test]
fn the_table_names_a_case_once_and_lines_up() {
    let mut report = report();
    report.rows.extend(rows(
        "write, random",
        "ns",
        &[Series { name: "bare".into(), values: vec![1234.5] }],
        &Series { name: "bare".into(), values: vec![1234.5] },
    ));
    assert_eq!(
        report.table(),
        "\
case           subject       value unit     ratio  (10 % .. 90 %)    beside
read           bare          6.000 MB/s     1.000  (1.000 .. 1.000)  bare
               keys          3.000 MB/s     0.500  (0.500 .. 0.500)  bare
write, random  bare           1234 ns       1.000  (1.000 .. 1.000)  bare
"
    );
    assert_eq!(report.csv().lines().nth(3), Some("\"write, random\",bare,ns,1234.5000,bare,1.0000,1.0000,1.0000"));
}

#[test]
fn a_row_that_was_measured_once_has_no_range() {
    let row = ReportRow::once("2.1 awk".into(), "lru", 3.0, "lru", 1.5);
    assert_eq!((row.low, row.ratio, row.high, row.unit), (1.5, 1.5, 1.5, ""));
}

#[test]
fn a_row_is_found_by_case_and_subject() {
    let report = report();
    assert_eq!(report.row("read", "keys").map(|row| row.value), Some(3.0));
    assert!(report.row("read", "key").is_none() && report.row("write", "keys").is_none());
}
