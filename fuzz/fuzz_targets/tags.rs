//! `cargo fuzz run tags`: the target is in fuzz/targets/src/tags.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("tags", data));
