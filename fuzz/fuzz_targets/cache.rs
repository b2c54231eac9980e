//! `cargo fuzz run cache`: the target is in fuzz/targets/src/cache.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("cache", data));
