//! The VFS: files that are neither a database nor its log go to the default VFS unchanged.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ferrite_sqlite_log::{DatabaseFile, DatabasePool, JournalFile};
use ferrite_sqlite_log::{Error, Result};

use crate::abi::{self, File, Routines, Vfs};
use crate::database::Database;
use crate::failure::Outcome;
use crate::main_file::{Below, HEAD_BYTES, MainFile, below, header_below, make, sync_given};
use crate::{failure, log_file};

/// The data of the registered VFS, once for the process.
struct Registered {
    vfs: Vfs,
    routines: Routines,
}

// SAFETY: the data is written before it is registered. SQLite guards the link to the next VFS by its own lock. The
// targets of the other pointers stay for as long as the program runs.
unsafe impl Send for Registered {}
// SAFETY: the reason of `Send` applies.
unsafe impl Sync for Registered {}

static REGISTERED: OnceLock<Registered> = OnceLock::new();

/// Registers the VFS under the name `ferrite`, beside the default one or in its place.
///
/// # Safety
/// The routines must be SQLite's.
pub unsafe fn register(routines: Routines, is_default: bool) -> c_int {
    // SAFETY: this is SQLite's routine, which finds the default VFS.
    let default = unsafe { (routines.vfs_find)(std::ptr::null()) };
    if default.is_null() {
        return abi::ERROR;
    }
    let registered = REGISTERED.get_or_init(|| {
        // SAFETY: a registered VFS stays.
        let below = unsafe { *default };
        let vfs = Vfs {
            // The methods of version 3 replace system calls of the default VFS, so callers use that VFS for them.
            version: below.version.min(2),
            file_bytes: below.file_bytes + HEAD_BYTES as c_int,
            next: std::ptr::null_mut(),
            name: c"ferrite".as_ptr(),
            app_data: default.cast(),
            open: Some(open),
            delete: Some(delete),
            access: Some(access),
            full_pathname: Some(full_pathname),
            dl_open: Some(dl_open),
            dl_error: Some(dl_error),
            dl_sym: Some(dl_sym),
            dl_close: Some(dl_close),
            randomness: Some(randomness),
            sleep: Some(sleep),
            current_time: Some(current_time),
            last_error: Some(last_error),
            current_time_ms: Some(current_time_ms),
            ..below
        };
        Registered { vfs, routines }
    });
    // SAFETY: this is SQLite's routine; the VFS stays, and only SQLite changes the link in it.
    match unsafe { (routines.vfs_register)((&raw const registered.vfs).cast_mut(), c_int::from(is_default)) } {
        abi::OK => abi::OK_LOAD_PERMANENTLY,
        code => code,
    }
}

fn routines() -> Routines {
    REGISTERED.get().expect("SQLite calls what was registered").routines
}

/// Calls the default VFS.
macro_rules! pass {
    ($vfs:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: SQLite passes the VFS that was registered, whose data is the default one.
        let default = unsafe { (*$vfs).app_data.cast::<Vfs>() };
        // SAFETY: a registered VFS stays, and has its methods; the arguments are the ones that SQLite passed.
        unsafe { (*default).$method.expect("every VFS has it")(default $(, $argument)*) }
    }};
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    if name.is_null() {
        return pass!(vfs, open, name, file, flags, out_flags);
    }
    // SAFETY: SQLite passes a string.
    let text = unsafe { CStr::from_ptr(name) };
    if flags & abi::OPEN_MAIN_DB != 0 {
        // SAFETY: SQLite's arguments are passed on.
        return unsafe { open_main(vfs, name, file, flags, out_flags) };
    }
    let is_log = flags & (abi::OPEN_WAL | abi::OPEN_MAIN_JOURNAL | abi::OPEN_SUPER_JOURNAL) != 0;
    match if is_log { Database::of_log(text) } else { Ok(None) } {
        Ok(Some((database, which))) => {
            if !out_flags.is_null() {
                // SAFETY: SQLite passes valid pointers.
                unsafe { *out_flags = flags };
            }
            // SAFETY: SQLite provides as much memory as was registered, which is enough.
            unsafe { log_file::open(file, routines(), database, which, flags) }
        }
        Ok(None) => pass!(vfs, open, name, file, flags, out_flags),
        Err(error) => failure::report(&routines(), &text.to_string_lossy(), &error.into(), abi::CANTOPEN),
    }
}

