//! Values that are updated in place, for C.
#![allow(unsafe_code, reason = "pointers from C")]

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferrite_memory::Scheme;
use ferrite_object::{DirectBytes, Error, Store};

use crate::call::{OK, at, bytes, give, take, text};

/// The schemes in the order of the header.
const SCHEMES: [Scheme; 5] = [Scheme::Nt, Scheme::Flush, Scheme::Clwb, Scheme::Clflushopt, Scheme::Clflush];

export! {
    #[ensure_no_plan]
    fn ferrite_value_open(
        store: *const Store,
        name: *const c_char,
        initial: *const u8,
        len: usize,
        scheme: c_int,
        out: *mut *mut Arc<DirectBytes>,
    ) {
        let scheme = usize::try_from(scheme).ok().and_then(|scheme| SCHEMES.get(scheme)).copied();
        let scheme = scheme.ok_or_else(|| Error::Refused("this number is not a scheme".into()))?;
        give(out, || at(store)?.direct_bytes(text(name, "the name")?, bytes(initial, len)?, scheme))
    }

    fn ferrite_value_get(value: *const Arc<DirectBytes>, out: *mut u8, len: usize) {
        let value = at(value)?;
        value.ensure_len(len)?;
        if out.is_null() {
            return Err(Error::Refused("the pointer for the result is a null pointer".into()));
        }
        value.copy_to(std::slice::from_raw_parts_mut(out, len));
        Ok(OK)
    }

    #[ensure_no_plan]
    fn ferrite_value_set(value: *const Arc<DirectBytes>, new: *const u8, len: usize) {
        at(value)?.set(bytes(new, len)?).map(|()| OK)
    }

    fn ferrite_value_close(value: *mut Arc<DirectBytes>) {
        drop(take(value));
        Ok(OK)
    }
}
