//! Calls from C: arguments in, a status and a message out.
//!
//! Unsafe because C passes pointers; the header says what each of them must be.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrite_object::Error;
use ferrite_owner::Error as OwnerError;
use ferrite_pool::{Error as PoolError, FailureKind, Origin};

/// The result of a call: a status of the header, or an error.
pub type CallResult = Result<c_int, Error>;

/// The call succeeded.
pub const OK: c_int = 0;
/// Nothing is there: no such key, an empty queue, a missing number.
pub const ABSENT: c_int = 1;
/// The caller cancelled the change.
pub const CANCELLED: c_int = 13;
/// The store is closed, but its end failed.
pub const DROPPED: c_int = 14;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs `call`, stores its message for this thread, and returns the status.
pub fn status(call: impl FnOnce() -> CallResult) -> c_int {
    let (status, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => return status,
        Ok(Err(error)) => (status_of(&error), error.to_string()),
        Err(_) => (11, "an internal error stopped this call: its message is on standard error".into()),
    };
    tell(&message);
    status
}

/// Stores `message` for this thread.
fn tell(message: &str) {
    MESSAGE.with(|kept| *kept.borrow_mut() = CString::new(message.replace('\0', " ")).unwrap_or_default());
}

/// Ends a call with this `status`, for an `error` that usually has another one.
pub fn failed(status: c_int, error: &Error) -> CallResult {
    tell(&error.to_string());
    Ok(status)
}

/// Returns the header's status for `error`.
fn status_of(error: &Error) -> c_int {
    match error {
        Error::Refused(_) | Error::WrongLength { .. } => 2,
        Error::Pool(PoolError::LogFull { .. }) => 6,
        Error::Pool(PoolError::Revoked(_) | PoolError::OwnerEnded) | Error::Owner(OwnerError::Died) => 12,
        Error::Pool(error) => match error.kind() {
            FailureKind::BadName | FailureKind::Limit => 2,
            FailureKind::NotFound => 3,
            FailureKind::Exists => 4,
            FailureKind::Busy => 5,
            FailureKind::Full => 6,
            FailureKind::Damaged => 7,
            FailureKind::Poisoned => 8,
            _ => 11,
        },
        Error::Damaged { .. } => 7,
        Error::WrongType { .. } => 9,
        Error::TooLarge { .. } => 10,
        Error::Owner(_) => 11,
    }
}

/// Bytes that C owns until it frees them.
#[repr(C)]
pub struct CBytes {
    data: *mut u8,
    len: usize,
}

/// Defines functions of the header: their bodies run under [`status`], and may follow the pointers that they get. A
/// function that would wait for the plan that calls it is marked `#[ensure_no_plan]`.
macro_rules! export {
    ($($(#[$guard:ident])? fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> std::ffi::c_int {
            // SAFETY: the header says what each argument must be.
            $crate::call::status(|| unsafe {
                $($crate::bundle::$guard()?;)?
                $body
            })
        }
    )*};
}

/// An object that C holds, and the process that opened it. A child of fork has the pointer too, but the object belongs
/// to its parent, with its locks and grants.
#[repr(C)]
struct CObject<T> {
    object: T,
    origin: Origin,
}

impl<T> CObject<T> {
    fn new(object: T) -> Self {
        Self { object, origin: Origin::here() }
    }
}

fn missing(what: &str) -> Error {
    Error::Refused(format!("{what} is a null pointer"))
}

fn of_parent() -> Error {
    Error::Refused("this handle was opened before the fork and belongs to the parent process: open the store again in this process".into())
}

/// Returns the text at `pointer`.
///
/// # Safety
/// `pointer` is null, or a zero-terminated string that lives during the call.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(missing(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::Refused(format!("{what} is not UTF-8")))
}

/// The most bytes of an argument: its length has 32 bits in a change.
const ARGUMENT_BYTES_MAX: usize = u32::MAX as usize;

/// Returns the `len` bytes at `data`. A length that no object has room for is refused before the bytes are read.
///
/// # Safety
/// `data` has so many bytes, which live during the call; with a length of 0 it may be null.
pub unsafe fn bytes<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Error> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (_, len) if len > ARGUMENT_BYTES_MAX => {
            let (bytes, bytes_max) = (len as u64, ARGUMENT_BYTES_MAX as u64);
            Err(Error::TooLarge { what: "an argument", bytes, bytes_max })
        }
        (true, _) => Err(missing("the bytes")),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// Returns the object at `pointer`.
