use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

use rustix::fs::Mode;

use super::super::runtime_dir::RuntimeDir;
use super::*;

/// If two children checked a device at the same time, each would mistake the other for a user of the device.
#[test]
fn one_child_at_a_time_works_for_a_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = RuntimeDir::make(&folder.path().join("disks"), "disk").expect("a name").lock().expect("nobody has it");
    let path = CString::new(folder.path().join("alone").into_os_string().into_vec()).expect("a path");
    let job = || {
        rustix::fs::mkdir(&*path, Mode::RWXU).map_err(|error| error.raw_os_error())?;
        thread::sleep(Duration::from_millis(50));
        rustix::fs::rmdir(&*path).map_err(|error| error.raw_os_error()).map(|()| 0)
    };
    thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| run(&lock, &job))).collect();
        asked.into_iter().for_each(|one| _ = one.join().expect("no panic").expect("alone"));
    });
}

/// A child takes too long, for example, when a file system writes to a disk that does not answer.
#[test]
fn a_child_that_takes_too_long_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = RuntimeDir::make(&folder.path().join("disks"), "disk").expect("a name").lock().expect("nobody has it");
    let (began, limit) = (Instant::now(), Some(Duration::from_millis(100)));
    let sleep = || {
        thread::sleep(Duration::from_secs(5));
        Ok(0)
    };
    let error = run_for(&lock, limit, &sleep).expect_err("it sleeps");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(run_for(&lock, limit, &|| Ok(7)).expect("it does not"), 7);
}
