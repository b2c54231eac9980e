//! Bundles of objects for C.
#![allow(unsafe_code, reason = "a visitor and a plan of C's, and their pointers")]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};

use ferrite_object::{Bundle, BundleChange, BundleMembers, Error, Store};

use crate::call::{CANCELLED, CBytes, OK, at, at_mut, bytes, ensure_place, give, give_bytes, lend, set, take, text};
use crate::queue::end;
use crate::store::CLoggingOptions;

/// Called with each member: 1 for a queue or 0 for a map, and its name.
type MemberVisitor = unsafe extern "C" fn(c_int, *const c_char, *mut c_void) -> c_int;
/// Called to build the change.
type ChangePlan = unsafe extern "C" fn(*mut BundleChange, *mut c_void) -> c_int;

thread_local! {
    /// True while this thread runs a plan, and so has the turn of a bundle.
    static PLANNING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as running a plan, until it is dropped.
struct PlanGuard;

impl PlanGuard {
    fn begin() -> Self {
        PLANNING.set(true);
        Self
    }
}

impl Drop for PlanGuard {
    fn drop(&mut self) {
        PLANNING.set(false);
    }
}

/// Refuses a call that would wait for the plan that makes it, or for a backup that waits for the plan.
pub fn ensure_no_plan() -> Result<(), Error> {
    match PLANNING.get() {
        true => Err(Error::Refused(
            "a plan can only read the bundle and add to its change: make other calls after the plan has returned"
                .into(),
        )),
        false => Ok(()),
    }
}

fn members(members: &BundleMembers) -> impl Iterator<Item = (c_int, &str)> {
    members.maps().map(|name| (0, name)).chain(members.queues().map(|name| (1, name)))
}

export! {
    #[ensure_no_plan]
    fn ferrite_bundle_open(store: *const Store, name: *const c_char, options: *const CLoggingOptions, out: *mut *mut Bundle) {
        give(out, || at(store)?.bundle(text(name, "the name")?, CLoggingOptions::logging(options)))
    }

    fn ferrite_bundle_map_get(
        bundle: *const Bundle,
        map: *const c_char,
        key: *const u8,
        key_len: usize,
        out: *mut CBytes,
    ) {
        let (map, key) = (text(map, "the map's name")?, bytes(key, key_len)?);
        give_bytes(out, at(bundle)?.read(|members| members.map(map).get(key)))
    }

    fn ferrite_bundle_map_len(bundle: *const Bundle, map: *const c_char, out: *mut u64) {
        let map = text(map, "the map's name")?;
        set(out, at(bundle)?.read(|members| members.map(map).len()) as u64)
    }

    fn ferrite_bundle_map_next(
        bundle: *const Bundle,
        map: *const c_char,
        after: *const u8,
        after_len: usize,
        key: *mut CBytes,
        value: *mut CBytes,
    ) {
        ensure_place(key)?;
        ensure_place(value)?;
        let map = text(map, "the map's name")?;
        let after = if after.is_null() { None } else { Some(bytes(after, after_len)?) };
        let found = at(bundle)?.read(|members| members.map(map).page(after, 1).pop());
        let (found, its) = found.unzip();
        give_bytes(key, found)?;
        give_bytes(value, its)
    }

    fn ferrite_bundle_queue_get(bundle: *const Bundle, queue: *const c_char, index: u64, out: *mut CBytes) {
        let (queue, index) = (text(queue, "the queue's name")?, usize::try_from(index).unwrap_or(usize::MAX));
        give_bytes(out, at(bundle)?.read(|members| members.queue(queue).get(index)))
    }

    fn ferrite_bundle_queue_len(bundle: *const Bundle, queue: *const c_char, out: *mut u64) {
        let queue = text(queue, "the queue's name")?;
        set(out, at(bundle)?.read(|members| members.queue(queue).len()) as u64)
    }

    fn ferrite_bundle_members(bundle: *const Bundle, visit: Option<MemberVisitor>, context: *mut c_void) {
        let visit = visit.ok_or_else(|| Error::Refused("the visitor is a null pointer".into()))?;
        let named = |(kind, name): (c_int, &str)| (kind, CString::new(name).unwrap_or_default());
        let found: Vec<_> = at(bundle)?.read(|all| members(all).map(named).collect());
        for (kind, name) in found {
            if visit(kind, name.as_ptr(), context) != 0 {
                break;
            }
        }
        Ok(OK)
    }

    #[ensure_no_plan]
    fn ferrite_bundle_change(bundle: *const Bundle, plan: Option<ChangePlan>, context: *mut c_void) {
        let plan = plan.ok_or_else(|| Error::Refused("the plan is a null pointer".into()))?;
        let mut is_cancelled = false;
        let made = at(bundle)?.change(|_, change| {
            let _planning = PlanGuard::begin();
            is_cancelled = lend(change, |change| plan(change, context)) != 0;
            if is_cancelled { Err(Error::Refused("the plan cancelled the change".into())) } else { Ok(()) }
        });
        if is_cancelled { Ok(CANCELLED) } else { made.map(|()| OK) }
    }

    #[ensure_no_plan]
    fn ferrite_bundle_checkpoint(bundle: *const Bundle) {
        at(bundle)?.checkpoint().map(|()| OK)
    }

    #[ensure_no_plan]
    fn ferrite_bundle_close(bundle: *mut Bundle) {
        drop(take(bundle));
        Ok(OK)
    }

    fn ferrite_change_new(out: *mut *mut BundleChange) {
        give(out, || Ok(BundleChange::default()))
    }

    fn ferrite_change_put(
        change: *mut BundleChange,
        map: *const c_char,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
    ) {
        let (map, key, value) = (text(map, "the map's name")?, bytes(key, key_len)?, bytes(value, value_len)?);
        at_mut(change)?.map(map).put(key, value);
        Ok(OK)
    }

    fn ferrite_change_remove(change: *mut BundleChange, map: *const c_char, key: *const u8, key_len: usize) {
        let (map, key) = (text(map, "the map's name")?, bytes(key, key_len)?);
        at_mut(change)?.map(map).remove(key);
        Ok(OK)
    }

    fn ferrite_change_clear_map(change: *mut BundleChange, map: *const c_char) {
        at_mut(change)?.map(text(map, "the map's name")?).clear();
        Ok(OK)
    }

    fn ferrite_change_push(
        change: *mut BundleChange,
        queue: *const c_char,
        at_end: c_int,
        entry: *const u8,
        len: usize,
    ) {
        let (queue, end, entry) = (text(queue, "the queue's name")?, end(at_end)?, bytes(entry, len)?);
        at_mut(change)?.queue(queue).push(end, entry);
        Ok(OK)
    }

    fn ferrite_change_pop(change: *mut BundleChange, queue: *const c_char, at_end: c_int) {
        let (queue, end) = (text(queue, "the queue's name")?, end(at_end)?);
        at_mut(change)?.queue(queue).pop(end);
        Ok(OK)
    }

    fn ferrite_change_clear_queue(change: *mut BundleChange, queue: *const c_char) {
        at_mut(change)?.queue(text(queue, "the queue's name")?).clear();
        Ok(OK)
    }

    #[ensure_no_plan]
    fn ferrite_change_commit(change: *const BundleChange, bundle: *const Bundle) {
        at(bundle)?.commit(at(change)?).map(|()| OK)
    }

    fn ferrite_change_free(change: *mut BundleChange) {
        drop(take(change));
        Ok(OK)
    }
}
