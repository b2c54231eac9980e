//! The experiment on objects runs whole, and reports every case with every subject that this machine has.

mod support;

#[test]
fn objects_measures_every_case() {
    let report = support::run("objects", None, None);
    let has = |case: &str, subject: &str| report.row(case, subject).is_some();
    assert!(has("an update of one line", "direct update") && has("an update of one line", "direct update, flush"));
    assert!(has("an append of 64 bytes", "log") && has("a durable record, by medium", "persistent memory"));
    for subject in ["map", "direct update", "log"] {
        assert!(has("an update of 64 bytes, of 10,000", subject), "{subject}");
    }
    for threads in [1, 2, 4, 8, 16] {
        for order in ["SEQ", "RND"] {
            let case = format!("64-bit stores {order} {threads} threads");
            assert!(has(&case, "RAM (flush)") && has(&case, "flush") && has(&case, "writethrough"), "{case}");
        }
    }
    assert!(report.rows.iter().all(|row| row.value.is_finite() && row.value > 0.0));
    let titles =
        ["One durable update", "Sequential 64-bit stores", "Random 64-bit stores", "A durable record, by medium"];
    support::assert_drawn(&report, &titles);
}
