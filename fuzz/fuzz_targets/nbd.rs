//! `cargo fuzz run nbd`: the target is in fuzz/targets/src/nbd.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("nbd", data));
