//! A child of fork, which has its parent's log_pools and logs.
//!
//! Unsafe because a child is forked that runs no program of its own.
#![allow(unsafe_code)]

use std::sync::mpsc::channel;
use std::thread;

use super::given_back::{Place, open_pool};
use super::*;
use crate::Error;

/// What a child's `check` says; it waits for nothing for long.
fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child goes on as this thread alone, and ends without unwinding, by a signal where it waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe {
            libc::alarm(30);
            libc::_exit(i32::from(!check()));
        }
    }
    let mut status = -1;
    // SAFETY: the status is a local that outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

fn is_refused<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Refused(why)) if why.contains("is its parent's"))
}

/// WF6: as the pool's owner, and beside it.
#[test]
fn wf6_a_child_of_fork_changes_nothing_of_its_parents_and_ends_nothing() {
    let place = Place::new();
    let beside = open_pool(&place.path("pool")).unwrap();
    let (path, pool) = (place.database(), place.path("pool"));
    let Place { folder: _folder, log_pool: owner } = place;
    let mut inherited = Some([beside, owner]);
    for is_owner in [false, true] {
        let log_pool = Arc::clone(&inherited.as_ref().unwrap()[usize::from(is_owner)]);
        let log = Place::log_of(&path, &log_pool).unwrap();
        log.write(JournalFile::Wal, 0, b"parent").unwrap();
        let mut own = Some((log, log_pool));
        let is_left_alone = in_child(|| {
            let (log, log_pool) = own.take().unwrap();
            let are_refused = is_refused(log.write(JournalFile::Wal, 0, b"child!"))
                && is_refused(log.delete(JournalFile::Wal))
                && is_refused(log_pool.databases())
                && !log_pool.is_owner();
            drop((log, log_pool, inherited.take()));
            are_refused
        });
        assert!(is_left_alone, "as the owner: {is_owner}");
        let (log, log_pool) = own.unwrap();
        let mut bytes = [0; 6];
        assert_eq!((log.read(JournalFile::Wal, 0, &mut bytes).unwrap(), &bytes), (6, b"parent"));
        assert_eq!((log_pool.databases().unwrap().len(), log_pool.is_owner()), (1, is_owner));
        // It still grows, by an owner that can still be reached.
        log.write(JournalFile::Wal, 1 << 20, b"more").unwrap();
        assert_eq!(open_pool(&pool).unwrap().databases().unwrap().len(), 1);
    }
}

/// WF6: a thread that the child has not may be in the middle of something.
#[test]
fn wf6_a_child_of_fork_waits_for_no_thread_of_its_parents() {
    let place = Place::new();
    let log = place.log();
    let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel::<()>());
    thread::scope(|scope| {
        let log = &log;
        scope.spawn(move || {
            let _extending = log.leased.write();
            begun.send(()).unwrap();
            may_go_on.recv().unwrap();
        });
        has_begun.recv().unwrap();
        let are_refused = in_child(|| is_refused(log.length(JournalFile::Wal)) && is_refused(log.persist()));
        go_on.send(()).unwrap();
        assert!(are_refused);
    });
    assert_eq!(log.length(JournalFile::Wal).unwrap(), None);
}
