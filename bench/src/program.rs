//! Programs of this machine, run in child processes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// Folders beyond `PATH` in which Debian keeps programs.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Lines of standard error in the error of a failed program.
const ERROR_LINES: usize = 3;
const POSTGRES: &str = "/usr/lib/postgresql";

/// The path of the program `name`, if it is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let folders = env::split_paths(&path).chain(FOLDERS.map(PathBuf::from)).chain(versions);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A command that runs the program `name`, which fails if it is not installed.
pub fn command(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| name.into()))
}

/// Runs `command` to its end.
///
/// # Errors
/// [`Error::Server`], with the first lines of its standard error, if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs `command` to its end; returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let who = name(command);
    let ended = command.stdin(Stdio::null()).output().map_err(Error::io(format!("running {who}")))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&ended.stderr);
    let errors = errors.lines().take(ERROR_LINES).collect::<Vec<_>>().join("; ");
    Err(Error::server(who, format!("it ended with {} and said: {errors}", ended.status)))
}

/// Runs `script` by the shell with these variables, ending at the first command that fails.
pub fn shell(variables: &[(&str, &Path)], script: &str) -> Result<()> {
    run(Command::new("sh").args(["-ec", script]).envs(variables.iter().copied()).env("LC_ALL", "C"))
}

/// The error of a program whose output cannot be understood.
pub fn strange(who: &str, output: &str) -> Error {
    Error::server(who, format!("its output is not understood: {output}"))
}

/// The name of the program of `command`.
pub fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
