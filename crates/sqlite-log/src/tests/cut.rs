//! WF10, WF11: marking, moving on, unmarking and giving up, cut after each step on the file.

use std::cell::Cell;
use std::fs;

use ferrite_pool::tie::{TieVerdict, compare};

use super::given_back::{Place, identity_of};
use super::*;
use crate::Error;

/// A database file that fails after so many writes and flushes, as if its program were killed.
struct Cut {
    file: fs::File,
    path: String,
    left: Cell<u32>,
}

impl Cut {
    fn new(place: &Place, left: u32) -> Self {
        let path = place.database();
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        Self { file, path, left: Cell::new(left) }
    }

    fn plain(&self) -> PlainFile<'_> {
        PlainFile { file: &self.file, path: &self.path, fail: |doing, error| Error::io(doing, error) }
    }

    fn step(&self) -> Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| Error::Refused("cut".into()))?;
        self.left.set(left);
        Ok(())
    }
}

impl DatabaseFile for Cut {
    type Error = Error;

    fn header(&self) -> Result<Option<DatabaseHeader>> {
        self.plain().header()
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.step()?;
        self.plain().put(at, bytes)
    }

    fn persist(&self) -> Result<()> {
        self.step()?;
        self.plain().persist()
    }
}

const OWN: DatabaseMark = DatabaseMark { write: 2, read: 2, is_on_disk: false, is_given: false };

fn mark(log: &DatabaseLog, file: &Cut) -> Result<()> {
    log.set_mark(Some(OWN))?;
    log.mark_file(file)?;
    log.set_mark(Some(DatabaseMark { is_on_disk: true, ..OWN }))
}

fn unmark(log: &DatabaseLog, file: &Cut) -> Result<()> {
    log.set_mark(Some(OWN))?;
    log.unmark_file(file, OWN)?;
    log.empty()
}

fn advance(log: &DatabaseLog, file: &Cut) -> Result<()> {
    log.advance(file)
}

/// A file whose header has versions of its own.
fn place() -> Place {
    let place = Place::new();
    let mut header = [0; 4096];
    header[..16].copy_from_slice(b"SQLite format 3\0");
    header[18..20].fill(2);
    fs::write(place.path("a.db"), header).unwrap();
    place
}

type Work = fn(&DatabaseLog, &Cut) -> Result<()>;

/// Does `before`, then `work` cut after `steps` steps; opens again, repeats `work`, and returns the log. Returns `None`
/// if `work` ended before the cut.
fn cut_after(steps: u32, before: &[Work], work: Work) -> Option<(Place, DatabaseLog)> {
    let place = place();
    let log = place.log();
    let whole = Cut::new(&place, u32::MAX);
    before.iter().for_each(|work| work(&log, &whole).unwrap());
    let older = log.tie().unwrap();
    if work(&log, &Cut::new(&place, steps)).is_ok() {
        return None;
    }
    drop(log);
    let log = place.log();
    log.verify(&whole).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
    work(&log, &whole).unwrap();
    log.verify(&whole).unwrap();
    let stamp = whole.header().unwrap().unwrap().stamp;
    assert!(!compare(&older, stamp.as_ref()).is_good() || before.is_empty(), "an older pool goes with the file");
    Some((place, log))
}

fn cuts(before: &[Work], work: Work, is_right: impl Fn(&DatabaseHeader, &DatabaseLog)) {
    let mut cuts = 0;
    while let Some((place, log)) = cut_after(cuts, before, work) {
        is_right(&Cut::new(&place, 0).header().unwrap().unwrap(), &log);
        cuts += 1;
    }
    assert!(cuts >= 2, "{cuts} cuts");
}

fn is_drained(header: &DatabaseHeader, log: &DatabaseLog) {
    let tie = log.tie().unwrap();
    assert!(header.is_marked() && tie.is_complete() && header.stamp == Some(tie.stamp()), "{header:?} {tie:?}");
}

#[test]
fn wf10_marking_and_moving_on_that_are_cut_are_gone_on_with() {
    cuts(&[], mark, is_drained);
    cuts(&[mark, unmark], mark, is_drained);
    cuts(&[mark], advance, is_drained);
    cuts(&[mark, advance, advance], advance, is_drained);
}

#[test]
fn wf11_an_unmarking_that_is_cut_is_gone_on_with_and_ends_the_generation() {
    cuts(&[mark, advance], unmark, |header, log| {
        let tie = log.tie().unwrap();
        assert_eq!((header.versions, header.stamp, tie.previous), ([2, 2], None, None));
    });
}

/// WF11: what is marked again has a generation that no copy of the pool has, also without a checkpoint in between.
#[test]
fn wf11_no_two_markings_have_one_generation() {
    let place = place();
    let whole = Cut::new(&place, u32::MAX);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let log = place.log();
        for _ in 0..2 {
            mark(&log, &whole).unwrap();
            seen.push(whole.header().unwrap().unwrap().stamp.unwrap());
            unmark(&log, &whole).unwrap();
        }
    }
    let are_told = (0..seen.len()).all(|at| !seen[..at].contains(&seen[at]));
    assert!(are_told, "{seen:?}");
}

/// A copy of a pool in which nothing is marked goes on, and then the pool that it was copied from comes back.
#[test]
fn wf11_a_copy_of_an_unmarked_pool_begins_a_generation_of_its_own() {
    let place = place();
    let whole = Cut::new(&place, u32::MAX);
    // A log that stays, though nothing is in it: another program has it open.
    let log = place.log();
    mark(&log, &whole).unwrap();
    unmark(&log, &whole).unwrap();
    log.set_mark(Some(OWN)).unwrap();
    let tie = log.tie().unwrap();
    drop(log);
    let log = place.log();
    let verdict = compare(&tie, Some(&log.tie().unwrap().stamp()));
    assert_eq!(verdict, TieVerdict::ObjectLater);
}

/// WF5: the pool forgets first; then the header says that its log is elsewhere, and is given versions by the same command.
#[test]
fn wf5_a_giving_up_that_is_cut_is_gone_on_with() {
    let place = place();
    let whole = Cut::new(&place, u32::MAX);
    let log = place.log();
    mark(&log, &whole).unwrap();
    log.create(JournalFile::Wal).unwrap();
    log.write(JournalFile::Wal, 0, b"committed").unwrap();
    drop(log);
    let (path, identity) = (place.database(), identity_of(&place.database()));
    let request = DatabaseRequest::Forget { path: path.clone(), identity: Some(identity), lose: Some(9) };
    place.log_pool.ask::<Forgotten>(&request).unwrap();
    let message = place.log().verify(&whole).unwrap_err().to_string();
    assert!(message.contains("its log is in another pool"), "{message}");
    forget(&place.log_pool, &path, None).unwrap();
    let header = whole.header().unwrap().unwrap();
    assert_eq!((header.versions, header.stamp), ([2, 2], None));
}
