//! `ferrite run`.

mod library;
mod program;
mod tally;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use ferrite_pool::Trust;

use crate::child;
use crate::inherited;
use crate::mount_notes;
use crate::outcome::Outcome;

use tally::Tally;

/// Run a program whose files on a mounted file system are read and written in its own memory
///
/// The program is not changed, and gives the same results: each file is opened by the kernel, but after a few calls its
/// reads and writes are copies from and to persistent memory, without a system call. A write is durable when it
/// returns. Its children are run the same way.
///
/// Direct: read, write, pread, pwrite and their forms for several buffers, lseek, appending, fsync, fdatasync, fstat,
/// ftruncate, of files that the program opens itself. Everything else goes through the mount as always: stdio streams,
/// shared mappings, sendfile, and descriptors that another process shares. A file that other programs write to
/// or read through the mount goes through the mount for every program while they do.
///
/// Programs that are statically linked or set-user-id, and file systems mounted with --cached or of pools in plain
/// files, are reported and run through the mount.
#[derive(Args)]
#[command(after_help = "Exit status: the program's own; 128 and the signal that ended it; 127 if it was not found, \
                        126 if it could not be run.")]
pub struct Run {
    /// Tell at the end, on standard error, how many calls and bytes of the program and its children went directly and
    /// how many through the mount; costs each call some nanoseconds
    #[arg(long)]
    stat: bool,
    /// Tell that as JSON
    #[arg(long, requires = "stat")]
    json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Makes the loader load the library into the program of `command` and its children.
pub fn load_library(command: &mut Command) -> Result<(), String> {
    command.envs(Trust::environment());
    let library = library::place()?;
    command.env("LD_PRELOAD", library::before_others(&library));
    command.env(library::ASAN, library::beside_asan());
    Ok(())
}

/// Returns why the library cannot be loaded into the program `name`, if it cannot.
pub fn refusal(name: &OsStr) -> Option<&'static str> {
    program::refusal(name)
}

impl Run {
    /// Runs the program. With --stat, returns after the program's end. Otherwise returns only if the program cannot be
    /// started.
    pub fn run(self) -> Outcome {
        let words = &self.command;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        inherited::pass_on_sigpipe(&mut command);
        match load_library(&mut command) {
            Ok(()) => {
                mount_notes::remark_not_direct(words);
                program::print(&words[0]);
            }
            Err(why) => remark!("ferrite run: everything goes through the mount: {why}"),
        }
        if self.stat {
            return self.counted(&mut command);
        }
        let error = command.exec();
        self.refused(&error)
    }

    /// Runs the program as a child, and prints its counts when it ends.
    fn counted(&self, command: &mut Command) -> Outcome {
        let tally = Tally::new().map_err(|error| format!("making a file to count in: {error}"))?;
        command.env(tally::VARIABLE, tally.path());
        let mut running = child::start(command).or_else(|error| self.refused(&error))?;
        let status = running.wait()?;
        tally.print(self.json)?;
        std::process::exit(child::code(status))
    }

    /// Returns the failure of a program that could not be started.
    fn refused<T>(&self, error: &std::io::Error) -> Outcome<T> {
        let is_missing = error.kind() == ErrorKind::NotFound;
        let name = self.command[0].display();
        if is_missing && self.command[0].as_encoded_bytes().starts_with(b"-") {
            remark!(
                "ferrite run: {name} is neither an option of `ferrite run`, which stand before the command, nor a program"
            );
        } else {
            remark!("ferrite run: {name}: {error}");
        }
        std::process::exit(if is_missing { 127 } else { 126 })
    }
}
