use super::super::{assert_clean, assert_found};
use super::*;

#[test]
fn a_file_that_does_not_say_why_is_found() {
    for text in ["//! A.\n#![allow(unsafe_code)]\n", "//! A.\n#[allow(dead_code, unsafe_code)] mod b;\n"] {
        assert_found(check, &[("a.rs", text)], "a.rs:2");
    }
}

#[test]
fn a_file_that_says_why_passes() {
    let texts = [
        "//! A.\n//!\n//! Unsafe because it maps memory.\n#![allow(unsafe_code)]\n",
        "//! A.\n#![allow(unsafe_code)] // It maps memory.\n",
        "//! A.\n#![allow(unsafe_code, reason = \"it maps memory\")]\n",
        "//! A.\n// #![allow(unsafe_code)]\n",
    ];
    for text in texts {
        assert_clean(check, &[("a.rs", text)]);
    }
}
