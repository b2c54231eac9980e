//! Databases that were killed early, whose folder is in the way, or whose pool's owner ends.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_owner::ServiceRegistry;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};

use super::*;

const BOOT: [u8; 16] = [7; 16];

/// Opens the pool at `path`, as each process that keeps databases' logs in it.
pub(super) fn open_pool(path: &std::path::Path) -> Result<Arc<DatabasePool>> {
    DatabasePool::open(path, Arc::new(ServiceRegistry::default().with(DatabaseService)), random, || 0)
}

/// Returns distinct numbers in place of random ones.
fn random() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    DRAWN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The identity of the file at `path`.
pub(super) fn identity_of(path: &str) -> DatabaseIdentity {
    let file = fs::File::open(path).unwrap();
    DatabaseIdentity::of_file(&PlainFile { file: &file, path, fail: |doing, error| Error::io(doing, error) }).unwrap()
}

/// Makes a pool, and an empty file beside it for a database.
pub(super) struct Place {
    pub(super) folder: tempfile::TempDir,
    pub(super) log_pool: Arc<DatabasePool>,
}

impl Place {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        let file = fs::File::options().read(true).write(true).create_new(true).open(&pool).unwrap();
        file.set_len(POOL_BYTES_MIN + CHUNK).unwrap();
        let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
        Pool::create(&Mapped::map(file, &options).unwrap(), &Format { uuid: [7; 16], boot_id: BOOT }).unwrap();
        fs::File::create(folder.path().join("a.db")).unwrap();
        Self { log_pool: open_pool(&pool).unwrap(), folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn database(&self) -> String {
        self.path("a.db").display().to_string()
    }

    pub(super) fn log(&self) -> DatabaseLog {
        self.log_by(&self.log_pool).unwrap()
    }

    fn log_by(&self, log_pool: &Arc<DatabasePool>) -> Result<DatabaseLog> {
        Self::log_of(&self.database(), log_pool)
    }

    pub(super) fn log_of(path: &str, log_pool: &Arc<DatabasePool>) -> Result<DatabaseLog> {
        let identity = identity_of(path);
        DatabaseLog::open(log_pool, path, identity, false)
    }

    /// Leaves what a program does that is killed before the first page of its new database is on disk.
    fn leave_journal(&self) {
        let log = self.log();
        log.set_mark(Some(DatabaseMark { write: 1, read: 1, is_on_disk: true, is_given: false })).unwrap();
        log.create(JournalFile::Journal).unwrap();
        log.write(JournalFile::Journal, 0, b"how it was").unwrap();
    }
}

#[test]
fn wf4_a_database_without_a_first_page_is_given_back() {
    let place = Place::new();
    place.leave_journal();
    fs::write(place.path("a.db"), [0; 8192]).unwrap();
    let mut work = GiveBack::begin(&place.log_pool, &place.database()).unwrap();
    while work.step().unwrap() != GiveBackProgress::Done {}
    assert_eq!(fs::read(place.path("a.db-journal")).unwrap(), b"how it was");
    assert_eq!(fs::read(place.path("a.db")).unwrap(), [0; 8192], "versions amid nothing");
}

/// Begins to give a log back beside the owner of the pool. The owner ends after the copying of the log and after `change`.
fn begun_beside(change: impl FnOnce(&Place)) -> (Place, GiveBack) {
    let place = Place::new();
    place.leave_journal();
    let beside = open_pool(&place.path("pool")).unwrap();
    assert!(!beside.is_owner());
    let mut work = GiveBack::begin(&beside, &place.database()).unwrap();
    while work.step().unwrap() != GiveBackProgress::Copied(10) {}
    change(&place);
    let Place { folder, log_pool } = place;
    drop(log_pool);
    let log_pool = open_pool(&folder.path().join("pool")).unwrap();
    let place = Place { folder, log_pool };
    assert!(place.log_pool.is_owner());
    (place, work)
}

/// WF4: the owner of the pool ends while a log is given back. The next owner refuses to open the log: an opening would
/// remove the copies, and then the log would be emptied.
#[test]
fn wf4_a_log_that_is_given_back_stays_alone_whoever_owns_the_pool() {
    let (place, mut work) = begun_beside(|_| ());
    let describe = place.log_by(&place.log_pool).unwrap_err().to_string();
    assert!(describe.contains(&format!("is in use by process {}", std::process::id())), "{describe}");
    while work.step().unwrap() != GiveBackProgress::Done {}
    assert_eq!(fs::read(place.path("a.db-journal")).unwrap(), b"how it was");
    drop(work);
    assert_eq!(place.log().length(JournalFile::Journal).unwrap(), None);
}

/// WF4 is broken: the word that one has the log alone is not there.
#[test]
fn canary_a_log_that_is_not_said_to_be_alone_is_emptied_behind_who_opens_it() {
    let (place, mut work) = begun_beside(|place| {
        let map = |path: PathBuf| {
            let file = fs::File::options().read(true).write(true).open(path).unwrap();
            Arc::new(Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).unwrap())
        };
        fs::copy(place.path("pool"), place.path("copy")).unwrap();
        let tag = Pool::open(map(place.path("copy")), BOOT).unwrap().0.tag(&place.database()).unwrap();
        JournalFiles::new(map(place.path("pool")), &tag.extents, tag.generation).unwrap().set_alone(false);
    });
    let opened = place.log_by(&place.log_pool).expect("nobody knows better");
    assert_eq!(opened.length(JournalFile::Journal).unwrap(), Some(10));
    while work.step().unwrap() != GiveBackProgress::Done {}
    assert_eq!(opened.length(JournalFile::Journal).unwrap(), None, "it is gone behind who has it open");
}

