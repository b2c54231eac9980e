//! Programs under `ferrite run` that have few resources.

use std::process::Command;

use crate::direct::direct;
use crate::direct_interrupted::compiled;
use crate::mount::{Place, start};
use crate::server::{assert_sound, run};

const LIMITED: &str = include_str!("direct/limited.c");

/// Asserts that a program short of each resource in `what` prints `told`, with and without `ferrite run`.
fn assert_told(what: &[&str], told: &str) {
    let Some(place) = Place::new() else { return };
    let program = compiled(&place, LIMITED);
    let server = start(&place.pool, &place.at, &["--size", "64M", "--disk", "d=8M"]);
    for what in what {
        let mut command = Command::new(&program);
        command.arg(&place.at).arg(what);
        let clear = || ["log", "fresh", "used", "file"].map(|name| std::fs::remove_file(place.at.join(name)));
        assert_eq!(run(&mut command), told, "{what}");
        let _ = clear();
        assert_eq!(run(&mut direct(&command, &[])), told, "{what}");
        let _ = clear();
    }
    server.interrupt();
    assert_sound(&place.pool);
}

#[test]
fn a_handler_with_a_small_stack_appends_on_it() {
    assert_told(&["stack"], "stack: 2000 done, 0 overwritten\n");
}

/// LD1: the program's filter allows only reads and writes, and any other call ends the program.
#[test]
fn a_program_that_forbids_itself_all_but_reading_and_writing_reads_and_writes() {
    assert_told(&["calls", "calls by number"], "calls: 120 done\n");
}

#[test]
fn a_program_without_memory_opens_and_writes_files() {
    assert_told(&["memory"], "memory: 4800 done\n");
}

/// LD1: the kernel refuses a write beyond the limit.
#[test]
fn a_limit_on_file_sizes_that_is_set_by_number_holds() {
    assert_told(&["size", "old size"], "size: 100, then -1\n");
}
