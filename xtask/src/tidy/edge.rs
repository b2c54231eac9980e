//! What stays at the edge: front ends' names, clocks and randomness at and above `serve`; machine instructions
//! in `medium` alone.

use super::{Finding, House, is_below_serve, package_of, words};
use crate::lexer::Kind;
use crate::source::Source;

const FRONT_ENDS: [&str; 7] = ["nbd", "fuse", "fuser", "virtio", "vhost", "ublk", "clap"];

const RANDOM: [&str; 5] = ["rand", "getrandom", "fastrand", "thread_rng", "RandomState"];

const CLOCKS: [&str; 4] = ["SystemTime", "UNIX_EPOCH", "clock_gettime", "gettimeofday"];

pub(super) fn check(house: &House<'_>, findings: &mut Vec<Finding>) {
    for source in &house.sources {
        let Some(package) = package_of(source.path) else { continue };
        if is_below_serve(package) {
            front_end_names(source, package, findings);
            if !house.ratchet.allows("clock", source.path) {
                clocks_and_randomness(source, package, findings);
            }
        }
        if package != "medium" && !house.ratchet.allows("arch", source.path) {
            machine_instructions(source, findings);
        }
    }
}

fn front_end_names(source: &Source<'_>, package: &str, findings: &mut Vec<Finding>) {
    for (at, token) in source.tokens.iter().enumerate() {
        let is_method = at > 0 && source.tokens[at - 1].is_punct('.');
        if token.kind != Kind::Ident || is_method {
            continue;
        }
        if let Some(word) = words(token.text).iter().find(|word| FRONT_ENDS.contains(&word.as_str())) {
            let what = format!("`{package}` lies below `serve` and may not name `{word}`: speak of Disk or Memory");
            findings.push(Finding::new(source.path, token.line, what));
        }
    }
}

fn clocks_and_randomness(source: &Source<'_>, package: &str, findings: &mut Vec<Finding>) {
    for (at, token) in source.shipped() {
        let is_now = token.text == "Instant" && source.reads(at + 1, &[":", ":", "now"]);
        let is_clock = is_now || CLOCKS.contains(&token.text);
        let is_random = token.kind == Kind::Ident && RANDOM.contains(&token.text);
        if is_clock || is_random {
            let what = format!(
                "`{package}` reads {}: take it as an argument, or add `clock {} REASON` to xtask/ratchet.txt",
                if is_clock { "a clock" } else { "randomness" },
                source.path
            );
            findings.push(Finding::new(source.path, token.line, what));
        }
    }
}

fn machine_instructions(source: &Source<'_>, findings: &mut Vec<Finding>) {
    for (at, token) in source.tokens.iter().enumerate() {
        let is_asm = matches!(token.text, "asm" | "global_asm" | "naked_asm") && source.reads(at + 1, &["!"]);
        let is_arch = matches!(token.text, "core" | "std") && source.reads(at + 1, &[":", ":", "arch"]);
        let is_fence = token.text == "atomic" && names_fence(source, at + 1);
        if is_asm || is_arch || is_fence || token.text.starts_with("_mm_") {
            let what = "machine instructions and fences belong to `medium`: call Memory's flush, fence or barrier, or add \
                        `arch PATH REASON` to xtask/ratchet.txt";
            findings.push(Finding::new(source.path, token.line, what));
        }
    }
}

/// Whether `::fence` or `::{.., fence, ..}` follows.
fn names_fence(source: &Source<'_>, at: usize) -> bool {
    if source.reads(at, &[":", ":", "fence"]) {
        return true;
    }
    source.reads(at, &[":", ":", "{"])
        && source.tokens[at..].iter().take_while(|token| !token.is_punct('}')).any(|token| token.is_ident("fence"))
}

#[cfg(test)]
mod tests {
    use super::super::{assert_clean, assert_found};
    use super::*;

    #[test]
    fn front_ends_named_below_serve_are_found() {
        for text in ["\nstruct NbdReply;", "\nuse clap::Parser;", "\nfn to_fuse_errno() {}"] {
            assert_found(check, &[("crates/block/src/lib.rs", text)], "crates/block/src/lib.rs:2");
        }
    }

    #[test]
    fn front_ends_may_be_named_above_and_in_comments_and_as_the_iterator_method() {
        assert_clean(check, &[("crates/serve/src/nbd.rs", "struct NbdReply;")]);
        assert_clean(check, &[("crates/block/src/lib.rs", "//! Served by NBD.\nfn f() { x.iter().fuse(); }")]);
    }

    #[test]
    fn clocks_and_randomness_below_serve_are_found() {
        for text in ["\nlet t = Instant::now();", "\nuse std::time::SystemTime;", "\nlet r = rand::random();"] {
            assert_found(check, &[("crates/pool/src/lib.rs", text)], "crates/pool/src/lib.rs:2");
        }
    }

    #[test]
    fn clocks_are_fine_in_tests_above_and_where_the_ratchet_says_why() {
        let clock = "fn f() { Instant::now(); }";
        assert_clean(check, &[("crates/pool/tests/speed.rs", clock), ("crates/cli/src/up.rs", clock)]);
        let ratchet = ("xtask/ratchet.txt", "clock crates/medium/src/clock.rs the one real clock\n");
        assert_clean(check, &[("crates/medium/src/clock.rs", clock), ratchet]);
        assert_clean(check, &[("crates/pool/src/lib.rs", "fn f(started: Instant, operand: u8) {}")]);
    }

    #[test]
    fn machine_instructions_outside_medium_are_found() {
        let refused = ["\nasm!(\"sfence\");", "\nuse core::arch::x86_64;", "\n_mm_sfence();", "\natomic::fence(x);"];
        for text in refused {
            assert_found(check, &[("crates/pool/src/lib.rs", text)], "crates/pool/src/lib.rs:2");
        }
        let grouped = "\nuse std::sync::atomic::{AtomicU64, fence};";
        assert_found(check, &[("crates/serve/src/lib.rs", grouped)], "crates/serve/src/lib.rs:2");
    }

    #[test]
    fn medium_may_use_them_and_a_memory_fence_is_everyones() {
        assert_clean(check, &[("crates/medium/src/x86.rs", "use core::arch::asm; asm!(\"sfence\");")]);
        assert_clean(check, &[("crates/pool/src/lib.rs", "memory.fence(); use std::sync::atomic::AtomicU64;")]);
    }
}
