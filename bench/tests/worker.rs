//! The worker as a process: orders on standard input, answers on standard output, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A worker on `folder`, and its answers.
struct Worker {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(arguments: &[&str], folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite-bench-worker"));
        command.arg("bench-worker").args(arguments).arg(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, answers }
    }

    fn ask(&mut self, line: &str) -> Value {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("it reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{answer:?}: {why}"))
    }

    /// The measure of an order that is carried out.
    fn done(&mut self, order: Value) -> f64 {
        let answer = self.ask(&order.to_string());
        answer["Done"].as_f64().unwrap_or_else(|| panic!("{order}: {answer}"))
    }

    /// The reason why an order is not.
    fn failed(&mut self, line: &str) -> String {
        let answer = self.ask(line);
        answer["Failed"].as_str().unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    }

    /// The exit status after the end of the input.
    fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends").code()
    }
}

fn work(verb: &str) -> Value {
    json!({ "Work": {
        "verb": verb, "record_bytes": 4096, "threads": 1, "file_bytes": 65536, "window_bytes": 65536,
        "limit_us": 100_000, "seed": 1, "answer": "Rate"
    } })
}

#[test]
fn orders_are_carried_out_until_the_input_ends() {
    for arguments in [&[][..], &["--fdatasync"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut worker = Worker::start(arguments, folder.path());
        assert_eq!(worker.done(json!({ "Prepare": { "files": 1, "file_bytes": 65536 } })), 0.0);
        assert_eq!(fs::metadata(folder.path().join("data-0")).expect("made").len(), 65536);
        for verb in ["Write", "Rewrite", "RandomWrite", "Read", "Reread", "RandomRead"] {
            assert!(worker.done(work(verb)) > 0.0, "{verb}");
        }
        assert!(worker.done(json!({ "Name": ["Create", 3] })) > 0.0);
        worker.done(json!({ "Clear": { "files": 1 } }));
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
        assert_eq!(worker.end(), Some(0));
    }
}

/// An experiment needs the reason, and the subjects after this one still need the worker.
#[test]
fn an_order_that_fails_is_an_answer_and_not_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = Worker::start(&[], folder.path());
    let why = worker.failed(&work("Read").to_string());
    assert!(why.starts_with(&format!("opening {}/data-0: ", folder.path().display())), "{why}");
    assert!(worker.failed("nonsense").contains("expected"), "a line that is not JSON");
    assert!(worker.failed("{\"Destroy\":{}}").contains("Destroy"), "an order of a later version");
    worker.done(json!({ "Prepare": { "files": 1, "file_bytes": 65536 } }));
    assert!(worker.done(work("Read")) > 0.0);
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn a_folder_that_is_missing_fails_each_order() {
    let mut worker = Worker::start(&[], Path::new("/no/such/folder"));
    let why = worker.failed(&json!({ "Prepare": { "files": 1, "file_bytes": 1 } }).to_string());
    assert!(why.starts_with("opening /no/such/folder/data-0: "), "{why}");
    assert_eq!(worker.end(), Some(0));
}

/// An experiment that was killed must not leave workers that go on.
#[test]
fn a_worker_whose_answers_nobody_reads_ends_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite-bench-worker"));
    command.arg("bench-worker").arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    let order = json!({ "Clear": { "files": 0 } });
    writeln!(child.stdin.take().expect("piped"), "{order}").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(why.starts_with("answering: Broken pipe"), "{why}");
}
