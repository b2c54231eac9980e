//! Peers of the shell, and the peer that needs no library.

use super::*;

fn peer(script: &str) -> PeerProcess {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    PeerProcess { name: "LMDB", process: ChildProcess::start_answering("LMDB", &mut command).expect("it starts") }
}

#[test]
fn a_peer_answers_with_nanoseconds() {
    assert_eq!(peer("read ms; echo $((ms * 100)).5").update_ns(12).expect("a number"), 1200.5);
}

#[test]
fn an_answer_that_is_no_number_is_named() {
    let why = peer("read ms; echo slowly").update_ns(1).expect_err("no number").to_string();
    assert_eq!(why, "LMDB: its output is not understood: slowly");
    let why = peer("read ms").update_ns(1).expect_err("no answer").to_string();
    assert!(why.starts_with("reading from LMDB: "), "{why}");
}

/// The C source must compile without any library, and its file must really be written.
#[test]
fn the_peer_on_a_plain_file_updates_it() {
    let Some(gcc) = program::find("gcc") else { return println!("not tested: there is no gcc") };
    let place = tempfile::tempdir().expect("a folder");
    let source = place.path().join("peer.c");
    std::fs::write(&source, SOURCE).expect("written");
    let program = compile(&gcc, &source, &[]).expect("it compiles");
    let file = place.path().join("file");
    let mut command = Command::new(program);
    command.arg("file").arg(&file);
    let process = ChildProcess::start_answering("file", &mut command).expect("it starts");
    assert!(PeerProcess { name: "file", process }.update_ns(1).expect("a number") > 0.0);
    assert!(std::fs::metadata(file).expect("there").len() > 0);
}
