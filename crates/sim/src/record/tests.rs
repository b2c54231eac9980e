//! A real program under QEMU; skipped where it is not installed.

use super::*;
use crate::cache::Shape;

fn first() -> First {
    First { shape: Shape { bytes: 64 << 10, ways: 2, line_bytes: 64 }, cores: 1, instructions: false }
}

fn program(words: &[&str]) -> Program {
    Program { words: words.iter().map(Into::into).collect(), folder: None, quiet: true }
}

/// All events of a program, and its accesses; none where QEMU is missing.
fn recorded(words: &[&str]) -> Option<(Vec<Event>, u64)> {
    recorded_behind(first(), words)
}

fn recorded_behind(first: First, words: &[&str]) -> Option<(Vec<Event>, u64)> {
    if let Err(error) = place::qemu() {
        println!("recording was not tested: {error}");
        return None;
    }
    let mut recording = program(words).start(first).expect("it runs");
    let mut events = Vec::new();
    while recording.read(&mut events).expect("it is whole") {}
    Some((events, recording.accesses()))
}

/// dd writes its buffer of 1 MiB by the kernel, which is not seen; `sort` reads and writes by itself.
#[test]
fn a_program_is_recorded_to_its_end() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let lines: String = (0..20_000_u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761))).collect();
    std::fs::write(file.path(), lines).expect("it can be written");
    let path = file.path().to_str().expect("UTF-8");
    let Some((events, accesses)) = recorded(&["sort", "-n", path]) else { return };
    assert!(accesses > 5_000_000, "{accesses} accesses");
    assert!(events.len() > 10_000 && (events.len() as u64) < accesses / 10, "{} events", events.len());
    let writes = events.iter().filter(|event| event.is_write()).count();
    assert!(writes > 1000 && writes < events.len(), "{writes} writes of {}", events.len());
}

/// A first level that holds more dirty lines at the end than a frame may have events.
#[test]
fn what_a_large_first_level_writes_back_arrives() {
    let shape = Shape { bytes: 256 << 20, ways: 16, line_bytes: 64 };
    let words = ["perl", "-e", "my $x = 'a' x 80_000_000; exit length($x) != 80_000_000"];
    let Some((events, _)) = recorded_behind(First { shape, ..first() }, &words) else { return };
    let writes = events.iter().filter(|event| event.is_write()).count();
    assert!(writes > 80_000_000 / 64, "{writes} lines");
}

/// What runs in vain must end, and say why.
#[test]
fn what_is_no_program_is_refused() {
    if place::qemu().is_err() {
        return;
    }
    let script = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(script.path(), "#!/bin/sh\n").expect("it can be written");
    let script = script.path().to_str().expect("UTF-8");
    for (word, told) in [("no-such-program-anywhere", "no program"), (script, "script"), ("/proc/cpuinfo", "qemu-user")]
    {
        let refused = program(&[word]).start(first()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(told), "{word}: {refused}");
    }
}

#[test]
fn a_recording_that_is_dropped_ends_its_program() {
    if place::qemu().is_err() {
        return;
    }
    let mut recording = program(&["sleep", "1000"]).start(first()).expect("it runs");
    assert!(recording.read(&mut Vec::new()).expect("it begins"));
    let program = recording.program();
    drop(recording);
    assert!(program.ended().is_some(), "it would run for ever");
}
