//! `cargo fuzz run slots`: the target is in fuzz/targets/src/slots.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("slots", data));
