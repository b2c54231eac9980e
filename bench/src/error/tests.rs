//! What errors say.

use std::error::Error as _;

use super::*;

#[test]
fn errors_say_what_was_done_and_to_what() {
    let error = Error::io(format!("making {}", "/dev/shm/x"))(io::ErrorKind::PermissionDenied.into());
    assert_eq!(error.to_string(), "making /dev/shm/x: permission denied");
    assert!(error.source().is_some(), "the system's error is its source");
    let error = Error::Server { who: "pgbench".into(), what: "it ended".into() };
    assert_eq!(error.to_string(), "pgbench: it ended");
}

/// An error of a crate below says itself what to do.
#[test]
fn errors_of_other_crates_are_passed_on_as_they_are() {
    let pool =
        || ferrite_pool::Error::LogFull { name: "log".into(), needed_bytes: 64, free_bytes: 0, capacity_bytes: 4096 };
    assert_eq!(Error::from(pool()).to_string(), pool().to_string());
    let fs = || ferrite_fs::Error::Exists;
    assert_eq!(Error::from(fs()).to_string(), fs().to_string());
}

#[test]
fn a_text_that_fits_no_case_is_told_with_one_case_a_line() {
    let error = Error::NoCase { text: "x".into(), cases: vec!["tar".into(), "untar".into()] };
    assert_eq!(error.to_string(), "no case has \"x\" in its name; there are:\ntar\nuntar");
}