#[test]
fn what_hinders_a_copy_is_told_with_where_the_log_still_is() {
    let place = Place::new();
    place.leave_journal();
    fs::create_dir(place.path("a.db-journal")).unwrap();
    let mut work = GiveBack::begin(&place.log_pool, &place.database()).unwrap();
    let describe = std::iter::repeat_with(|| work.step()).take(10).find_map(Result::err).unwrap().to_string();
    assert!(describe.contains("a.db-journal: ") && describe.contains("is still in the pool"), "{describe}");
    fs::remove_dir(place.path("a.db-journal")).unwrap();
    while work.step().unwrap() != GiveBackProgress::Done {}
    assert_eq!(fs::read(place.path("a.db-journal")).unwrap(), b"how it was");
}

/// WF9: the log of a database that is renamed goes with it, and is in use by one name only.
#[test]
fn wf9_a_renamed_database_keeps_its_log() {
    let place = Place::new();
    place.leave_journal();
    let (was, renamed) = (place.database(), place.path("b.db").display().to_string());
    let log = place.log();
    fs::rename(&was, &renamed).unwrap();
    let describe = Place::log_of(&renamed, &place.log_pool).unwrap_err().to_string();
    assert!(describe.contains(&format!("is in use as {was} by process")), "{describe}");
    drop(log);
    assert_eq!(Place::log_of(&renamed, &place.log_pool).unwrap().length(JournalFile::Journal).unwrap(), Some(10));
    let paths: Vec<String> = place.log_pool.databases().unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, [renamed.as_str()]);
    let mut work = GiveBack::begin(&place.log_pool, &renamed).unwrap();
    while work.step().unwrap() != GiveBackProgress::Done {}
    drop(work);
    assert_eq!(fs::read(place.path("b.db-journal")).unwrap(), b"how it was");
    fs::rename(&renamed, &was).unwrap();
    assert_eq!(place.log().length(JournalFile::Journal).unwrap(), None);
}

/// A file whose header says that its log is in a pool.
fn marked(place: &Place) {
    let mut header = [0; 4096];
    header[..16].copy_from_slice(b"SQLite format 3\0");
    header[18..20].fill(DatabaseMark::FOREIGN);
    fs::write(place.path("a.db"), header).unwrap();
}

fn versions(place: &Place) -> [u8; 2] {
    fs::read(place.path("a.db")).unwrap()[18..20].try_into().unwrap()
}

/// WF5: a database whose log is in no pool that is known is not said to be given back, and the pool has nothing of it.
#[test]
fn wf5_what_is_not_here_is_not_given_back() {
    let place = Place::new();
    marked(&place);
    let describe = GiveBack::begin(&place.log_pool, &place.database()).err().unwrap().to_string();
    assert!(describe.contains("its log is in another pool") && describe.contains("`ferrite wal forget`"), "{describe}");
    assert_eq!((versions(&place), place.log_pool.databases().unwrap()), ([3, 3], Vec::new()));
    let (forgotten, was_marked) = forget(&place.log_pool, &place.database(), None).unwrap();
    assert_eq!((forgotten, was_marked, versions(&place)), (Forgotten::default(), true, [2, 2]));
}

/// WF5: the content of a log is given up only on request, and only while no process has the log.
#[test]
fn wf5_a_log_with_something_in_it_is_lost_only_as_it_was_asked_for() {
    let place = Place::new();
    marked(&place);
    place.leave_journal();
    let (log, path) = (place.log(), place.database());
    let describe = |lose| forget(&place.log_pool, &path, lose).unwrap_err().to_string();
    assert!(describe(Some(10)).contains("is in use by process"));
    drop(log);
    for lose in [None, Some(0), Some(9), Some(11)] {
        let describe = describe(lose);
        assert!(
            describe.contains("`ferrite wal drain` gives it back") && describe.contains("--lose 10 "),
            "{describe}"
        );
    }
    fs::rename(&path, place.path("b.db")).unwrap();
    let renamed = place.path("b.db").display().to_string();
    assert!(forget(&place.log_pool, &renamed, None).unwrap_err().to_string().contains("--lose 10 "));
    assert!(describe(None).contains("`ferrite wal drain`"), "its file is gone, and may be back");
    fs::rename(place.path("b.db"), &path).unwrap();
    assert_eq!((versions(&place), place.log().length(JournalFile::Journal).unwrap()), ([3, 3], Some(10)));
    let (forgotten, was_marked) = forget(&place.log_pool, &path, Some(10)).unwrap();
    assert_eq!((forgotten.lost_bytes, was_marked, versions(&place)), (10, true, [1, 1]));
    assert_eq!(place.log_pool.databases().unwrap(), Vec::new());
}
