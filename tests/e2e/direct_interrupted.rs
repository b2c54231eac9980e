//! Threads that are cancelled and handlers of signals, under `ferrite run`.

use std::path::PathBuf;
use std::process::Command;

use crate::direct::{Place, direct};
use crate::mount::can_mount;
use crate::programs::client;
use crate::server::{assert_sound, run};

const PROGRAM: &str = include_str!("direct/interrupted.c");

/// [`PROGRAM`], compiled.
fn compiled(place: &Place) -> PathBuf {
    let folder = place.pool.parent().expect("in a folder");
    let (source, program) = (folder.join("interrupted.c"), folder.join("interrupted"));
    std::fs::write(&source, PROGRAM).expect("written");
    run(client("gcc").args(["-O1", "-pthread", "-o"]).args([&program, &source]));
    program
}

/// A thread that only makes direct calls makes none that ends it when it is cancelled; what the library opens for itself
/// while a handler opens files is not mistaken for the program's, and the other way round (LD2, LD3, LD5).
#[test]
fn threads_are_cancelled_and_handlers_come_between_as_without_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let program = compiled(&place);
    let server = place.start();
    let mut command = Command::new(program);
    command.arg(&place.at);
    let plain = run(&mut command);
    assert!(plain.contains("\nhandlers: 0 wrong, 0 lost, 1 in the log\n"), "{plain}");
    assert!(plain.contains("\nwaited for: 1 1 102\n"), "{plain}");
    assert_eq!(plain.matches(": 0 wrong\n").count(), 2, "{plain}");
    assert_eq!(run(&mut direct(&command, &[])), plain);
    server.interrupt();
    assert_sound(&place.pool);
}
