use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

const MINUTE: TimeAllowance = TimeAllowance { total: Duration::from_secs(60), silence: Duration::from_secs(60) };

fn run(script: &str) -> TestTally {
    let mut gate = GateRun::within(MINUTE);
    gate.command("shell", &mut shell(script));
    gate.done[0].counted()
}

const RESULT: &str = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'";

#[test]
fn tests_are_counted_and_a_crash_without_a_result_is_a_failure() {
    assert_eq!(run(RESULT), TestTally { passed: 3, failed: 0, skipped: 1 });
    assert_eq!(run(&format!("{RESULT}; kill -SEGV $$")), TestTally { passed: 3, failed: 1, skipped: 1 });
    assert_eq!(run("exit 101"), TestTally { passed: 0, failed: 1, skipped: 0 });
}

#[test]
fn a_step_that_was_not_run_fails_the_run() {
    let mut gate = GateRun::within(MINUTE);
    assert!(gate.step("good", || Ok(String::new())));
    gate.not_run("end to end", "no program");
    assert!(!gate.finish());
}

#[test]
fn a_skipped_step_is_counted_and_does_not_fail_the_run() {
    let mut gate = GateRun::within(MINUTE);
    gate.skip("machine", "no program".into());
    assert_eq!(gate.done[0].counted(), TestTally { passed: 0, failed: 0, skipped: 1 });
    assert!(gate.finish());
}

#[test]
fn a_step_that_hangs_is_killed_and_fails() {
    let mut gate = GateRun::within(TimeAllowance { silence: Duration::from_millis(100), ..MINUTE });
    assert!(!gate.command("hang", &mut shell("sleep 1000")));
}
