//! `cargo fuzz run control`: the target is in fuzz/targets/src/control.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("control", data));
