use super::*;

fn run_shell(script: &str, limit: Duration) -> (ProcessEnd, Vec<String>) {
    let mut lines = Vec::new();
    let mut command = Command::new("sh");
    let limits = TimeLimits { deadline: Instant::now() + limit, silence: limit };
    let end = run(command.args(["-c", script]), limits, |line| lines.push(line.to_owned()));
    (end.unwrap(), lines)
}

const LONG: Duration = Duration::from_secs(60);

const SHORT: Duration = Duration::from_millis(500);

#[test]
fn lines_and_ends_of_a_program_are_reported() {
    assert_eq!(run_shell("echo a; echo b", LONG), (ProcessEnd::Well, vec!["a".into(), "b".into()]));
    let (end, _) = run_shell("exit 3", LONG);
    assert_eq!(end, ProcessEnd::Badly("exit status: 3".into()));
}

#[test]
fn grandchildren_are_killed_at_the_deadline() {
    let script = "sh -c 'sleep 1000 & echo $!; wait'";
    let (mut pid, mut command) = (0, Command::new("sh"));
    let limits = TimeLimits { deadline: Instant::now() + SHORT, silence: LONG };
    let end = run(command.args(["-c", script]), limits, |line| pid = line.parse().unwrap()).unwrap();
    assert_eq!(end, ProcessEnd::TimeUp);
    let is_gone = || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
    let gone_by = Instant::now() + LONG;
    while !is_gone() && Instant::now() < gone_by {
        std::thread::yield_now();
    }
    assert!(pid != 0 && is_gone(), "process {pid} lives on");
}

#[test]
fn a_program_that_prints_nothing_for_too_long_is_killed() {
    let limits = TimeLimits { deadline: Instant::now() + LONG, silence: SHORT };
    assert_eq!(run(Command::new("sleep").arg("1000"), limits, |_| {}).unwrap(), ProcessEnd::Silent);
}

/// A compiler prints to standard error alone.
#[test]
fn a_program_that_prints_to_standard_error_is_not_silent() {
    let limits = TimeLimits { deadline: Instant::now() + LONG, silence: Duration::from_secs(2) };
    let script = "for line in 1 2 3 4 5 6; do echo $line >&2; sleep 0.5; done";
    assert_eq!(run(Command::new("sh").args(["-c", script]), limits, |_| {}).unwrap(), ProcessEnd::Well);
}
