//! `cargo fuzz run trace_compact_pc`: the target is in fuzz/targets/src/trace.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("trace_compact_pc", data));