/// Opens a database file.
///
/// # Safety
/// SQLite must call this function.
unsafe fn open_main(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out_flags: *mut c_int) -> c_int {
    // This check comes before the file is made: a refused open leaves no file.
    // SAFETY: SQLite passes a string, and enough memory. SQLite need not close a file without methods.
    let (log_pool, path) = unsafe {
        (*file).methods = std::ptr::null();
        let path = CStr::from_ptr(name).to_string_lossy().into_owned();
        (log_pool(name, &path), path)
    };
    let log_pool = match log_pool {
        Ok(Some(log_pool)) => log_pool,
        Ok(None) => return pass!(vfs, open, name, file, flags, out_flags),
        Err(error) => return failure::report(&routines(), &path, &error.into(), abi::CANTOPEN),
    };
    let mut opened = flags;
    let code = pass!(vfs, open, name, below(file), flags, &raw mut opened);
    if code != abi::OK {
        return code;
    }
    if !out_flags.is_null() {
        // SAFETY: SQLite passes valid pointers.
        unsafe { *out_flags = opened };
    }
    // SAFETY: SQLite passes valid pointers; the file below is open.
    let allowed = unsafe {
        header_below(file).and_then(|header| {
            let database = Database::open(&path, &log_pool, header.as_ref())?;
            make(file, routines(), database, opened & abi::OPEN_READONLY != 0);
            sync_past(vfs, file, &path)
        })
    };
    if let Err(error) = &allowed {
        // SAFETY: the file was opened above, and the part in front of it has methods; it is not used any more. SQLite
        // need not close a file without methods.
        unsafe {
            if !(*file).methods.is_null() {
                // Dropping the database file releases its log.
                drop(file.cast::<MainFile>().read());
            }
            if let Some(close) = (*(*below(file)).methods).close {
                close(below(file));
            }
            (*file).methods = std::ptr::null();
        }
        return failure::report(&routines(), &path, error, abi::CANTOPEN);
    }
    abi::OK
}

/// The parameters that make SQLite open without locks. Without locks a header would not be marked before a log is
/// written (SV1), or a log would not be read.
const UNLOCKED: [&CStr; 2] = [c"nolock", c"immutable"];

/// Returns true if SQLite interprets the value of a parameter as off.
fn is_off(value: &Path) -> bool {
    let value = value.to_string_lossy();
    ["0", "no", "off", "false"].iter().any(|off| value.eq_ignore_ascii_case(off))
}

/// Returns the pool for a database's log: the pool that its URI or the environment names, or else the pool that has a
/// log of it. SQLite opens databases that a connection attaches or vacuums into by the connection's VFS, without its
/// parameters. Such a database and its log are files of the default VFS. Programs without Ferrite may use it, so its
/// header must not be marked.
///
/// # Safety
/// `name` must be the name that SQLite passed for a database.
unsafe fn log_pool(name: *const c_char, path: &str) -> Result<Option<Arc<DatabasePool>>> {
    let parameter = |key: &CStr| {
        // SAFETY: the caller guarantees the name; the result is a string or null.
        unsafe {
            let value = (routines().uri_parameter)(name, key.as_ptr());
            (!value.is_null()).then(|| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(value).to_bytes())))
        }
    };
    let pool = parameter(c"pool").or_else(|| ferrite_memory::process::variable("FERRITE_POOL").map(PathBuf::from));
    let log_pool = match pool {
        Some(pool) => Some(Database::reach(&pool)?),
        None => Database::log_pool_of(path)?,
    };
    match log_pool {
        Some(_) if UNLOCKED.iter().any(|key| parameter(key).is_some_and(|value| !is_off(&value))) => Err(Error::Refused(
            "nolock and immutable are not for a database whose log is in a pool: by its locks it is told whether the log \
             counts; open it without them"
                .into(),
        )),
        None if parameter(c"vfs").is_some() || Database::log_pools().is_empty() => Err(Error::Refused(
            "no pool is named: open file:DATABASE?vfs=ferrite&pool=PATH, or set FERRITE_POOL".into(),
        )),
        log_pool => Ok(log_pool),
    }
}

/// Handles the leftovers of a crash or of another program: finishes or undoes a drain, and refuses a database that is
/// incomplete here.
///
/// # Safety
/// SQLite must call this function; `file` must be made.
unsafe fn sync_past(vfs: *mut Vfs, file: *mut File, path: &str) -> Outcome<()> {
    // SAFETY: the caller guarantees the conditions of this function.
    let (database, _) = Database::of_log(&std::ffi::CString::new(format!("{path}-wal")).expect("a path has no zero"))?
        .expect("it was just opened");
    let log = &database.log;
    let mut header = log.verify(&Below(file))?;
    if log.mark()?.is_some_and(|mark| mark.is_given) {
        sync_given(file)?;
        header = Below(file).header()?;
    }
    let is_foreign = header.is_some_and(|header| header.is_marked());
    JournalFile::ALL
        .into_iter()
        .try_for_each(|which| sync_beside(vfs, &format!("{path}{}", which.suffix()), is_foreign))
}

