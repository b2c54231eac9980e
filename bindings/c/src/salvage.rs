//! The losses of a salvage, and the entries that it rescued, for C.
#![allow(unsafe_code, reason = "visitors of C's, and their pointers")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use ferrite_object::{Bundle, Error, Map, ObjectLog, Queue, SalvageLoss};

use crate::call::{CallResult, OK, at};

/// Called with the damaged part, and its offset in the pool.
type LossVisitor = unsafe extern "C" fn(*const c_char, u64, *mut c_void) -> c_int;
/// Called with an entry's number and bytes.
type EntryVisitor = unsafe extern "C" fn(u64, *const u8, usize, *mut c_void) -> c_int;

fn no_visitor() -> Error {
    Error::Refused("the visitor is a null pointer".into())
}

/// Passes `losses` to `visit` until it returns nonzero.
///
/// # Safety
/// `visit` may be called with `context`.
unsafe fn tell(losses: &[SalvageLoss], visit: Option<LossVisitor>, context: *mut c_void) -> CallResult {
    let visit = visit.ok_or_else(no_visitor)?;
    for loss in losses {
        let what = CString::new(loss.what.as_str()).unwrap_or_default();
        // SAFETY: the caller's promise; the string lives for the call.
        if unsafe { visit(what.as_ptr(), loss.at, context) } != 0 {
            break;
        }
    }
    Ok(OK)
}

export! {
    fn ferrite_map_losses(map: *const Map, visit: Option<LossVisitor>, context: *mut c_void) {
        tell(at(map)?.losses(), visit, context)
    }

    fn ferrite_queue_losses(queue: *const Queue, visit: Option<LossVisitor>, context: *mut c_void) {
        tell(at(queue)?.losses(), visit, context)
    }

    fn ferrite_bundle_losses(bundle: *const Bundle, visit: Option<LossVisitor>, context: *mut c_void) {
        tell(at(bundle)?.losses(), visit, context)
    }

    fn ferrite_log_losses(log: *const Arc<ObjectLog>, visit: Option<LossVisitor>, context: *mut c_void) {
        tell(at(log)?.losses(), visit, context)
    }

    fn ferrite_log_rescued(log: *const Arc<ObjectLog>, visit: Option<EntryVisitor>, context: *mut c_void) {
        let visit = visit.ok_or_else(no_visitor)?;
        for (number, entry) in at(log)?.rescued() {
            if visit(*number, entry.as_ptr(), entry.len(), context) != 0 {
                break;
            }
        }
        Ok(OK)
    }
}
