//! `cargo fuzz run record`: the target is in fuzz/targets/src/record.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("record", data));
