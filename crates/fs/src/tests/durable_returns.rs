//! Data that is durable when a call returns, or soon after: overwrites without a lock, and writes without an fsync.

use std::sync::Arc;

use ferrite_crash::{ExploreOptions, Model, explore};
use ferrite_pool::Pool;

use super::crash::client;
use super::support::*;
use super::{Bug, plant};
use crate::client::direct_io::DirectOutcome;
use crate::client::known_end::KnownEnd;
use crate::{FileKind, FileSystem, FsOptions, Ino, SetAttr, Time};

const NEW: [u8; 3000] = [9; 3000];

/// Returns true if every crash behind the return of an overwrite leaves all of it. No time passes, so nothing else is
/// stored.
fn keeps_what_was_written_over(bug: Option<Bug>) -> bool {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
    let options = FsOptions { data: None, read_only: false, clock: Arc::new(|| Time(2_000_000_000)) };
    let fs = FileSystem::open(pool, NAME, options).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
    (0..2).for_each(|_| _ = fs.write(ino, 0, &[1; 4096]).expect("room"));
    memory.forget_trace();
    plant(bug);
    let written = fs.write(ino, 100, &NEW);
    plant(None);
    assert_eq!(written.expect("it is there"), NEW.len());
    memory.mark(1);
    let report = explore(&memory, &ExploreOptions::default(), |crash| {
        let fs = open(&Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let found = content(&fs, ino).map_err(|error| error.to_string())?;
        let is_lost = crash.last_mark().is_some() && found[100..3100] != NEW;
        if is_lost { Err("acknowledged and lost".into()) } else { Ok(()) }
    });
    report.failure.is_none()
}

#[test]
fn fw2_what_was_written_over_is_durable_on_return() {
    assert!(keeps_what_was_written_over(None));
}

#[test]
fn canary_a_write_that_returns_before_its_fence_is_found() {
    assert!(!keeps_what_was_written_over(Some(Bug::ReturnBeforeFence)));
}

/// A client's write that reaches a hole behind its first page goes through the mount. Its earlier stores come no later
/// than its pin ends, or they would hit the next user of that place.
#[test]
fn fg2_what_a_client_stored_in_vain_comes_before_its_pin_ends() {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
    (0..2).for_each(|_| _ = fs.write(ino, 0, &[1; 4096]).expect("room"));
    fs.setattr(ino, &SetAttr { size: Some(2 * 4096), ..SetAttr::default() }).expect("room");
    let end = KnownEnd::new();
    let hands = client(&fs, &end);
    memory.forget_trace();
    assert_eq!(hands.write(0, 0, &[9; 8192], || 3_000_000_000), DirectOutcome::Refused);
    memory.mark(1);
    let report = explore(&memory, &ExploreOptions::default(), |crash| {
        let fs = open(&Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let found = content(&fs, ino).map_err(|error| error.to_string())?;
        let is_late = crash.last_mark().is_some() && found[..4096] != [9; 4096];
        if is_late { Err("some of it is still to come".into()) } else { Ok(()) }
    });
    assert_eq!(report.failure.map(|failure| failure.to_string()), None);
}

#[test]
fn fw4_what_nobody_flushed_is_written_back() {
    let memory = new_memory(Model::FILE, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
    assert_eq!(fs.unsaved(), None);
    fs.write(ino, 0, b"other").expect("written");
    let unsaved = fs.unsaved();
    assert!(unsaved.is_some() && fs.unsaved() == unsaved, "nothing was written between");
    fs.write(ino, 0, b"bytes").expect("written");
    assert!(fs.unsaved().is_some_and(|now| Some(now) != unsaved));
    fs.write_back().expect("nothing fails");
    assert_eq!(fs.unsaved(), None);
    let calls = memory.calls();
    fs.write_back().expect("nothing fails");
    assert_eq!(memory.calls(), calls, "nothing waited");
    fs.write_unnoted(ino, 0, b"kept").expect("written");
    assert!(fs.unsaved().is_some(), "what keeps its times waits too");
    fs.write(ino, 0, b"bytes").expect("written");
    fs.write_back().expect("nothing fails");
    let fs = open(&Arc::new(memory.crash(1)), None).expect("it opens");
    let found = fs.lookup(Ino::ROOT, b"a").expect("there").ino;
    assert_eq!(content(&fs, found).expect("it reads"), b"bytes");
}
