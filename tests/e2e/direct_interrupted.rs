//! Cancelled threads, signal handlers and stopped owners under `ferrite run`.

use std::path::PathBuf;
use std::process::Command;

use crate::direct::{counted, direct, python, run_directly};
use crate::mount::{Place, start};
use crate::programs::client;
use crate::server::{assert_sound, run, signal};

const INTERRUPTED: &str = include_str!("direct/interrupted.c");
const REPLACED: &str = include_str!("direct/replaced.c");

/// Compiles the C program `text`, and returns the path of the binary.
pub fn compiled(place: &Place, text: &str) -> PathBuf {
    let folder = place.pool.parent().expect("in a folder");
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, text).expect("written");
    run(client("gcc").args(["-O1", "-pthread", "-o"]).args([&program, &source]));
    program
}

/// Debian's gcc adds a runtime that insists on being loaded first. The runtime still reports errors, and files are
/// direct.
#[test]
fn programs_with_an_address_sanitizer_run() {
    let Some(place) = Place::new() else { return };
    let server = start(&place.pool, &place.at, &["--size", "64M", "--disk", "d=8M"]);
    let folder = place.pool.parent().expect("in a folder");
    let (source, program) = (folder.join("sanitized.c"), folder.join("sanitized"));
    std::fs::write(&source, SANITIZED).expect("written");
    run(client("gcc").args(["-fsanitize=address", "-o"]).args([&program, &source]));
    let of = |word: &str| {
        let mut command = Command::new(&program);
        command.arg(place.at.join("file")).arg(word);
        command
    };
    let (_, counts) = counted(&of("well"));
    assert!(counts["direct"]["calls"].as_u64() > Some(100), "{counts}");
    let output = direct(&of("badly"), &[]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("heap-use-after-free"), "{said}");
    server.interrupt();
    assert_sound(&place.pool);
}

/// Writes to the given file, and also to freed memory if an argument asks for it.
const SANITIZED: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0644);
    char *bytes = calloc(1, 4096);
    for (int i = 0; i < 200; i++) if (write(file, bytes, 4096) != 4096) return 1;
    free(bytes);
    if (argv[2][0] == 'b') bytes[7] = 1;
    return close(file);
}
"#;

/// Direct calls are no cancellation points: a cancelled thread that makes only direct calls does not end. While a
/// signal handler opens files, the library never confuses its own descriptors with the program's (LD2, LD3, LD5). A
/// handler needs no larger stack of its own than without the library.
#[test]
fn threads_are_cancelled_and_handlers_come_between_as_without_it() {
    let Some(place) = Place::new() else { return };
    let program = compiled(&place, INTERRUPTED);
    let server = place.start();
    let mut command = Command::new(program);
    command.arg(&place.at);
    let plain = run(&mut command);
    assert!(plain.starts_with("on a stack of its own: 41 done, 0 overwritten\n"), "{plain}");
    assert!(plain.contains("\nhandlers: 0 wrong, 0 lost, 1 in the log\n"), "{plain}");
    assert!(plain.contains("\nwaited for: 1 1 102\n"), "{plain}");
    assert_eq!(plain.matches(": 0 wrong\n").count(), 2, "{plain}");
    assert_eq!(run(&mut direct(&command, &[])), plain);
    server.interrupt();
    assert_sound(&place.pool);
}

/// No record is lost if a program replaces a descriptor, or fails to replace it, while a thread writes by it (LD2). No
/// thread waits for a thread that a handler stops in the middle of a read (LD5). If other processes close a descriptor,
/// its calls are no longer direct. Concurrent use of the same descriptors brings no data to another file (LD3).
#[test]
fn descriptors_are_replaced_and_threads_stopped_as_without_it() {
    let Some(place) = Place::new() else { return };
    let program = compiled(&place, REPLACED);
    let server = place.start();
    let mut command = Command::new(program);
    command.arg(&place.at);
    let plain = run(&mut command);
    assert!(plain.starts_with("rotated: 0 lost, 0 overwritten\nkept: 0 lost\n"), "{plain}");
    assert_eq!(plain.matches(": 0 astray\n").count(), 2, "{plain}");
    assert_eq!(run(&mut direct(&command, &[])), plain);
    server.interrupt();
    assert_sound(&place.pool);
}

/// Writes, fails to exec another program, and continues to write.
const GOES_ON: &str = r#"
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
for i in range(100): os.write(fd, b"%03d" % i)
try: os.execv("/nonexistent", ["none"])
except FileNotFoundError: pass
for i in range(100): os.write(fd, b"%03d" % i)
assert os.pread(fd, 601, 0) == 2 * b"".join(b"%03d" % i for i in range(100))
"#;

#[test]
fn a_program_that_could_not_become_another_one_goes_on_directly() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let (_, counts) = counted(&python(GOES_ON, &place.at));
    assert!(counts["direct"]["calls"].as_u64() > Some(180), "{counts}");
    server.interrupt();
    assert_sound(&place.pool);
}

/// Opens a file, and prints how many seconds a sync takes.
const TIMED: &str = r#"
import os, sys, time
os.open(sys.argv[1] + "/file", os.O_WRONLY | os.O_CREAT)
began = time.monotonic()
os.sync()
print(int(time.monotonic() - began))
"#;

#[test]
fn a_sync_does_not_wait_long_for_an_owner_of_whom_the_program_has_nothing() {
    let (Some(place), Some(other)) = (Place::new(), Place::new()) else { return };
    let [server, stopped] = [&place, &other].map(|at| start(&at.pool, &at.at, &["--size", "64M", "--disk", "d=8M"]));
    signal(stopped.pid(), "STOP");
    let took = run_directly(&mut python(TIMED, &place.at));
    signal(stopped.pid(), "CONT");
    assert!(took.trim().parse::<u32>().is_ok_and(|seconds| seconds < 5), "{took}");
    [server, stopped].into_iter().for_each(|server| server.interrupt());
    assert_sound(&place.pool);
}
