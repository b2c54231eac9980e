//! A child program beside this process's own work. The child gets the signals that end a program.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;

use ferrite_pool::PidFd;
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::stop;

/// Starts `command`. From now on this process forwards SIGTERM and SIGHUP. The child gets signals of the terminal
/// directly.
pub fn start(command: &mut Command) -> io::Result<Child> {
    let signals = Signals::new(stop::caught(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP]))?;
    let (send, started) = channel();
    Builder::new().name("pass on".into()).spawn(move || pass_on(signals, &started))?;
    let child = command.spawn()?;
    let _ = send.send(PidFd::open(child.id())?);
    Ok(child)
}

fn pass_on(mut signals: Signals, started: &Receiver<PidFd>) {
    let Ok(child) = started.recv() else { return };
    for signal in signals.forever() {
        let signal = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            _ => continue,
        };
        // A child that has ended needs no signal.
        let _ = pidfd_send_signal(child.as_fd(), signal);
    }
}

/// Returns the exit status for `status` by the convention of shells.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
