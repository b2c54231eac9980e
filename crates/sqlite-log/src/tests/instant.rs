//! WF3, WF10, WF11: a log in a pool and the header of its file, crashed at one instant.

use ferrite_crash::{LyingDisk, World, explore_kills};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_pool::tie::{self, Generation, PoolSide, compare};

use super::tied::{TiedLog, give_versions, mark_header};
use super::*;
use crate::Error;

const SECTOR: usize = 512;
const OWN: DatabaseMark = DatabaseMark { write: 2, read: 2, is_on_disk: false, is_given: false };

/// The bug of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderBug {
    None,
    /// WF3: the mark says that the header is on disk before it is.
    MarkedFirst,
    /// WF10: the header is not synced.
    NotSynced,
}

/// A database file of one sector.
struct LyingFile<'a> {
    disk: &'a LyingDisk,
    bug: HeaderBug,
}

impl DatabaseFile for LyingFile<'_> {
    type Error = Error;

    fn header(&self) -> Result<Option<DatabaseHeader>> {
        let mut sector = [0; SECTOR];
        self.disk.read(0, &mut sector)?;
        Ok(DatabaseHeader::of(sector.first_chunk().expect("it is longer")))
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut sector = [0; SECTOR];
        self.disk.read(0, &mut sector)?;
        sector[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        Ok(self.disk.write(0, &sector, Access::Cached)?)
    }

    fn persist(&self) -> Result<()> {
        if self.bug == HeaderBug::NotSynced { Ok(()) } else { Ok(self.disk.flush()?) }
    }
}

/// Marks a file, writes to its log, moves on, and unmarks, twice.
fn lives(log: &JournalFiles, file: &LyingFile<'_>, memory: &LyingMemory) -> Result<()> {
    let (ends, on_disk) = (TiedLog { log, file }, DatabaseMark { is_on_disk: true, ..OWN });
    for nonce in [3, 4] {
        log.set_mark(Some(if file.bug == HeaderBug::MarkedFirst { on_disk } else { OWN }))?;
        mark_header(&ends)?;
        log.set_mark(Some(on_disk))?;
        log.create(JournalFile::Wal)?;
        log.write(JournalFile::Wal, 0, &[1; 40])?;
        log.persist()?;
        memory.mark(1);
        assert!(tie::advance(&ends, nonce)?.is_good());
        log.set_length(JournalFile::Wal, None);
        log.persist()?;
        memory.mark(0);
        log.set_mark(Some(OWN))?;
        give_versions(file, [2, 2])?;
        tie::renew(log, None, nonce)?;
        log.set_mark(None)?;
    }
    Ok(())
}

/// A header that is marked on disk matches the log, and a log with content has such a header.
fn judge_both(crash: &Crash<'_>) -> std::result::Result<(), String> {
    let log = files(Arc::new(crash.memory()));
    let describe = |error: Error| error.to_string();
    let disk = crash.disk(0);
    let header = LyingFile { disk: &disk, bug: HeaderBug::None }.header().map_err(describe)?.ok_or("no header")?;
    let (mark, tie) = (log.mark().map_err(describe)?, log.load().map_err(describe)?);
    let (is_live, is_on_disk) = (log.is_live().map_err(describe)?, mark.is_some_and(|mark| mark.is_on_disk));
    if is_on_disk && !header.is_marked() {
        return Err(format!("WF3: {mark:?} and {header:?}"));
    }
    if is_live && !is_on_disk || crash.last_mark() == Some(1) && mark.is_none() {
        return Err(format!("WF3: a log with {mark:?}"));
    }
    let verdict = compare(&tie, header.stamp.as_ref());
    if is_on_disk && !verdict.is_good() {
        return Err(format!("WF10: {verdict:?} of {tie:?} and {header:?}"));
    }
    if header.is_marked() && mark.is_none() { Err("WF5: its log would be elsewhere".into()) } else { Ok(()) }
}

fn crashed_at_once(model: Model, bug: HeaderBug) -> [CrashReport; 2] {
    let mut sector = [0; SECTOR];
    sector[..16].copy_from_slice(b"SQLite format 3\0");
    sector[18..20].fill(2);
    let geometry = Geometry {
        size: SECTOR as u64,
        sector_bytes: SECTOR as u32,
        atomic_bytes: SECTOR as u32,
        preferred_bytes: SECTOR as u32,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    };
    let world = World::new(LyingMemory::new(1 << 16, model), [LyingDisk::from_image(geometry, &sector)]);
    let log = files(world.memory().clone());
    log.set_current(Generation::first(1)).unwrap();
    world.memory().forget_trace();
    lives(&log, &LyingFile { disk: world.disk(0), bug }, world.memory()).unwrap();
    [explore(world.memory(), &options(), judge_both), explore_kills(world.memory(), &options(), judge_both)]
}

#[test]
fn wf3_wf10_crash_leaves_a_log_and_a_header_that_match() {
    for report in Model::ALL.into_iter().flat_map(|model| crashed_at_once(model, HeaderBug::None)) {
        println!("log and header: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_header_that_is_marked_late_or_not_synced_is_caught() {
    for bug in [HeaderBug::MarkedFirst, HeaderBug::NotSynced] {
        Model::ALL.iter().for_each(|model| _ = crashed_at_once(*model, bug)[0].expect_failure());
    }
}
