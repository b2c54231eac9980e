//! `cargo fuzz run block_trace_iolog`: the target is in fuzz/targets/src/block_trace.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("block_trace_iolog", data));
