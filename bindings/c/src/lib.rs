//! Ferrite's objects for C. `include/ferrite.h` documents each function.
//!
//! Every pointer that C gets is a box of its own. Every pointer from C is one that it got, or its own bytes for the
//! time of the call. A panic does not cross into C: the call returns `FERRITE_FAILED`.
#![allow(unsafe_code, reason = "entries that C calls")]

#[macro_use]
mod call;

mod bundle;
mod log;
mod map;
mod queue;
mod region;
mod salvage;
mod store;
mod value;
