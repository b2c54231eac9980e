//! Crashes of an owner that writes over a file of a full pool, at whose end a client of an earlier owner was stopped
//! (FG5, FG7): the last page cannot be replaced, and only bytes before the end are exclusive.

use std::sync::Arc;

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Memory, Scheme};
use ferrite_pool::grant::{GrantRequest, GrantRights, Process, ProcessIdentity};
use ferrite_pool::layout::CHUNK;

use super::crash::client;
use super::stopped_clients::Stopped;
use super::support::*;
use super::{Bug, plant};
use crate::check::look;
use crate::client::known_end::KnownEnd;
use crate::file::ahead;
use crate::format::inode::DIRECT;
use crate::{Allocate, Error, FileKind, FileSystem, Ino};

/// A file `a` of `bytes` with pages ahead.
fn with_pages_ahead(memory: &Arc<LyingMemory>, bytes: usize) -> (Arc<FileSystem>, Ino) {
    let fs = open(memory, None).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
    fs.write(ino, 0, &vec![1; bytes]).expect("room");
    run_steps(&fs);
    fs.hold(ino).expect("it is there");
    ahead::reserve_ahead(&fs, ino, 70_000, 8).expect("room");
    (fs, ino)
}

/// Gives another file all the space that is left.
fn fill(fs: &FileSystem) {
    let ino = fs.create_file(Ino::ROOT, b"rest", &new(FileKind::File)).expect("made").ino;
    let mut at = 0;
    for len in [1 << 20, 4096] {
        while fs.allocate(ino, at..at + len, Allocate::Grow).is_ok() {
            at += len;
        }
    }
}

/// The next owner, while the client of the one before may still come back: it cannot be judged.
fn next_owner(memory: &Arc<LyingMemory>) -> crate::Result<Arc<FileSystem>> {
    let fs = open(memory, None)?;
    let process = Process::recall(ProcessIdentity { pid: 1, namespace: 0, start_ticks: 0, boot_id: BOOT }, BOOT);
    let (tag, rights) = (fs.tag(), GrantRights::ReadWrite);
    fs.pool().grant(&GrantRequest { tag: &tag, extents: &tag.extents, rights, process: &process })?;
    fs.link.pins.set_orphaned_clients(true);
    fs.space.bar(true);
    Ok(fs)
}

/// What an owner did to the file, and what is in it then.
struct Done {
    memory: Arc<LyingMemory>,
    ino: Ino,
    states: Vec<Vec<u8>>,
    /// Where the client stores a size, and that size with its times and proofs.
    late: (u64, [u8; 64]),
    /// Of the owner after it.
    next_bug: Option<Bug>,
}

impl Done {
    /// Writes over what is there, and does not get behind the end.
    fn overwrite(&mut self, fs: &FileSystem, byte: u8) -> Result<(), String> {
        let mut content = self.states.last().expect("there is one").clone();
        let size = content.len();
        for at in [0, 4090, size - 16] {
            match fs.write(self.ino, at as u64, &[byte; 16]) {
                Ok(16) => content[at..at + 16].fill(byte),
                written => return Err(format!("FG5: what is there cannot be written over: {written:?}")),
            }
            self.states.push(content.clone());
            self.memory.mark(self.states.len() as u64 - 1);
        }
        match fs.write(self.ino, size as u64, &[byte]) {
            Err(Error::NoSpace) => Ok(()),
            written => Err(format!("FG7: its last page has to be another: {written:?}")),
        }
    }

