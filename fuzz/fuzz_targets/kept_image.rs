//! `cargo fuzz run kept_image`: the target is in fuzz/targets/src/kept_image.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("kept_image", data));
