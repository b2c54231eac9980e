//! WF1 and WF2 in every image that a crash may leave. WF3 and WF4 are SQLite's to prove: see bindings/sqlite/tests.

mod counts;
mod cut;
mod forked;
mod full;
mod given_back;
mod golden;
mod identity;
mod instant;

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::Scheme;
use ferrite_memory::planted::plant;
use ferrite_pool::{Extent, Role, Zone};

use super::*;

/// Two pages for each file, one for the words.
fn files(memory: Arc<LyingMemory>) -> JournalFiles {
    let extent = |page, pages, role| Extent { page, pages, role: Role(role), zone: Zone::Normal };
    let extents = [extent(0, 1, 1), extent(1, 2, 2), extent(3, 1, 3), extent(5, 1, 3)];
    JournalFiles::new(memory, &extents, 77).unwrap()
}

fn options() -> ExploreOptions {
    ExploreOptions {
        images_per_point_max: 1 << 12,
        samples_per_point: 300,
        points: Points::Widest,
        ..ExploreOptions::default()
    }
}

fn content(file: JournalFile, files: &JournalFiles) -> std::result::Result<Option<Vec<u8>>, String> {
    let describe = |error: Error| error.to_string();
    let Some(length) = files.length(file).map_err(describe)? else { return Ok(None) };
    let mut bytes = vec![0; length as usize];
    files.read(file, 0, &mut bytes).map_err(describe)?;
    Ok(Some(bytes))
}

/// Writes that extend, overwrite and leave a gap; marked when each is durable.
#[test]
fn wf1_crash_keeps_completed_writes_or_drained_ones() {
    let writes: [(u64, usize); 5] = [(0, 100), (100, 300), (50, 8), (900, 64), (4080, 40)];
    for model in Model::ALL {
        let memory = Arc::new(LyingMemory::new(1 << 16, model));
        let log = files(memory.clone());
        log.create(JournalFile::Journal).unwrap();
        log.persist().unwrap();
        memory.forget_trace();
        let mut states = vec![Vec::new()];
        for (number, (at, len)) in writes.into_iter().enumerate() {
            log.write(JournalFile::Journal, at, &vec![number as u8 + 1; len]).unwrap();
            log.persist().unwrap();
            let mut state = states.last().cloned().unwrap();
            state.resize(state.len().max(at as usize + len), 0);
            state[at as usize..at as usize + len].fill(number as u8 + 1);
            states.push(state);
            memory.mark(number as u64 + 1);
        }
        let report = explore(&memory, &options(), |crash| {
            let found = content(JournalFile::Journal, &files(Arc::new(crash.memory())))?.ok_or("it is gone")?;
            let done = crash.last_mark().unwrap_or(0) as usize;
            let (old, new) = (&states[done], &states[(done + 1).min(writes.len())]);
            let is_whole = |at: usize| found[at] == *old.get(at).unwrap_or(&0) || found.get(at) == new.get(at);
            let sized = (old.len()..=new.len()).contains(&found.len());
            if sized && (0..found.len()).all(is_whole) {
                Ok(())
            } else {
                Err(format!("WF1 after write {done}: {found:?}"))
            }
        });
        println!("writes: {report}");
        report.assert_clean();
    }
}

/// WF1: a killed process left a write in a cache. The next opening of the log sees the write, and commits after it.
#[test]
fn wf1_crash_after_a_kill_keeps_what_the_next_one_found() {
    let memory = Arc::new(LyingMemory::new(1 << 16, Model::MAPPED));
    let log = files(memory.clone());
    log.create(JournalFile::Wal).unwrap();
    log.write(JournalFile::Wal, 0, &[1; 600]).unwrap();
    {
        let _killed = memory.as_thread(9);
        memory.store(4096 + 64, &[2; 128], Scheme::Writeback);
    }
    let _next = memory.as_thread(1);
    log.inherit();
    let found = content(JournalFile::Wal, &log).unwrap();
    memory.forget_trace();
    log.write(JournalFile::Wal, 600, &[3; 32]).unwrap();
    memory.mark(1);
    let report = explore(&memory, &options(), |crash| {
        let now = content(JournalFile::Wal, &files(Arc::new(crash.memory())))?;
        let kept = now.as_ref().zip(found.as_ref()).is_some_and(|(now, found)| now[..600] == found[..]);
        if kept { Ok(()) } else { Err(format!("WF1: {found:?} was found, and then {now:?}")) }
    });
    report.assert_clean();
}

const OLD: u8 = 0xAA;

/// A file of old bytes is deleted and another one begun.
fn again(model: Model) -> CrashReport {
    let memory = Arc::new(LyingMemory::new(1 << 16, model));
    let log = files(memory.clone());
    log.create(JournalFile::Wal).unwrap();
    log.write(JournalFile::Wal, 0, &[OLD; 600]).unwrap();
    log.persist().unwrap();
    memory.forget_trace();
    log.set_length(JournalFile::Wal, None);
    log.persist().unwrap();
    memory.mark(1);
    log.create(JournalFile::Wal).unwrap();
    log.write(JournalFile::Wal, 0, &[1; 32]).unwrap();
    log.write(JournalFile::Wal, 32, &[2; 500]).unwrap();
    log.persist().unwrap();
    memory.mark(2);
    explore(&memory, &options(), judge)
}

fn judge(crash: &Crash<'_>) -> std::result::Result<(), String> {
    let found = content(JournalFile::Wal, &files(Arc::new(crash.memory())))?;
    let right = match (&found, crash.last_mark()) {
        (Some(bytes), None) if *bytes == [OLD; 600] => true,
        (None, None | Some(1)) => true,
        (Some(bytes), Some(1)) => !bytes.iter().take(64).any(|byte| *byte == OLD),
        (Some(bytes), Some(2)) => bytes[..32] == [1; 32] && bytes[32..] == [2; 500],
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("WF2 after {:?}: {found:?}", crash.last_mark())) }
}

#[test]
fn wf2_crash_no_new_file_begins_as_an_old_one() {
    for model in Model::ALL {
        let report = again(model);
        println!("again: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_file_that_begins_with_old_bytes_is_caught() {
    let _bug = plant("sqlite-log: first line of an earlier file");
    let caught = Model::ALL.map(|model| again(model).failure.is_some());
    assert!(caught.contains(&true));
}

#[test]
fn a_damaged_word_is_told_and_not_believed() {
    let memory = Arc::new(LyingMemory::new(1 << 16, Model::MAPPED));
    let log = files(memory.clone());
    log.create(JournalFile::Wal).unwrap();
    memory.store_word(64, memory.load_word(64) ^ 4);
    let describe = log.length(JournalFile::Wal).unwrap_err().to_string();
    assert!(describe.contains("the word at byte 0x40 of the pool, of a database's log, is damaged"), "{describe}");
}

#[test]
fn marks_come_back_as_they_were() {
    for number in 0..16 {
        let mark =
            DatabaseMark { write: 1 + number % 3, read: 2, is_on_disk: number & 4 != 0, is_given: number & 8 != 0 };
        assert_eq!(DatabaseMark::from_number(mark.number()), mark);
    }
}
