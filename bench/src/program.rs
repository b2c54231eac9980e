//! Other people's programs: found on this machine or left out, run in children.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// Folders beyond `PATH` in which Debian keeps programs.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Lines that are told of what a failed program says.
const TOLD_LINES: usize = 3;
const POSTGRES: &str = "/usr/lib/postgresql";

/// Where the program `name` is, if it is there.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let folders = env::split_paths(&path).chain(FOLDERS.map(PathBuf::from)).chain(versions);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Runs `command` to its end.
///
/// # Errors
/// With what it said, where it failed.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs `command` to its end; what it wrote.
///
/// # Errors
/// As [`run`].
pub fn output(command: &mut Command) -> Result<String> {
    let who = name(command);
    let ended = command.stdin(Stdio::null()).output().map_err(Error::io(format!("running {who}")))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said.lines().take(TOLD_LINES).collect::<Vec<_>>().join("; ");
    Err(Error::Server { who, what: format!("it ended with {} and said: {said}", ended.status) })
}

/// Runs `script` by the shell in the folder `home`, ending at the first command that fails.
///
/// # Errors
/// As [`run`].
pub fn shell(home: &Path, script: &str) -> Result<()> {
    run(Command::new("sh").args(["-ec", script]).env("home", home).env("LC_ALL", "C"))
}

/// The name of its program.
pub fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_an_error_with_what_it_said() {
        assert_eq!(output(Command::new("sh").args(["-c", "echo yes"])).expect("it runs"), "yes\n");
        let why = run(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).expect_err("it fails").to_string();
        assert!(why.contains("because") && why.contains('3'), "{why}");
        assert!(shell(Path::new("/"), "false; true").is_err());
    }

    #[test]
    fn programs_are_found_or_not() {
        assert!(find("sh").is_some() && find("no such program").is_none());
    }
}
