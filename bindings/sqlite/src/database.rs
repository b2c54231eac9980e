//! A database that this process has open: its log in the pool, shared by its connections.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ferrite_memory::Raced;
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

/// What a process has open. A child of fork begins with nothing and leaves what it was left as it is: that is its parent's
/// (WF6), and a thread may have its lock that the child has not.
struct Own {
    origin: Origin,
    open: Mutex<Open>,
    /// That of a child.
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

/// See the module.
pub struct Database {
    /// Its log.
    pub log: DatabaseLog,
    /// How often a connection of this process changed the log.
    log_changes: AtomicU64,
}

impl Database {
    /// The way to the pool at `pool`.
    pub fn reach(pool: &Path) -> Result<Arc<DatabasePool>> {
        let mut open = open();
        let named =
            pool.canonicalize().map_err(|error| failed(&format!("opening the pool {}", pool.display()), error))?;
        if let Some(log_pool) = open.log_pools.get(&named).and_then(Weak::upgrade) {
            return Ok(log_pool);
        }
        let services = ServiceRegistry::default().with(DatabaseService);
        let log_pool = DatabasePool::open(&named, Arc::new(services), random)?;
        open.log_pools.retain(|_, known| known.strong_count() > 0);
        open.log_pools.insert(named, Arc::downgrade(&log_pool));
        Ok(log_pool)
    }

    /// The database in the file at `path`, whose header is `header` and whose log is in the pool that `log_pool` is.
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

    /// The pools that databases of this process have their logs in.
    pub fn log_pools() -> Vec<Arc<DatabasePool>> {
        open().log_pools.values().filter_map(Weak::upgrade).collect()
    }

    /// The database whose log file is called `name`, and which one it is. It need not be open: before SQLite deletes the
    /// journal that a transaction over several databases has in common, it asks for those of the others.
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

    /// How often a connection of this process changed the log.
    pub fn log_changes(&self) -> u64 {
        self.log_changes.load(Ordering::Relaxed)
    }

    /// Counts a change of the log.
    pub fn count_log_change(&self) {
        self.log_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The way to that of this process's pools which has a log of the database at `path`.
    pub fn log_pool_of(path: &str) -> Result<Option<Arc<DatabasePool>>> {
        for log_pool in Self::log_pools() {
            if log_pool.databases()?.iter().any(|entry| entry.path == path) {
                return Ok(Some(log_pool));
            }
        }
        Ok(None)
    }
}

/// The header of a database file that this process has not open: closing it would end SQLite's locks on it.
fn header_at(path: &str) -> Result<Option<DatabaseHeader>> {
    let file = fs::File::open(path).map_err(|error| failed(&format!("opening {path}"), error))?;
    PlainFile { file: &file, path, fail: |doing, error| failed(&doing, error) }.header()
}

/// A random number from the kernel, also in a child of fork another one.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.expect("the kernel gives random numbers");
    u64::from_le_bytes(bytes)
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::Io { doing: what.into(), source: error }
}
