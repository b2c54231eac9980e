//! `cargo fuzz run image`: the target is in fuzz/targets/src/image.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("image", data));
