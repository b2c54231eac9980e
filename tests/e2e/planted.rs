//! Only tests contain planted bugs: a released program has no planted bug.

use std::path::Path;

use crate::programs::ferrite_path;

/// The prefix of the name that every planted bug leaves in its program.
const MARKER: &[u8] = b"planted: ";

/// Returns the names of the planted bugs in a program of these bytes.
fn planted(program: &[u8]) -> Vec<String> {
    let starts = program.windows(MARKER.len()).enumerate().filter(|(_, bytes)| *bytes == MARKER);
    let name = |at: usize| {
        let rest = &program[at + MARKER.len()..];
        String::from_utf8_lossy(&rest[..rest.len().min(40)]).into_owned()
    };
    starts.map(|(at, _)| name(at)).collect()
}

/// The program contains the library that `ferrite run` loads, so this test searches the library too.
#[test]
fn what_is_released_has_no_planted_bug() {
    let binary = ferrite_path();
    let libraries = ["libferrite_sqlite.so", "libferrite.so"].map(|name| binary.with_file_name(name));
    let is_there = |path: &&Path| *path == binary || path.is_file();
    let programs = [binary.as_path(), &libraries[0], &libraries[1]];
    for path in programs.into_iter().filter(is_there) {
        let found = planted(&std::fs::read(path).expect("read"));
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}

#[test]
fn canary_a_planted_bug_is_found_in_a_program() {
    let program = [&b"\x7fELF..."[..], MARKER, b"a word before its data\0more"].concat();
    let found = planted(&program);
    assert!(found.len() == 1 && found[0].starts_with("a word before its data"), "{found:?}");
    assert!(planted(b"\x7fELF planted; implanted").is_empty());
}
