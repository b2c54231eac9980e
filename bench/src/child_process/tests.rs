//! Processes of the shell: asked, waited for, and ended in each way.

use std::path::Path;

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[test]
fn a_process_answers_line_by_line_and_ends_with_its_input() {
    let mut process = ChildProcess::start_answering("cat", &mut shell("exec cat")).expect("it starts");
    assert_eq!(process.ask("one").expect("it answers"), "one\n");
    assert_eq!(process.ask("two").expect("it answers"), "two\n");
    let pid = process.id();
    assert!(runs(pid));
    drop(process);
    assert!(!runs(pid), "it is waited for");
}

#[test]
fn a_process_that_has_ended_answers_with_an_error() {
    let mut process = ChildProcess::start_answering("brief", &mut shell("read line; exit 3")).expect("it starts");
    let error = process.ask("anything").expect_err("it has ended");
    assert!(error.to_string().starts_with("reading from brief: "), "{error}");
}

/// Memory that a server holds is missing to everybody until it has ended.
#[test]
fn a_process_is_ended_as_it_is_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ready, mark) = (folder.path().join("ready"), folder.path().join("mark"));
    let script =
        format!("trap 'touch {}; exit' INT; touch {}; while :; do sleep 0.01; done", mark.display(), ready.display());
    for (ending, in_order) in [(ProcessEnding::Kill, false), (ProcessEnding::Interrupt, true)] {
        let mut process = ChildProcess::start("server", &mut shell(&script), ending).expect("it starts");
        let is_ready = || Ok(ready.exists().then_some(()));
        process.wait_for(Duration::from_secs(20), Duration::from_millis(1), is_ready).expect("it is ready");
        let pid = process.id();
        drop(process);
        assert_eq!((runs(pid), mark.exists()), (false, in_order), "{ending:?}");
        std::fs::remove_file(&ready).expect("there");
    }
}

#[test]
fn a_process_that_ends_while_it_is_waited_for_is_an_error_with_what_it_said() {
    let mut command = shell("echo no memory >&2; exit 7");
    let mut process =
        ChildProcess::start("server", command.stderr(Stdio::piped()), ProcessEnding::Kill).expect("it starts");
    let error =
        process.wait_for(Duration::from_secs(20), Duration::from_millis(1), || Ok(None::<()>)).expect_err("it ends");
    assert_eq!(error.to_string(), "server: it ended (exit status: 7): no memory");
}

#[test]
fn a_process_that_is_never_ready_is_an_error() {
    let mut process =
        ChildProcess::start("server", &mut shell("exec sleep 100"), ProcessEnding::Kill).expect("it starts");
    let error = process.wait_for(Duration::ZERO, Duration::from_millis(1), || Ok(None::<()>)).expect_err("it is not");
    assert_eq!(error.to_string(), "server: it did not answer within 0 s");
    let broken = || Err::<Option<()>, _>(Error::Server { who: "the client".into(), what: "is broken".into() });
    let error = process.wait_for(Duration::from_secs(20), Duration::from_millis(1), broken).expect_err("it fails");
    assert_eq!(error.to_string(), "the client: is broken");
}

#[test]
fn a_program_that_is_not_there_is_an_error_of_that_kind() {
    let started = ChildProcess::start("peer", &mut Command::new("/no/such/program"), ProcessEnding::Kill);
    let Err(Error::Io { what, source }) = started else { panic!("it is not there") };
    assert_eq!((what.as_str(), source.kind()), ("starting peer", io::ErrorKind::NotFound));
}

#[test]
fn lines_are_read_until_the_process_ends() {
    let mut command = shell("echo one; echo two >&2");
    let mut process = ChildProcess::start_reporting("x", &mut command, ProcessEnding::Interrupt).expect("it starts");
    assert_eq!(process.read_line().expect("a line"), "one\n");
    assert_eq!(process.read_line().expect("its end"), "");
}
