//! `ferrite up --run` and `ferrite up --detach`: a server beside a command, and a server without a terminal.
//!
//! A detached server is a second process of this program, in a session of its own. Its standard output is a pipe to the
//! first process, which exits after the announcement. If the server ends before, its log gives the reason.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use clap::Args;
use ferrite_owner::PoolOwner;
use ferrite_owner::paths::{in_line, quoted};
use rustix::process::{Pid, Signal, kill_process, setsid};

use super::announce::Announcement;
use crate::command_pool::{CommandPool, Images, Until};
use crate::outcome::{Failure, Outcome};
use crate::stop::{Asked, Stop};
use crate::{child, inherited, log};

/// The option that replaces `--detach` on the command line of the detached server.
const DETACHED: &str = "--detached";

/// How a server is started: beside a command, detached, or neither.
#[derive(Args)]
pub struct Aside {
    /// Serve while this command runs, and end with its exit status; FERRITE_POOL names the pool to it. The last option
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true, conflicts_with = "detach")]
    run: Vec<OsString>,
    /// Return when everything is served; `ferrite down` ends it, and the log is where it is printed
    #[arg(long)]
    detach: bool,
    #[arg(long = "detached", hide = true, conflicts_with_all = ["detach", "run"])]
    is_detached: bool,
}

impl Aside {
    /// Returns true if the user asked for a server that outlives this process.
    pub fn is_to_detach(&self) -> bool {
        self.detach
    }

    /// Leaves the terminal, if this is the detached server.
    pub fn begin(&self) -> Outcome {
        if self.is_detached {
            setsid()?;
        }
        Ok(())
    }

    /// Prints the served disks. Beside a command, the announcement goes to standard error, because standard output
    /// belongs to the command.
    pub fn announce(&self, all: Announcement, json: bool) -> Outcome {
        if self.is_detached {
            let log = log::of(std::process::id());
            let down = all.pool.as_deref().map(|pool| format!("`ferrite down {}`", quoted(pool)));
            Announcement { log, ended_by: down, ..all }.print(json, Announcement::show)?;
            // The process that waits for the announcement then exits. Later output goes to the log.
            rustix::stdio::dup2_stdout(std::io::stderr().as_fd())?;
            return Ok(std::env::set_current_dir("/")?);
        }
        let Some(command) = self.run.first() else { return all.print(json, Announcement::show) };
        let ended_by = Some(format!("The end of {}", in_line(Path::new(command))));
        let all = Announcement { ended_by, ..all };
        let text = if json { serde_json::to_string(&all)? } else { all.show() };
        remark!("{}", text.trim_end());
        Ok(())
    }

    /// Holds the pool until a signal arrives or the command ends.
    pub fn hold(&self, owner: Arc<PoolOwner>, begun: Outcome, stop: &Stop, images: Images<'_>) -> Outcome {
        if self.run.is_empty() {
            return CommandPool::from(owner).hold(begun, stop, Until::Asked { images });
        }
        let mut command = Command::new(&self.run[0]);
        command.args(&self.run[1..]).env("FERRITE_POOL", owner.lock().path());
        inherited::pass_on_sigpipe(&mut command);
        hold_beside(owner, begun, stop, images, command)
    }
}

/// Holds the pool of `owner` while `command` runs, and ends with its exit status.
pub fn hold_beside(
    owner: Arc<PoolOwner>,
    begun: Outcome,
    stop: &Stop,
    images: Images<'_>,
    command: Command,
) -> Outcome {
    let mut running = None;
    let begun = begun.and_then(|()| {
        running = Some(start(command, stop)?);
        Ok(())
    });
    let held = CommandPool::from(owner).hold(begun, stop, Until::Done { images });
    let Some(status) = running.and_then(|ended| ended.recv().ok()) else { return held };
    match held {
        Err(why) if status.success() => Err(why),
        held => {
            held.err().iter().for_each(|why| remark!("ferrite: {}", why.text()));
            std::process::exit(child::code(status))
        }
    }
}

/// Starts `command`. The receiver gets its exit status when it ends.
fn start(mut command: Command, stop: &Stop) -> Outcome<Receiver<ExitStatus>> {
    let name = in_line(Path::new(command.get_program()));
    let mut running = child::start(&mut command).map_err(|error| format!("starting {name}: {error}"))?;
    let (sender, ended) = channel();
    stop.when(move || _ = running.wait().map(|status| sender.send(status)))?;
    Ok(ended)
}

/// Starts a server of the pool at `path` that outlives this process, and prints the server's announcement.
pub fn detach(path: &Path, stop: &Stop) -> Outcome {
    let log_path = log::path(path)?;
    let opening = |error| format!("opening the log {}: {error}", in_line(&log_path));
    let log = log::open(&log_path).map_err(opening)?;
    let before = log.metadata().map_err(opening)?.len();
    let words = std::env::args_os().skip(1).map(|word| if word == "--detach" { DETACHED.into() } else { word });
    let mut server = Command::new(std::env::current_exe()?);
    server.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut server = server.spawn()?;
    let announced = announced(&mut server, stop)?;
    if announced.is_empty() {
        let status = server.wait()?;
        return Err(ended_early(status, &log_path, before));
    }
    super::write(&announced).map(drop)
}

/// Returns the announcement of `server`, or nothing if the server ends before. Ctrl-C ends the server, too.
fn announced(server: &mut Child, stop: &Stop) -> Outcome<String> {
    let mut output = server.stdout.take().ok_or("the server has no standard output")?;
    let (sender, all) = channel();
    stop.when(move || {
        let mut text = String::new();
        let _ = output.read_to_string(&mut text).map(|_| sender.send(text));
    })?;
    while stop.wait() != Asked::Done {
        kill_process(Pid::from_child(server), Signal::TERM)?;
    }
    Ok(all.recv().unwrap_or_default())
}

/// Copies the server's log after `before` to standard error, and returns the server's failure.
fn ended_early(status: ExitStatus, log: &Path, before: u64) -> Failure {
    let mut said = String::new();
    let read = File::open(log).and_then(|mut file| {
        file.seek(SeekFrom::Start(before))?;
        file.read_to_string(&mut said)
    });
    let said = said.trim_end();
    match (read, status.code()) {
        (Ok(_), Some(code)) if code != 0 && !said.is_empty() => {
            remark!("{said}");
            std::process::exit(code)
        }
        _ => format!("the server ended with {status} before it served: see {}", in_line(log)).into(),
    }
}
