//! Tests of a report on a folder in memory and on a bad one.

use super::*;

#[test]
fn a_report_has_two_ways_to_write_and_leaves_nothing() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let report = examine(folder.path(), Duration::from_millis(1)).expect("examined");
    assert_eq!(report.writes.len(), 2);
    assert_eq!((report.backing, report.survives.when_flushed), ("shm", false));
    let text = report.show();
    for part in ["protection keys", "power loss", "write and fsync", "a pool, write in", "open files"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
}

#[test]
fn a_folder_that_is_missing_and_a_file_are_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let doctor = |dir: &Path| Doctor { dir: Some(dir.into()), time: Duration::from_millis(1), json: false };
    let refused = doctor(file.path()).run().expect_err("a file");
    assert!(refused.text().contains("is not a folder"), "{}", refused.text());
    let refused = doctor(&file.path().join("missing")).run().expect_err("missing");
    assert!(refused.text().contains("looking at"), "{}", refused.text());
}
