//! WF9: which file a log is of.

use std::fs;

use super::given_back::{Place, identity_of};
use super::*;

const BIRTHS: [(u64, u64); 4] = [(5, 5), (0, 5), (5, 0), (0, 0)];

fn on(device: u64, inode: u64, birth: u64) -> DatabaseIdentity {
    DatabaseIdentity { device, inode, birth, is_marked: true, stamp: None }
}

/// A log with something in it of inode 7 on device 1, born at `birth`; whether `now` is that file.
fn is_opened(birth: u64, now: DatabaseIdentity) -> bool {
    let place = Place::new();
    let open = |identity| DatabaseLog::open(&place.log_pool, &place.database(), identity, false);
    let log = open(on(1, 7, birth)).unwrap();
    log.create(JournalFile::Wal).unwrap();
    log.write(JournalFile::Wal, 0, b"committed").unwrap();
    drop(log);
    match open(now) {
        Ok(log) => log.length(JournalFile::Wal).unwrap() == Some(9),
        Err(error) => {
            assert!(error.to_string().contains("it was deleted or replaced"), "{error}");
            false
        }
    }
}

#[test]
fn wf9_another_number_of_its_device_parts_no_file_from_its_log() {
    for (birth, now) in BIRTHS {
        assert!(is_opened(birth, on(2, 7, now)), "born at {birth}, and at {now}");
    }
}

#[test]
fn wf9_a_file_that_got_the_inode_of_another_gets_no_log_of_it() {
    assert!(!is_opened(5, on(1, 7, 6)));
    assert!(BIRTHS.iter().all(|(birth, now)| !is_opened(*birth, on(1, 8, *now))));
}

/// What is kept of a file that says when it was born is enough to know it by.
#[test]
fn wf9_a_files_birth_is_kept() {
    let place = Place::new();
    let identity = identity_of(&place.database());
    let kept = DatabaseIdentity::of_attributes(&identity.attributes(5));
    assert_eq!((kept.device, kept.inode, kept.birth), (identity.device, identity.inode, identity.birth));
    fs::write(place.path("b.db"), "").unwrap();
    let later = DatabaseIdentity::of(&fs::metadata(place.path("b.db")).unwrap(), None);
    assert!(identity.birth == 0 || (1 << 60..=later.birth).contains(&identity.birth), "{identity:?} {later:?}");
}

/// A new database gets the inode of one that was deleted with something in its log: it does not get that.
#[test]
fn wf9_a_new_database_was_not_the_deleted_one() {
    // By its birth where that is known, else by its header.
    for (birth, now, is_marked, is_renamed) in
        [(5, 6, true, false), (5, 5, false, true), (0, 0, true, true), (0, 0, false, false), (5, 0, false, false)]
    {
        let place = Place::new();
        let log = DatabaseLog::open(&place.log_pool, &place.database(), on(1, 7, birth), false).unwrap();
        log.create(JournalFile::Wal).unwrap();
        log.write(JournalFile::Wal, 0, b"committed").unwrap();
        drop(log);
        let identity = DatabaseIdentity { is_marked, ..on(1, 7, now) };
        let opened = DatabaseLog::open(&place.log_pool, "/new.db", identity, false).unwrap();
        let length = opened.length(JournalFile::Wal).unwrap();
        assert_eq!(length == Some(9), is_renamed, "{birth} {now} {is_marked}: {length:?}");
    }
}
