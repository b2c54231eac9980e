//! The binary interface between SQLite and its extensions: structures of `sqlite3.h` and `sqlite3ext.h`, and the
//! numbers in them.
//!
//! Only the parts used here have a type; SQLite promises its extensions that the layouts never change.

use std::ffi::{c_char, c_int, c_void};

/// `sqlite3_file`.
#[repr(C)]
pub struct File {
    pub methods: *const Methods,
}

type OnFile<A, R = c_int> = Option<unsafe extern "C" fn(*mut File, A) -> R>;

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Methods {
    pub version: c_int,
    pub close: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub read: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub write: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub truncate: OnFile<i64>,
    /// `xSync`.
    pub sync: OnFile<c_int>,
    pub file_size: OnFile<*mut i64>,
    pub lock: OnFile<c_int>,
    pub unlock: OnFile<c_int>,
    pub check_reserved_lock: OnFile<*mut c_int>,
    pub file_control: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub sector_size: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub device_characteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub shm_map: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut File)>,
    pub shm_unmap: OnFile<c_int>,
    pub fetch: Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

/// `sqlite3_vfs`, version 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub path_bytes_max: c_int,
    pub next: *mut Self,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: Option<unsafe extern "C" fn(*mut Self, *const c_char, *mut File, c_int, *mut c_int) -> c_int>,
    pub delete: Option<unsafe extern "C" fn(*mut Self, *const c_char, c_int) -> c_int>,
    pub access: Option<unsafe extern "C" fn(*mut Self, *const c_char, c_int, *mut c_int) -> c_int>,
    pub full_pathname: Option<unsafe extern "C" fn(*mut Self, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: Option<unsafe extern "C" fn(*mut Self, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Self, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Self, *mut c_void, *const c_char) -> *mut c_void>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Self, *mut c_void)>,
    pub randomness: Option<unsafe extern "C" fn(*mut Self, c_int, *mut c_char) -> c_int>,
    pub sleep: Option<unsafe extern "C" fn(*mut Self, c_int) -> c_int>,
    pub current_time: Option<unsafe extern "C" fn(*mut Self, *mut f64) -> c_int>,
    pub last_error: Option<unsafe extern "C" fn(*mut Self, c_int, *mut c_char) -> c_int>,
    pub current_time_ms: Option<unsafe extern "C" fn(*mut Self, *mut i64) -> c_int>,
    pub set_system_call: Option<unsafe extern "C" fn(*mut Self, *const c_char, *mut c_void) -> c_int>,
    pub get_system_call: Option<unsafe extern "C" fn(*mut Self, *const c_char) -> *mut c_void>,
    pub next_system_call: Option<unsafe extern "C" fn(*mut Self, *const c_char) -> *const c_char>,
}

/// The part of `sqlite3_api_routines` up to the last routine used here, as words.
#[repr(C)]
pub struct Api {
    words: [*const c_void; 190],
}

pub type VfsFind = unsafe extern "C" fn(*const c_char) -> *mut Vfs;
pub type VfsRegister = unsafe extern "C" fn(*mut Vfs, c_int) -> c_int;
pub type UriParameter = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
pub type LogText = unsafe extern "C" fn(c_int, *const c_char, ...);

/// The routines of SQLite that are used here.
#[derive(Clone, Copy)]
pub struct Routines {
    pub vfs_find: VfsFind,
    pub vfs_register: VfsRegister,
    pub uri_parameter: UriParameter,
    pub log: LogText,
}

impl Api {
    /// Returns the routines, by their places in the structure.
    ///
    /// # Safety
    /// The structure must be the one that SQLite 3.7.16 or later passes to an extension.
    pub unsafe fn routines(&self) -> Routines {
        // SAFETY: the caller guarantees the structure; the places and types are from sqlite3ext.h, where no field ever
        // moves.
        unsafe {
            Routines {
                vfs_find: std::mem::transmute::<*const c_void, VfsFind>(self.words[141]),
                vfs_register: std::mem::transmute::<*const c_void, VfsRegister>(self.words[142]),
                log: std::mem::transmute::<*const c_void, LogText>(self.words[167]),
                uri_parameter: std::mem::transmute::<*const c_void, UriParameter>(self.words[189]),
            }
        }
    }
}

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const FULL: c_int = 13;
pub const CANTOPEN: c_int = 14;
pub const NOTFOUND: c_int = 12;
pub const IOERR: c_int = 10;
pub const IOERR_READ: c_int = IOERR | 1 << 8;
pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
pub const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
pub const IOERR_FSTAT: c_int = IOERR | 7 << 8;
pub const IOERR_DELETE: c_int = IOERR | 10 << 8;
pub const IOERR_ACCESS: c_int = IOERR | 13 << 8;
pub const IOERR_LOCK: c_int = IOERR | 15 << 8;
/// The extension stays loaded when the connection that loaded it closes.
pub const OK_LOAD_PERMANENTLY: c_int = 256;

pub const OPEN_READONLY: c_int = 0x1;
pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_DELETEONCLOSE: c_int = 0x8;
pub const OPEN_MAIN_DB: c_int = 0x100;
pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
/// A journal that several databases share; with it SQLite also looks into the journals of the other databases.
pub const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub const OPEN_WAL: c_int = 0x8_0000;

pub const ACCESS_EXISTS: c_int = 0;

pub const LOCK_NONE: c_int = 0;
pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const SYNC_NORMAL: c_int = 2;
pub const SYNC_DATA_ONLY: c_int = 0x10;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_EXCLUSIVE: c_int = 8;

/// A write changes only its own bytes of the file, even if the power fails.
pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
/// The VFS can gather writes and make them at once, without a journal.
pub const IOCAP_BATCH_ATOMIC: c_int = 0x4000;
