//! `cargo fuzz run segment`: the target is in fuzz/targets/src/segment.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("segment", data));
