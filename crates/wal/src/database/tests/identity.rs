//! WF9: which file a log is of.

use std::fs;

use super::given_back::Place;
use super::*;

const BIRTHS: [(u64, u64); 4] = [(5, 5), (0, 5), (5, 0), (0, 0)];

/// A log with something in it of inode 7 on device 1, born at `birth`; whether `now` is that file.
fn is_opened(birth: u64, now: Identity) -> bool {
    let place = Place::new();
    let open = |identity| DatabaseLog::open(&place.station, &place.database(), identity, false);
    let log = open(Identity { device: 1, inode: 7, birth }).unwrap();
    log.create(File::Wal).unwrap();
    log.write(File::Wal, 0, b"committed").unwrap();
    drop(log);
    match open(now) {
        Ok(log) => log.length(File::Wal).unwrap() == Some(9),
        Err(error) => {
            assert!(error.to_string().contains("it was deleted or replaced"), "{error}");
            false
        }
    }
}

#[test]
fn wf9_another_number_of_its_device_parts_no_file_from_its_log() {
    for (birth, now) in BIRTHS {
        assert!(is_opened(birth, Identity { device: 2, inode: 7, birth: now }), "born at {birth}, and at {now}");
    }
}

#[test]
fn wf9_a_file_that_got_the_inode_of_another_gets_no_log_of_it() {
    assert!(!is_opened(5, Identity { device: 1, inode: 7, birth: 6 }));
    assert!(BIRTHS.iter().all(|(birth, now)| !is_opened(*birth, Identity { device: 1, inode: 8, birth: *now })));
}

/// What is kept of a file that says when it was born is enough to know it by.
#[test]
fn wf9_a_files_birth_is_kept() {
    let place = Place::new();
    let identity = Identity::of(&fs::metadata(place.path("a.db")).unwrap());
    let kept = Identity::of_attributes(&identity.attributes());
    assert_eq!((kept.device, kept.inode, kept.birth), (identity.device, identity.inode, identity.birth));
    let later = fs::File::create(place.path("b.db")).unwrap();
    let later = Identity::of_file(&later).unwrap();
    assert!(identity.birth == 0 || (1 << 60..=later.birth).contains(&identity.birth), "{identity:?} {later:?}");
}
