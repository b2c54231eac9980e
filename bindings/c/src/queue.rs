//! Queues for C.
#![allow(unsafe_code, reason = "pointers from C")]

use std::ffi::{c_char, c_int};

use ferrite_object::{Error, Queue, QueueEnd, Store};

use crate::call::{CBytes, OK, at, bytes, ensure_place, give, give_bytes, set, take, text};
use crate::store::CLoggingOptions;

/// Returns the end for the header's number.
pub fn end(number: c_int) -> Result<QueueEnd, Error> {
    match number {
        0 => Ok(QueueEnd::Back),
        1 => Ok(QueueEnd::Front),
        _ => Err(Error::Refused(format!("{number} is not an end of a queue"))),
    }
}

export! {
    #[ensure_no_plan]
    fn ferrite_queue_open(store: *const Store, name: *const c_char, options: *const CLoggingOptions, out: *mut *mut Queue) {
        give(out, || at(store)?.queue(text(name, "the name")?, CLoggingOptions::logging(options)))
    }

    #[ensure_no_plan]
    fn ferrite_queue_push(queue: *const Queue, at_end: c_int, entry: *const u8, len: usize) {
        at(queue)?.push(end(at_end)?, bytes(entry, len)?).map(|()| OK)
    }

    #[ensure_no_plan]
    fn ferrite_queue_pop(queue: *const Queue, at_end: c_int, out: *mut CBytes) {
        // Without a place for the result the entry would be lost.
        ensure_place(out)?;
        give_bytes(out, at(queue)?.pop(end(at_end)?)?)
    }

    fn ferrite_queue_get(queue: *const Queue, index: u64, out: *mut CBytes) {
        give_bytes(out, at(queue)?.get(usize::try_from(index).unwrap_or(usize::MAX)))
    }

    fn ferrite_queue_len(queue: *const Queue, out: *mut u64) {
        set(out, at(queue)?.len() as u64)
    }

    #[ensure_no_plan]
    fn ferrite_queue_clear(queue: *const Queue) {
        at(queue)?.clear().map(|()| OK)
    }

    #[ensure_no_plan]
    fn ferrite_queue_checkpoint(queue: *const Queue) {
        at(queue)?.checkpoint().map(|()| OK)
    }

    fn ferrite_queue_close(queue: *mut Queue) {
        drop(take(queue));
        Ok(OK)
    }
}
