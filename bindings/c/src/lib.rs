//! Ferrite's objects for C. What each function does is told in `include/ferrite.h`; here it is done.
//!
//! Every pointer that goes out is a box of its own; every pointer that comes in is one that went out, or the caller's
//! bytes for the time of the call. A panic does not cross into C: it is told as `FERRITE_FAILED`.
#![allow(unsafe_code)]

#[macro_use]
mod call;

mod bundle;
mod log;
mod map;
mod queue;
mod salvage;
mod store;
mod value;
