//! `cargo fuzz run database`: the target is in fuzz/targets/src/database.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("database", data));
