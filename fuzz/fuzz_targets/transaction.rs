//! `cargo fuzz run transaction`: the target is in fuzz/targets/src/transaction.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrite_fuzz::run("transaction", data));
