//! Runs a program until it ends or the time is up, its output line by line.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With exit status 0.
    Well,
    /// With this status or signal.
    Badly(String),
    /// It did not in time, and was killed with its descendants.
    TimeUp,
    /// It said nothing for too long, and was killed with its descendants.
    Silent,
}

/// How long a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it has to be done.
    pub deadline: Instant,
    /// How long it may say nothing: a test that hangs is not to use up the time of all others.
    pub silence: Duration,
}

impl Limits {
    /// How long to wait for a line now, and what it means if none comes.
    fn patience(&self) -> (Duration, End) {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < self.silence { (left, End::TimeUp) } else { (self.silence, End::Silent) }
    }
}

/// Runs `command`, giving each line it prints to `on_line`; standard error goes where ours goes.
pub fn run(command: &mut Command, limits: Limits, mut on_line: impl FnMut(&str)) -> io::Result<End> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = lines_of(child.stdout.take());
    loop {
        let (patience, end) = limits.patience();
        match lines.recv_timeout(patience) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(&mut child);
                return Ok(end);
            }
        }
    }
    let status = child.wait()?;
    Ok(if status.success() { End::Well } else { End::Badly(status.to_string()) })
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

/// A test binary outlives the cargo that started it, so its descendants are killed one by one.
fn kill_tree(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let children = children();
    for at in 0.. {
        let Some(parent) = doomed.get(at).copied() else { break };
        doomed.extend(children.iter().filter(|(_, its)| *its == parent).map(|(process, _)| *process));
    }
    let pids = doomed.iter().map(ToString::to_string);
    let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status();
    let _ = child.wait();
}

/// Every process with its parent.
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
mod tests {
    use super::*;

    fn run_shell(script: &str, limit: Duration) -> (End, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        let limits = Limits { deadline: Instant::now() + limit, silence: limit };
        let end = run(command.args(["-c", script]), limits, |line| lines.push(line.to_owned()));
        (end.unwrap(), lines)
    }

    const LONG: Duration = Duration::from_secs(60);

    const SHORT: Duration = Duration::from_millis(500);

    #[test]
    fn lines_and_ends_are_told() {
        assert_eq!(run_shell("echo a; echo b", LONG), (End::Well, vec!["a".into(), "b".into()]));
        let (end, _) = run_shell("exit 3", LONG);
        assert_eq!(end, End::Badly("exit status: 3".into()));
    }

    #[test]
    fn when_the_time_is_up_the_grandchildren_die_too() {
        let script = "sh -c 'sleep 1000 & echo $!; wait'";
        let (mut pid, mut command) = (0, Command::new("sh"));
        let limits = Limits { deadline: Instant::now() + SHORT, silence: LONG };
        let end = run(command.args(["-c", script]), limits, |line| pid = line.parse().unwrap()).unwrap();
        assert_eq!(end, End::TimeUp);
        let is_gone =
            || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
        let gone_by = Instant::now() + LONG;
        while !is_gone() && Instant::now() < gone_by {
            std::thread::yield_now();
        }
        assert!(pid != 0 && is_gone(), "process {pid} lives on");
    }

    #[test]
    fn who_is_silent_for_too_long_is_ended() {
        let limits = Limits { deadline: Instant::now() + LONG, silence: SHORT };
        assert_eq!(run(Command::new("sleep").arg("1000"), limits, |_| {}).unwrap(), End::Silent);
    }
}
