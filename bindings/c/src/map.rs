//! Maps for C.
#![allow(unsafe_code, reason = "pointers from C")]

use std::ffi::c_char;

use ferrite_object::{Map, MapBatch, Store};

use crate::call::{ABSENT, CBytes, OK, at, at_mut, bytes, ensure_place, give, give_bytes, set, take, text};
use crate::store::CLoggingOptions;

export! {
    #[ensure_no_plan]
    fn ferrite_map_open(store: *const Store, name: *const c_char, options: *const CLoggingOptions, out: *mut *mut Map) {
        give(out, || at(store)?.map(text(name, "the name")?, CLoggingOptions::logging(options)))
    }

    fn ferrite_map_get(map: *const Map, key: *const u8, key_len: usize, out: *mut CBytes) {
        give_bytes(out, at(map)?.get(bytes(key, key_len)?))
    }

    #[ensure_no_plan]
    fn ferrite_map_put(map: *const Map, key: *const u8, key_len: usize, value: *const u8, value_len: usize) {
        at(map)?.put(bytes(key, key_len)?, bytes(value, value_len)?).map(|()| OK)
    }

    #[ensure_no_plan]
    fn ferrite_map_remove(map: *const Map, key: *const u8, key_len: usize) {
        Ok(at(map)?.remove(bytes(key, key_len)?)?.map_or(ABSENT, |_| OK))
    }

    #[ensure_no_plan]
    fn ferrite_map_clear(map: *const Map) {
        at(map)?.clear().map(|()| OK)
    }

    fn ferrite_map_len(map: *const Map, out: *mut u64) {
        set(out, at(map)?.len() as u64)
    }

    fn ferrite_map_next(map: *const Map, after: *const u8, after_len: usize, key: *mut CBytes, value: *mut CBytes) {
        ensure_place(key)?;
        ensure_place(value)?;
        let after = match after.is_null() {
            true => None,
            false => Some(bytes(after, after_len)?),
        };
        let (found, its) = at(map)?.page(after, 1).pop().unzip();
        give_bytes(key, found)?;
        give_bytes(value, its)
    }

    #[ensure_no_plan]
    fn ferrite_map_checkpoint(map: *const Map) {
        at(map)?.checkpoint().map(|()| OK)
    }

    fn ferrite_map_close(map: *mut Map) {
        drop(take(map));
        Ok(OK)
    }

    fn ferrite_batch_new(out: *mut *mut MapBatch) {
        give(out, || Ok(MapBatch::default()))
    }

    fn ferrite_batch_put(
        batch: *mut MapBatch,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
    ) {
        at_mut(batch)?.put(bytes(key, key_len)?, bytes(value, value_len)?);
        Ok(OK)
    }

    fn ferrite_batch_remove(batch: *mut MapBatch, key: *const u8, key_len: usize) {
        at_mut(batch)?.remove(bytes(key, key_len)?);
        Ok(OK)
    }

    #[ensure_no_plan]
    fn ferrite_batch_commit(batch: *const MapBatch, map: *const Map) {
        at(map)?.commit(at(batch)?).map(|()| OK)
    }

    fn ferrite_batch_free(batch: *mut MapBatch) {
        drop(take(batch));
        Ok(OK)
    }
}
