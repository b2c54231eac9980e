//! A database that this process has open: its log in the pool, shared by its connections.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ferrite_memory::{Raced, monotonic_ns};
use ferrite_owner::ServiceRegistry;
use ferrite_pool::Origin;
use ferrite_sqlite_log::{
    DatabaseFile, DatabaseHeader, DatabaseIdentity, DatabaseLog, DatabasePool, DatabaseService, JournalFile, PlainFile,
};
use ferrite_sqlite_log::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

/// The databases and pools that are open, by path.
#[derive(Default)]
struct Open {
    databases: HashMap<String, Weak<Database>>,
    log_pools: HashMap<PathBuf, Weak<DatabasePool>>,
}

/// The open databases and pools of one process. A child of fork begins with none and leaves the inherited state
/// unchanged: it belongs to the parent (WF6). A thread that the child lacks may hold its lock.
struct Own {
    origin: Origin,
    open: Mutex<Open>,
    /// The state of a child process.
    next: Raced<Own>,
}

static FIRST: Raced<Own> = Raced::new();

impl Own {
    fn new() -> Self {
        Self { origin: Origin::here(), open: Mutex::default(), next: Raced::new() }
    }
}

fn open() -> MutexGuard<'static, Open> {
    let mut own = FIRST.get_or(Own::new);
    while !own.origin.is_here() {
        own = own.next.get_or(Own::new);
    }
    own.open.lock()
}

/// An open database with its log in the pool.
pub struct Database {
    /// The log of the database.
    pub log: DatabaseLog,
    /// Number of times that a connection of this process changed the log.
    log_changes: AtomicU64,
}

impl Database {
    /// Opens the pool at `pool`, or returns it if this process has it open.
    pub fn reach(pool: &Path) -> Result<Arc<DatabasePool>> {
        let mut open = open();
        let named =
            pool.canonicalize().map_err(|error| failed(&format!("opening the pool {}", pool.display()), error))?;
        if let Some(log_pool) = open.log_pools.get(&named).and_then(Weak::upgrade) {
            return Ok(log_pool);
        }
        let services = ServiceRegistry::default().with(DatabaseService);
        let log_pool = DatabasePool::open(&named, Arc::new(services), random, monotonic_ns)?;
        open.log_pools.retain(|_, known| known.strong_count() > 0);
        open.log_pools.insert(named, Arc::downgrade(&log_pool));
        Ok(log_pool)
    }

    /// Opens the database in the file at `path`, whose header is `header` and whose log is in `log_pool`.
    pub fn open(path: &str, log_pool: &Arc<DatabasePool>, header: Option<&DatabaseHeader>) -> Result<Arc<Self>> {
        let mut open = open();
        if let Some(database) = open.databases.get(path).and_then(Weak::upgrade) {
            return Ok(database);
        }
        let found = fs::metadata(path).map_err(|error| failed(&format!("looking at {path}"), error))?;
        let log = DatabaseLog::open(log_pool, path, DatabaseIdentity::of(&found, header), false)?;
        let database = Arc::new(Self { log, log_changes: AtomicU64::new(0) });
        open.databases.retain(|_, known| known.strong_count() > 0);
        open.databases.insert(path.into(), Arc::downgrade(&database));
        Ok(database)
    }

    /// Returns the pools that hold the logs of this process's databases.
    pub fn log_pools() -> Vec<Arc<DatabasePool>> {
        open().log_pools.values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the database whose log file is called `name`, and the kind of that file. The database may be closed:
    /// before SQLite deletes a journal that several databases share, it asks for the journals of the others.
    pub fn of_log(name: &CStr) -> Result<Option<(Arc<Self>, JournalFile)>> {
        let Some((path, file)) = name.to_str().ok().and_then(JournalFile::of) else { return Ok(None) };
        let database = open().databases.get(path).and_then(Weak::upgrade);
        if let Some(database) = database {
            return Ok(Some((database, file)));
        }
        match Self::log_pool_of(path)?.filter(|_| Path::new(path).is_file()) {
            Some(log_pool) => Ok(Some((Self::open(path, &log_pool, header_at(path)?.as_ref())?, file))),
            None => Ok(None),
        }
    }

    /// Returns the number of times that a connection of this process changed the log.
    pub fn log_changes(&self) -> u64 {
        self.log_changes.load(Ordering::Relaxed)
    }

    /// Counts a change of the log.
    pub fn count_log_change(&self) {
        self.log_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the pool of this process that holds a log of the database at `path`, or `None`.
    pub fn log_pool_of(path: &str) -> Result<Option<Arc<DatabasePool>>> {
        for log_pool in Self::log_pools() {
            if log_pool.databases()?.iter().any(|entry| entry.path == path) {
                return Ok(Some(log_pool));
            }
        }
        Ok(None)
    }
}

/// Reads the header of a database file that this process has not open: closing an open file would end SQLite's locks on
/// it.
fn header_at(path: &str) -> Result<Option<DatabaseHeader>> {
    let file = fs::File::open(path).map_err(|error| failed(&format!("opening {path}"), error))?;
    PlainFile { file: &file, path, fail: |doing, error| failed(&doing, error) }.header()
}

/// Returns a random number from the kernel; a child of fork gets a different one.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.expect("the kernel gives random numbers");
    u64::from_le_bytes(bytes)
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::Io { doing: what.into(), source: error }
}