/// Removes a log file beside a database whose log is in the pool: it would be taken for the log when the header has its
/// own versions again. If the header has its own versions, refuses a log file of another program or of a drain.
fn sync_beside(vfs: *mut Vfs, path: &str, is_foreign: bool) -> Outcome<()> {
    let name = std::ffi::CString::new(path).expect("a path has no zero");
    let code = if is_foreign { pass!(vfs, delete, name.as_ptr(), 1) } else { abi::OK };
    let why = match is_foreign {
        true if code != abi::OK && std::fs::symlink_metadata(path).is_ok() => format!(
            "{path} is not the database's log, which is in the pool, and cannot be removed (SQLite's code {code}): remove it"
        ),
        false if is_live_file(path) => format!(
            "{path} is beside it: `ferrite wal drain` gave it back, or another program uses the database, or was killed; end \
             that, and open the database once without Ferrite"
        ),
        _ => return Ok(()),
    };
    Err(Error::Refused(why).into())
}

/// Returns true if the log file of another program has content.
fn is_live_file(path: &str) -> bool {
    use std::io::Read;
    let mut first = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut first));
    read.is_ok_and(|read| first[..read].iter().any(|byte| *byte != 0))
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite passes a string.
    let text = unsafe { CStr::from_ptr(name) };
    let (database, file) = match Database::of_log(text) {
        Ok(Some(which)) => which,
        Ok(None) => return pass!(vfs, delete, name, sync),
        Err(error) => return failure::report(&routines(), &text.to_string_lossy(), &error.into(), abi::IOERR_DELETE),
    };
    let log = &database.log;
    database.count_log_change();
    let deleted = log.delete(file).and_then(|()| if sync != 0 { log.persist() } else { Ok(()) });
    failure::code(&routines(), log.path(), deleted, abi::IOERR_DELETE)
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, how: c_int, result: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a string.
    let text = unsafe { CStr::from_ptr(name) };
    let (database, file) = match Database::of_log(text) {
        Ok(Some(which)) => which,
        Ok(None) => return pass!(vfs, access, name, how, result),
        Err(error) => return failure::report(&routines(), &text.to_string_lossy(), &error.into(), abi::IOERR_ACCESS),
    };
    match database.log.length(file) {
        Ok(length) => {
            // Like the default VFS, this VFS reports that an empty file does not exist.
            let is_there = length.is_some_and(|length| length > 0 || how != abi::ACCESS_EXISTS);
            // SAFETY: SQLite passes valid pointers.
            unsafe { *result = c_int::from(is_there) };
            abi::OK
        }
        Err(error) => failure::report(&routines(), database.log.path(), &error.into(), abi::IOERR_ACCESS),
    }
}

unsafe extern "C" fn full_pathname(vfs: *mut Vfs, name: *const c_char, bytes: c_int, into: *mut c_char) -> c_int {
    pass!(vfs, full_pathname, name, bytes, into)
}

unsafe extern "C" fn dl_open(vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    pass!(vfs, dl_open, name)
}

unsafe extern "C" fn dl_error(vfs: *mut Vfs, bytes: c_int, into: *mut c_char) {
    pass!(vfs, dl_error, bytes, into);
}

unsafe extern "C" fn dl_sym(vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> *mut c_void {
    pass!(vfs, dl_sym, library, name)
}

unsafe extern "C" fn dl_close(vfs: *mut Vfs, library: *mut c_void) {
    pass!(vfs, dl_close, library);
}

unsafe extern "C" fn randomness(vfs: *mut Vfs, bytes: c_int, into: *mut c_char) -> c_int {
    pass!(vfs, randomness, bytes, into)
}

unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    pass!(vfs, sleep, microseconds)
}

unsafe extern "C" fn current_time(vfs: *mut Vfs, days: *mut f64) -> c_int {
    pass!(vfs, current_time, days)
}

unsafe extern "C" fn last_error(vfs: *mut Vfs, bytes: c_int, into: *mut c_char) -> c_int {
    pass!(vfs, last_error, bytes, into)
}

unsafe extern "C" fn current_time_ms(vfs: *mut Vfs, milliseconds: *mut i64) -> c_int {
    pass!(vfs, current_time_ms, milliseconds)
}
