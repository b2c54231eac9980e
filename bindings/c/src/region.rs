//! Regions of guests for C.
#![allow(unsafe_code, reason = "pointers from C")]

use std::ffi::{c_char, c_void};
use std::path::Path;

use ferrite_guest::{GuestError, ParaRegion};
use ferrite_memory::Span;
use ferrite_object::Error;

use crate::call::{OK, at, ensure_place, give, set, take, text};

/// Returns `error` as an error of this library.
fn of_guest(error: GuestError) -> Error {
    Error::Pool(error.into())
}

export! {
    fn ferrite_region_open(pool: *const c_char, name: *const c_char, out: *mut *mut ParaRegion) {
        let (pool, name) = (Path::new(text(pool, "the pool's path")?), text(name, "the name")?);
        give(out, || ParaRegion::open_in_pool(pool, name).map_err(of_guest))
    }

    fn ferrite_region_memory(region: *const ParaRegion, base: *mut *mut c_void, bytes: *mut u64) {
        let region = at(region)?.region();
        ensure_place(bytes)?;
        set(base, region.base().cast())?;
        set(bytes, region.size())
    }

    fn ferrite_region_persist(region: *const ParaRegion, offset: u64, bytes: u64) {
        at(region)?.persist(Span::new(offset, bytes)).map(|()| OK).map_err(of_guest)
    }

    fn ferrite_region_barrier(region: *const ParaRegion) {
        at(region)?.barrier().map(|()| OK).map_err(of_guest)
    }

    fn ferrite_region_lock(region: *const ParaRegion, offset: u64, bytes: u64) {
        at(region)?.lock(Span::new(offset, bytes)).map(|()| OK).map_err(of_guest)
    }

    fn ferrite_region_unlock(region: *const ParaRegion, offset: u64, bytes: u64) {
        at(region)?.unlock(Span::new(offset, bytes)).map(|()| OK).map_err(of_guest)
    }

    fn ferrite_region_close(region: *mut ParaRegion) {
        take(region).map_or(Ok(OK), |region| region.close().map(|()| OK).map_err(of_guest))
    }
}