///
/// # Safety
/// `pointer` is null, or one that [`give`] returned and [`take`] has not taken back.
pub unsafe fn at<'a, T>(pointer: *const T) -> Result<&'a T, Error> {
    // SAFETY: the caller's promise; an object is the first field of its [`CObject`].
    let kept = unsafe { pointer.cast::<CObject<T>>().as_ref() }.ok_or_else(|| missing("the object"))?;
    if kept.origin.is_here() { Ok(&kept.object) } else { Err(of_parent()) }
}

/// Returns the object at `pointer` for exclusive use.
///
/// # Safety
/// The conditions of [`at`], and no other call uses the object at the same time.
pub unsafe fn at_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: the conditions of [`at`].
    let kept = unsafe { pointer.cast::<CObject<T>>().as_mut() }.ok_or_else(|| missing("the object"))?;
    if kept.origin.is_here() { Ok(&mut kept.object) } else { Err(of_parent()) }
}

/// Refuses a call that has no place for its result, before it does anything.
pub fn ensure_place<T>(out: *const T) -> Result<(), Error> {
    if out.is_null() { Err(missing("the pointer for the result")) } else { Ok(()) }
}

/// Stores `value` at `out`.
///
/// # Safety
/// `out` is null, or may be written to.
pub unsafe fn set<T>(out: *mut T, value: T) -> CallResult {
    ensure_place(out)?;
    // SAFETY: not null, and the caller's promise; the previous content is not dropped.
    unsafe { out.write(value) };
    Ok(OK)
}

/// Gives the object that `make` creates to C, to be taken back by [`take`]. Without a place for it, nothing is created.
///
/// # Safety
/// The conditions of [`set`].
pub unsafe fn give<T>(out: *mut *mut T, make: impl FnOnce() -> Result<T, Error>) -> CallResult {
    ensure_place(out)?;
    let value = make()?;
    // SAFETY: the caller's promise.
    unsafe { set(out, Box::into_raw(Box::new(CObject::new(value))).cast()) }
}

/// Lends `value` to C while `call` runs.
pub fn lend<T: Default, R>(value: &mut T, call: impl FnOnce(*mut T) -> R) -> R {
    let mut kept = CObject::new(std::mem::take(value));
    let output = call((&raw mut kept).cast());
    *value = kept.object;
    output
}

/// Gives bytes to C, or reports their absence; freeing no bytes is harmless.
///
/// # Safety
/// The conditions of [`set`].
pub unsafe fn give_bytes(out: *mut CBytes, value: Option<Vec<u8>>) -> CallResult {
    ensure_place(out)?;
    let status = if value.is_some() { OK } else { ABSENT };
    let bytes = value.map_or(CBytes { data: std::ptr::null_mut(), len: 0 }, |value| {
        let value = value.into_boxed_slice();
        CBytes { len: value.len(), data: Box::into_raw(value).cast() }
    });
    // SAFETY: the caller's promise.
    unsafe { set(out, bytes) }?;
    Ok(status)
}

/// Takes an object back from C, unless it belongs to the parent of this process.
///
/// # Safety
/// The conditions of [`at`]; no call uses the object any more.
pub unsafe fn take<T>(pointer: *mut T) -> Option<T> {
    // SAFETY: the caller's promise; the pointer came from such a box.
    unsafe { at(pointer).is_ok().then(|| Box::from_raw(pointer.cast::<CObject<T>>()).object) }
}

/// Returns the message of the last failed call of this thread.
#[unsafe(no_mangle)]
extern "C" fn ferrite_error() -> *const c_char {
    MESSAGE.with(|kept| kept.borrow().as_ptr())
}

export! {
    fn ferrite_bytes_free(bytes: *mut CBytes) {
        let Some(CBytes { data, len }) = bytes.as_mut() else { return Ok(OK) };
        if !data.is_null() {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(*data, *len)));
        }
        (*data, *len) = (std::ptr::null_mut(), 0);
        Ok(OK)
    }
}
