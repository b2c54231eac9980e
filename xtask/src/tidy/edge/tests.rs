use super::super::{assert_clean, assert_found};
use super::*;

#[test]
fn front_ends_named_below_the_edge_are_found() {
    for text in ["\nstruct NbdReply;", "\nuse clap::Parser;", "\nfn to_fuse_errno() {}"] {
        assert_found(check, &[("crates/block/src/lib.rs", text)], "crates/block/src/lib.rs:2");
    }
}

#[test]
fn front_ends_may_be_named_above_and_in_comments_and_as_the_iterator_method() {
    assert_clean(check, &[("crates/nbd/src/server.rs", "struct NbdReply;")]);
    assert_clean(check, &[("crates/block/src/lib.rs", "//! Served by NBD.\nfn f() { x.iter().fuse(); }")]);
}

#[test]
fn clocks_and_randomness_below_the_edge_are_found() {
    for text in ["\nlet t = Instant::now();", "\nuse std::time::SystemTime;", "\nlet r = rand::random();"] {
        assert_found(check, &[("crates/pool/src/lib.rs", text)], "crates/pool/src/lib.rs:2");
    }
}

#[test]
fn clocks_are_fine_in_tests_above_and_in_files_that_the_rule_lists() {
    let clock = "fn f() { Instant::now(); }";
    assert_clean(check, &[("crates/pool/tests/speed.rs", clock), ("crates/cli/src/up.rs", clock)]);
    assert_clean(check, &[(CLOCK_FILES[0], clock)]);
    assert_clean(check, &[("crates/pool/src/lib.rs", "fn f(started: Instant, operand: u8) {}")]);
}

#[test]
fn machine_instructions_outside_memory_are_found() {
    let refused = [
        "\nasm!(\"sfence\");",
        "\nuse core::arch::x86_64;",
        "\n_mm_sfence();",
        "\natomic::fence(x);",
        "\nuse std::sync::atomic::{AtomicU64, fence};",
    ];
    for text in refused {
        assert_found(check, &[("crates/pool/src/lib.rs", text)], "crates/pool/src/lib.rs:2");
    }
}

#[test]
fn memory_may_use_them_and_a_memory_fence_is_everyones() {
    assert_clean(check, &[("crates/memory/src/x86.rs", "use core::arch::asm; asm!(\"sfence\");")]);
    assert_clean(check, &[("crates/pool/src/lib.rs", "memory.fence(); use std::sync::atomic::AtomicU64;")]);
}
