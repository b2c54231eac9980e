//! An experiment that is asked to end while disks are mounted.

use std::fs;

use ferrite_bench::{BenchOptions, CaseFilter, Error, Length, find};
use ferrite_devnode as attach;

/// What of this process is in the file `path`.
fn count(path: &str) -> usize {
    fs::read_to_string(path).expect("there").matches(&format!("/run/ferrite-bench/{}-", std::process::id())).count()
}

/// A disk that stays attached, or mounted, keeps its memory until the next boot.
#[test]
fn asked_to_end_it_unmounts_and_leaves_nothing() {
    if let Err(why) = attach::check() {
        return println!("not tested: {why}");
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let options = BenchOptions {
        length: Length::Smoke,
        place: folder.path().into(),
        ferrite: None,
        threads_many: 3,
        only: CaseFilter::containing(Some("tar")),
    };
    let mut mounted = 0;
    let result = find("write-schemes").expect("registered").run(&options, &mut |progress| {
        mounted = count("/proc/self/mounts");
        progress.what != "tar"
    });
    assert!(matches!(result, Err(Error::Interrupted)), "{:?}", result.map(|report| report.verdict));
    assert!(mounted >= 4, "four disks were to be in use, and were {mounted}");
    assert_eq!(count("/proc/self/mounts"), 0, "something is still mounted");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "something was left behind");
}
