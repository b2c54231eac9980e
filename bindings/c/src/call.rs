//! Calls from C: arguments in, a status and a message out.
//!
//! Unsafe because what C passes is pointers; what each of them must be is told in the header.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrite_object::Error;
use ferrite_owner::Error as OwnerError;
use ferrite_pool::{Error as PoolError, FailureKind, Origin};

/// What a call gives: a status of the header, or what went wrong.
pub type CallResult = Result<c_int, Error>;

/// Done.
pub const OK: c_int = 0;
/// There is nothing: no such key, an empty queue, a number that is not there.
pub const ABSENT: c_int = 1;
/// What the caller itself gave up.
pub const CANCELLED: c_int = 13;
/// The store is closed, but not in order.
pub const DROPPED: c_int = 14;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs `call`, keeps its message for this thread, and says how it went.
pub fn status(call: impl FnOnce() -> CallResult) -> c_int {
    let (status, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => return status,
        Ok(Err(error)) => (status_of(&error), error.to_string()),
        Err(_) => (11, "ferrite failed inside this call: its message is on standard error".into()),
    };
    tell(&message);
    status
}

/// Keeps `message` for this thread.
fn tell(message: &str) {
    MESSAGE.with(|kept| *kept.borrow_mut() = CString::new(message.replace('\0', " ")).unwrap_or_default());
}

/// Ends a call with this `status`, for `error` that has another one elsewhere.
pub fn failed(status: c_int, error: &Error) -> CallResult {
    tell(&error.to_string());
    Ok(status)
}

/// The header's status for `error`.
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

/// Bytes that went out to C.
#[repr(C)]
pub struct CBytes {
    data: *mut u8,
    len: usize,
}

/// Defines functions of the header: their bodies run under [`status`], and may follow the pointers they are given. What
/// would wait for the plan that calls it says `#[ensure_no_plan]`.
macro_rules! export {
    ($($(#[$guard:ident])? fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> std::ffi::c_int {
            // SAFETY: the caller keeps to what the header says of each argument.
            $crate::call::status(|| unsafe {
                $($crate::bundle::$guard()?;)?
                $body
            })
        }
    )*};
}

/// What went out to C, and where: a child of fork has it too, but it is its parent's, with its locks and grants.
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
    Error::Refused("it was opened before this process was forked and is its parent's: open the store again here".into())
}

/// The text at `pointer`.
///
/// # Safety
/// It is null, or a zero-terminated string that stays for the call.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(missing(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::Refused(format!("{what} is not UTF-8")))
}

/// The most that an argument may have: its length has 32 bits in a change.
const ARGUMENT_BYTES_MAX: usize = u32::MAX as usize;

/// The `len` bytes at `data`. What no object has room for is refused before it is looked at.
///
/// # Safety
/// There are so many, and they stay for the call; where there are none `data` may be null.
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

/// What `pointer` points at.
///
/// # Safety
/// It is null, or one that [`give`] gave and that was not taken back.
pub unsafe fn at<'a, T>(pointer: *const T) -> Result<&'a T, Error> {
    // SAFETY: the caller's promise; an object is at the start of what keeps it.
    let kept = unsafe { pointer.cast::<CObject<T>>().as_ref() }.ok_or_else(|| missing("the object"))?;
    if kept.origin.is_here() { Ok(&kept.object) } else { Err(of_parent()) }
}

/// As [`at`], alone.
///
/// # Safety
/// As [`at`], and no other call uses it meanwhile.
pub unsafe fn at_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: as there.
    let kept = unsafe { pointer.cast::<CObject<T>>().as_mut() }.ok_or_else(|| missing("the object"))?;
    if kept.origin.is_here() { Ok(&mut kept.object) } else { Err(of_parent()) }
}

/// Refuses a call that cannot tell its result, before it does anything.
pub fn ensure_place<T>(out: *const T) -> Result<(), Error> {
    if out.is_null() { Err(missing("where the result goes")) } else { Ok(()) }
}

/// Stores `value` where the caller wants it.
///
/// # Safety
/// `out` is null, or may be written to.
pub unsafe fn set<T>(out: *mut T, value: T) -> CallResult {
    ensure_place(out)?;
    // SAFETY: not null, and the caller's promise; what is there before is not dropped.
    unsafe { out.write(value) };
    Ok(OK)
}

/// Gives what `make` makes to C, to be taken back by [`take`]. Nothing is made that could not be given.
///
/// # Safety
/// As [`set`].
pub unsafe fn give<T>(out: *mut *mut T, make: impl FnOnce() -> Result<T, Error>) -> CallResult {
    ensure_place(out)?;
    let value = make()?;
    // SAFETY: the caller's promise.
    unsafe { set(out, Box::into_raw(Box::new(CObject::new(value))).cast()) }
}

/// Lends `value` to C while `call` runs.
pub fn lend<T: Default, R>(value: &mut T, call: impl FnOnce(*mut T) -> R) -> R {
    let mut kept = CObject::new(std::mem::take(value));
    let told = call((&raw mut kept).cast());
    *value = kept.object;
    told
}

/// Gives bytes to C, or tells that there are none; then who frees them frees nothing.
///
/// # Safety
/// As [`set`].
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

/// Takes back what was given, unless it is the parent's of this process.
///
/// # Safety
/// As [`at`]; nobody uses it any more.
pub unsafe fn take<T>(pointer: *mut T) -> Option<T> {
    // SAFETY: the caller's promise; what is at it came from such a box.
    unsafe { at(pointer).is_ok().then(|| Box::from_raw(pointer.cast::<CObject<T>>()).object) }
}

/// Why the last call of this thread that failed did.
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
