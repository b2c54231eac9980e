//! Stores for C.
#![allow(unsafe_code, reason = "a visitor of C's, and its pointers")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use ferrite_guest::GuestService;
use ferrite_object::{Error, Finish, Logging, NewStore, ObjectService, OpenStore, Store};
use ferrite_owner::{ServiceRegistry, machine};
use ferrite_pool::Error as PoolError;

use crate::call::{CallResult, DROPPED, OK, at, failed, give, set, take, text};

/// Called with each name, its kind and its size.
type TagVisitor = unsafe extern "C" fn(*const c_char, *const c_char, u64, *mut c_void) -> c_int;

/// The options of a structure, as in the header; zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CLoggingOptions {
    log_bytes: u64,
    checkpoint_records: u64,
    checkpoint_bytes: u64,
    salvage: c_int,
}

impl CLoggingOptions {
    /// Returns the options with their defaults filled in.
    ///
    /// # Safety
    /// `options` is null, or may be read.
    pub unsafe fn logging(options: *const Self) -> Logging {
        let usual = Logging::default();
        // SAFETY: the caller's promise.
        let asked = unsafe { options.as_ref() }.copied().unwrap_or_default();
        let log_bytes = if asked.log_bytes == 0 { usual.log_bytes } else { asked.log_bytes };
        let Self { checkpoint_records, .. } = asked;
        let checkpoint_bytes = match asked.checkpoint_bytes {
            0 => log_bytes / 4 * 3,
            bytes => bytes,
        };
        Logging { log_bytes, checkpoint_records, checkpoint_bytes, salvage: asked.salvage != 0 }
    }
}

/// Returns the services that a C process serves while it owns a store's pool.
fn opening() -> OpenStore {
    let services = ServiceRegistry::default().with(ObjectService).with(GuestService::of_files());
    OpenStore { guard: None, services: Some(Arc::new(services)) }
}

/// Returns a random identity.
fn uuid() -> Result<[u8; 16], Error> {
    machine::random_uuid().map_err(|error| Error::Refused(error.to_string()))
}

/// Returns the name of a tag's kind.
fn kind(number: u16) -> &'static str {
    ferrite_pool::TagKind(number).name()
}

/// Ends the use of `store`. A failure before the pointer is taken leaves the store open; a later failure has a status
/// of its own, by which the caller knows that the pointer is gone.
///
/// # Safety
/// The conditions of [`take`].
unsafe fn finalize(store: *mut Store, finish: &Finish) -> CallResult {
    // SAFETY: the caller's promise.
    let Ok(open) = (unsafe { at(store) }) else { return Ok(OK) };
    if open.is_in_use() {
        return Err(PoolError::Busy("objects of the store are open: close them first".into()).into());
    }
    open.prepare(finish)?;
    // SAFETY: the caller's promise; `open` is not used any more.
    let Some(taken) = (unsafe { take(store) }) else { return Ok(OK) };
    let ended = taken.finalize(&Finish { defragment: finish.defragment, backup: None });
    ended.map(|_| OK).or_else(|error| failed(DROPPED, &error))
}

export! {
    fn ferrite_store_create(path: *const c_char, bytes: u64, out: *mut *mut Store) {
        let new = NewStore { bytes, uuid: uuid()? };
        give(out, || Store::initialize(Path::new(text(path, "the path")?), &new, &opening()))
    }

    fn ferrite_store_open(path: *const c_char, out: *mut *mut Store) {
        give(out, || Store::open(Path::new(text(path, "the path")?), &opening()))
    }

    fn ferrite_store_close(store: *mut Store) {
        finalize(store, &Finish::default())
    }

    fn ferrite_store_finalize(store: *mut Store, defragment: c_int, backup: *const c_char) {
        let backup = match backup.is_null() {
            true => None,
            false => Some((text(backup, "the backup's path")?.into(), uuid()?)),
        };
        finalize(store, &Finish { defragment: defragment != 0, backup })
    }

    fn ferrite_store_owner_pid(store: *const Store, out: *mut u32) {
        set(out, at(store)?.owner_pid().unwrap_or(0))
    }

    #[ensure_no_plan]
    fn ferrite_store_backup(store: *const Store, path: *const c_char) {
        at(store)?.backup(Path::new(text(path, "the path")?), uuid()?).map(|()| OK)
    }

    fn ferrite_restore(image: *const c_char, path: *const c_char, lose_bytes: u64) {
        let (image, path) = (Path::new(text(image, "the image's path")?), Path::new(text(path, "the path")?));
        Store::restore(image, path, (lose_bytes > 0).then_some(lose_bytes)).map(|()| OK)
    }

    fn ferrite_store_tags(store: *const Store, visit: Option<TagVisitor>, context: *mut c_void) {
        let visit = visit.ok_or_else(|| Error::Refused("the visitor is a null pointer".into()))?;
        for note in at(store)?.tags()? {
            let (name, kind) = (CString::new(note.name).unwrap_or_default(), CString::new(kind(note.kind)).unwrap_or_default());
            if visit(name.as_ptr(), kind.as_ptr(), note.size, context) != 0 {
                break;
            }
        }
        Ok(OK)
    }

    #[ensure_no_plan]
    fn ferrite_store_free(store: *const Store, name: *const c_char) {
        at(store)?.free(text(name, "the name")?).map(|()| OK)
    }
}