    /// Each byte is from before or after the unacknowledged write, and nothing is behind.
    fn judge(&self, crash: &Crash<'_>) -> Result<(), String> {
        let mark = crash.last_mark().unwrap_or(0) as usize;
        let (old, new) = (&self.states[mark], self.states.get(mark + 1).unwrap_or(&self.states[mark]));
        let fs = open(&Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let found = sound_content(&fs, self.ino)?;
        let is_mixture = found.chunks(4096).zip(old.chunks(4096)).zip(new.chunks(4096)).all(|((found, old), new)| {
            found == old || (0..found.len()).all(|at| [old[at], new[at]].contains(&found[at]))
        });
        if found.len() != old.len() || !is_mixture {
            return Err(format!("FG7: {} bytes after mark {mark}", found.len()));
        }
        drop(fs);
        if crash.place().variant.is_multiple_of(4) { self.judge_kill(crash, found) } else { Ok(()) }
    }

    /// Where the owner alone ended, the next one goes on, and then the client does.
    fn judge_kill(&self, crash: &Crash<'_>, mut expected: Vec<u8>) -> Result<(), String> {
        let memory = Arc::new(crash.memory());
        let fs = next_owner(&memory).map_err(|error| error.to_string())?;
        plant(self.next_bug);
        let written = fs.write(self.ino, 8, &[7; 8]);
        plant(None);
        written.map_err(|error| format!("FG5: {error}"))?;
        expected[8..16].fill(7);
        let (at, line) = self.late;
        memory.store(at, &line, Scheme::Nt);
        memory.fence();
        let is_still = |fs: &FileSystem| Ok::<_, String>(sound_content(fs, self.ino)? == expected);
        if !is_still(&fs)? {
            return Err("FG7: what was stored late counts".into());
        }
        drop(fs);
        let fs = open(&memory, None).map_err(|error| error.to_string())?;
        if is_still(&fs)? { Ok(()) } else { Err("FG7: what was stored late counts after the next crash".into()) }
    }
}

fn sound_content(fs: &FileSystem, ino: Ino) -> Result<Vec<u8>, String> {
    match look(fs.pool(), &fs.tag()) {
        wrong if wrong.is_empty() => content(fs, ino).map_err(|error| error.to_string()),
        wrong => Err(format!("{wrong:?}")),
    }
}

/// Every crash of overwrites of a file of `bytes` whose client is stopped at `point`, and of those after it has gone
/// on, with the first of `bugs` planted in the owner that does that, and the second in the next one.
fn explore_late(point: &'static str, bytes: usize, bugs: [Option<Bug>; 2]) -> Result<CrashReport, String> {
    let memory = new_memory(Model::MAPPED, 9 * CHUNK);
    memory.keep_trace(false);
    let (old, ino) = with_pages_ahead(&memory, bytes);
    let beside = Arc::clone(&old);
    let stopped = Stopped::amid(point, move || {
        let end = KnownEnd::new();
        _ = client(&beside, &end).append(0, None, &[9; 10_000], || 3_000_000_000);
    });
    let fs = next_owner(&memory).map_err(|error| error.to_string())?;
    fill(&fs);
    memory.keep_trace(true);
    let (states, late) = (vec![vec![1; bytes]], (0, [0; 64]));
    let mut done = Done { memory: memory.clone(), ino, states, late, next_bug: bugs[1] };
    plant(bugs[0]);
    let before = done.overwrite(&fs, 5);
    stopped.go_on();
    done.late.0 = fs.space.inode_place(ino.0).expect("it is there") + DIRECT;
    memory.load(done.late.0, &mut done.late.1);
    let behind = before.and_then(|()| done.overwrite(&fs, 6));
    plant(None);
    behind?;
    let options = ExploreOptions {
        images_per_point_max: 16,
        samples_per_point: 16,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    Ok(explore(&memory, &options, |crash| done.judge(crash)))
}

const SMALL: usize = 5000;
/// Partly in a superpage.
const LARGE: usize = SUPER_THRESHOLD as usize + 5000;

#[test]
fn fg5_fg7_every_crash_of_overwrites_in_a_full_pool_leaves_what_was_acknowledged() {
    for (point, bytes) in [("fs: before store", SMALL), ("fs: before size", SMALL), ("fs: before size", LARGE)] {
        explore_late(point, bytes, [None; 2]).expect("it works").assert_clean();
    }
}

#[test]
fn canary_an_end_that_a_stopped_client_still_has_is_found_in_a_full_pool() {
    for (point, bug) in [("fs: before store", Bug::StoppedAppendPage), ("fs: before size", Bug::StoppedAppendEnd)] {
        assert!(explore_late(point, SMALL, [Some(bug), None]).is_err(), "FG7: it was written behind the end");
    }
    let report = explore_late("fs: before size", SMALL, [None, Some(Bug::StoppedAppendEnd)]).expect("it works");
    report.expect_failure();
}
