//! Runs a program until it ends or its time is up, and passes its output on line by line.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with status 0.
    Well,
    /// It ended with this status or signal.
    Badly(String),
    /// It ran beyond the deadline, and was killed with its descendants.
    TimeUp,
    /// It printed nothing for too long, and was killed with its descendants.
    Silent,
}

/// The time that a program may take.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// The instant by which the program must end.
    pub deadline: Instant,
    /// The longest time between two lines of output, so that a test that hangs does not use up the time of all others.
    pub silence: Duration,
}

impl TimeLimits {
    /// Returns how long to wait for the next line, and how the program ended if none arrives.
    fn patience(&self) -> (Duration, ProcessEnd) {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < self.silence { (left, ProcessEnd::TimeUp) } else { (self.silence, ProcessEnd::Silent) }
    }
}

/// Runs `command` and passes each line that it prints to `on_line`. Standard error is passed on, and its lines count as
/// output too: a compiler prints nothing else.
pub fn run(command: &mut Command, limits: TimeLimits, mut on_line: impl FnMut(&str)) -> io::Result<ProcessEnd> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (lines, last_error) = (lines_of(child.stdout.take()), passed_on(child.stderr.take()));
    loop {
        let (patience, end) = limits.patience();
        match lines.recv_timeout(patience) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if end == ProcessEnd::Silent && is_recent(&last_error, patience) => {}
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(&mut child);
                return Ok(end);
            }
        }
    }
    let status = child.wait()?;
    Ok(if status.success() { ProcessEnd::Well } else { ProcessEnd::Badly(status.to_string()) })
}

/// Passes standard error on, as long as a process has it. Returns the instant of the last line.
fn passed_on(errors: Option<impl Read + Send + 'static>) -> Arc<Mutex<Instant>> {
    let last = Arc::new(Mutex::new(Instant::now()));
    let noted = Arc::clone(&last);
    std::thread::spawn(move || {
        let Some(errors) = errors else { return };
        for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
            eprintln!("{}", String::from_utf8_lossy(&line));
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    });
    last
}

fn is_recent(instant: &Mutex<Instant>, age: Duration) -> bool {
    instant.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < age
}

fn lines_of(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let Some(output) = output else { return };
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Prints what `child` and its descendants wait for, and kills them one by one, because a test binary outlives the cargo
/// that started it.
fn kill_tree(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let children = children();
    for at in 0.. {
        let Some(parent) = doomed.get(at).copied() else { break };
        doomed.extend(children.iter().filter(|(_, its)| *its == parent).map(|(process, _)| *process));
    }
    doomed.iter().for_each(|process| print_wait(*process));
    let pids = doomed.iter().map(ToString::to_string);
    let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status();
    let _ = child.wait();
}

/// Prints a process's command line, and for each of its threads its name and the function of the kernel that it waits in.
fn print_wait(process: u32) {
    let of = |thread: &std::path::Path, file| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
    let place = std::path::PathBuf::from(format!("/proc/{process}"));
    println!("{process}: {}", of(&place, "cmdline").replace('\0', " "));
    for thread in std::fs::read_dir(place.join("task")).into_iter().flatten().flatten() {
        println!("    {}: {}", of(&thread.path(), "comm").trim(), of(&thread.path(), "wchan"));
    }
}

/// Returns every process with its parent.
fn children() -> BTreeSet<(u32, u32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, parent_of(pid)?))).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
