//! `cargo fuzz run superblock`: the target is in fuzz/targets/src/superblock.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("superblock", data));
