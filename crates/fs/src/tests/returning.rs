//! What was written over without a lock is durable when the write returns.

use std::sync::Arc;

use ferrite_crash::{Model, Options, explore};
use ferrite_pool::Pool;

use super::world::*;
use super::{Bug, PLANTED};
use crate::{FileSystem, FsOptions, Ino, Kind, Time};

const NEW: [u8; 3000] = [9; 3000];

/// Whether every crash behind the return of an overwrite leaves all of it. No time passes, so nothing else is stored.
fn keeps_what_was_written_over(bug: Option<Bug>) -> bool {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
    let options = FsOptions { data: None, read_only: false, clock: Arc::new(|| Time(2_000_000_000)) };
    let fs = FileSystem::open(pool, NAME, options).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(Kind::File)).expect("made").ino;
    (0..2).for_each(|_| _ = fs.write(ino, 0, &[1; 4096]).expect("room"));
    memory.forget_trace();
    PLANTED.set(bug);
    let written = fs.write(ino, 100, &NEW);
    PLANTED.set(None);
    assert_eq!(written.expect("it is there"), NEW.len());
    memory.mark(1);
    let report = explore(&memory, &Options::default(), |crash| {
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
