//! Programs with rights that their caller lacks: the environment belongs to the caller, and its pool is ignored.

use std::fs::{Permissions, copy, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::Place;
use crate::shell::library;

/// The number of a user other than root.
const OTHER: u32 = 12345;

/// Another user runs SQLite's shell, and root runs it with that user's rights through its set-user-id bit.
#[test]
fn a_program_with_more_rights_than_its_caller_ignores_the_environment() {
    let shell = ["/usr/bin/sqlite3", "/bin/sqlite3"].into_iter().find(|path| Path::new(path).exists());
    let (Some(shell), true) = (shell, std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)) else {
        return println!("skipped: there is no sqlite3, or this user is not root");
    };
    let place = Place::new();
    let [program, own, pool] = ["sqlite3", "ferrite.so", "pool"].map(|name| place.path(name));
    copy(shell, &program).unwrap();
    copy(library().with_extension("so"), &own).unwrap();
    for path in [&place.path(""), &program, &own, &pool] {
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
    let asked = |mut command: Command, database: &str| {
        let open = format!(".open file:{}?vfs=ferrite", place.path(database).display());
        let words =
            [&format!(".load {}", own.with_extension("").display()), &open, "create table t(n); select 'made';"];
        command.arg(":memory:").args(words).env("FERRITE_POOL", &pool).current_dir(place.path(""));
        let output = command.output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let mut plain = Command::new("setpriv");
    plain.args(["--reuid", "12345", "--regid", "12345", "--clear-groups"]).arg(&program);
    let said = asked(plain, "a.db");
    assert!(said.contains("made") && !said.contains("no pool is named"), "{said}");
    set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let said = asked(Command::new(&program), "b.db");
    assert!(said.contains("no pool is named"), "{said}");
}
