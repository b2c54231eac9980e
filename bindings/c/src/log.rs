//! Logs for C.
#![allow(unsafe_code, reason = "pointers from C")]

use std::ffi::c_char;
use std::sync::Arc;

use ferrite_object::{ObjectLog, Store};

use crate::call::{CBytes, OK, at, bytes, give, give_bytes, set, take, text};
use crate::store::CLoggingOptions;

export! {
    #[ensure_no_plan]
    fn ferrite_log_open(store: *const Store, name: *const c_char, options: *const CLoggingOptions, out: *mut *mut Arc<ObjectLog>) {
        give(out, || at(store)?.log(text(name, "the name")?, CLoggingOptions::logging(options)))
    }

    #[ensure_no_plan]
    fn ferrite_log_append(log: *const Arc<ObjectLog>, entry: *const u8, len: usize, number: *mut u64) {
        let appended = at(log)?.append(bytes(entry, len)?)?;
        if number.is_null() { Ok(OK) } else { set(number, appended) }
    }

    fn ferrite_log_get(log: *const Arc<ObjectLog>, number: u64, out: *mut CBytes) {
        give_bytes(out, at(log)?.get(number)?)
    }

    fn ferrite_log_first(log: *const Arc<ObjectLog>, out: *mut u64) {
        set(out, at(log)?.first())
    }

    fn ferrite_log_end(log: *const Arc<ObjectLog>, out: *mut u64) {
        set(out, at(log)?.end())
    }

    #[ensure_no_plan]
    fn ferrite_log_cut(log: *const Arc<ObjectLog>, number: u64) {
        at(log)?.cut(number).map(|()| OK)
    }

    fn ferrite_log_close(log: *mut Arc<ObjectLog>) {
        drop(take(log));
        Ok(OK)
    }
}
