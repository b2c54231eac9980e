//! `ferrite guest run`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use ferrite_guest::{GuestReport, GuestRequest};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::guest_arguments::named_guest;
use crate::command_pool::{CommandPool, Images};
use crate::commands::{aside, run};
use crate::medium::MediumArguments;
use crate::outcome::Outcome;
use crate::stop::Stop;
use crate::{child, inherited};

/// The word that stands for the path of the region's file.
const PATH_WORD: &[u8] = b"{}";

/// Run a program that maps a guest, and whose stores to it survive what the pool survives
///
/// FERRITE_REGION names a file of the guest's size to the program, and so does {} in its arguments. The program maps all
/// of the file once, shared, for reading and writing: that is the guest. It then loads and stores, and calls nothing. A
/// store that it has flushed and fenced is durable. The file itself cannot be written, and has no bytes to read.
///
/// If no process serves the pool, this command does until the program ends. The program goes on if the pool's owner ends.
#[derive(Args)]
#[command(after_help = "Exit status: the program's own; 128 and the signal that ended it.")]
pub struct GuestRun {
    /// The pool
    pool: PathBuf,
    /// The guest
    name: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl GuestRun {
    /// Runs the program. Does not return if the program was started.
    pub fn run(self) -> Outcome {
        let program = &self.command[0];
        if let Some(why) = run::refusal(program) {
            return Err(format!("{} cannot map a guest: {why}", program.display()).into());
        }
        let stop = Stop::new()?;
        let mut command_pool = CommandPool::with(&self.pool, &MediumArguments::default())?;
        let prepared = prepare(&mut command_pool, &self);
        let (mut command, _file) = match prepared {
            Ok(prepared) => prepared,
            Err(why) => return crate::outcome::and_then_cleared(Err(why), command_pool.close()),
        };
        let Some(owner) = command_pool.owner().map(Arc::clone) else {
            let starting = |error: io::Error| format!("starting {}: {error}", program.display());
            std::process::exit(child::code(child::start(&mut command).map_err(starting)?.wait()?))
        };
        let begun = command_pool.listen();
        drop(command_pool);
        aside::hold_beside(owner, begun, &stop, Images::default(), command)
    }
}

/// Returns the command that runs the program, and the region's file, which exists as long as this process has it open.
fn prepare(command_pool: &mut CommandPool, asked: &GuestRun) -> Outcome<(Command, File)> {
    let guest = find(command_pool.ask(GuestRequest::List, None)?, &asked.name)?;
    let file = region_file(guest.size).map_err(|error| format!("making the region's file: {error}"))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let mut words = asked.command.iter().map(|word| with_path(word, &path));
    let mut command = Command::new(words.next().expect("clap requires a word"));
    command.args(words);
    command.env("FERRITE_REGION", &path).env("FERRITE_REGION_BYTES", guest.size.to_string());
    command.env("FERRITE_REGION_POOL", asked.pool.canonicalize()?).env("FERRITE_REGION_GUEST", &asked.name);
    inherited::pass_on_sigpipe(&mut command);
    run::load_library(&mut command).map_err(|why| format!("a program maps a guest by a library: {why}"))?;
    Ok((command, file))
}

fn find(guests: Vec<GuestReport>, name: &str) -> Outcome<GuestReport> {
    let guest = named_guest(guests, name)?;
    match guest.pid {
        Some(pid) => Err(format!("the guest {name:?} is in use by process {pid}: end that first").into()),
        None => Ok(guest),
    }
}

/// Makes a file of `bytes` that nothing can be written to and that keeps its size.
fn region_file(bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create("ferrite: region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Returns `word` with `path` in the place of each `{}`.
fn with_path(word: &OsStr, path: &str) -> OsString {
    let (mut whole, mut rest) = (Vec::new(), word.as_bytes());
    while let Some(at) = rest.windows(PATH_WORD.len()).position(|part| part == PATH_WORD) {
        whole.extend_from_slice(&rest[..at]);
        whole.extend_from_slice(path.as_bytes());
        rest = &rest[at + PATH_WORD.len()..];
    }
    whole.extend_from_slice(rest);
    OsString::from_vec(whole)
}

#[cfg(test)]
mod tests;
