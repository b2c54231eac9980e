use std::io::Seek;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::*;

/// Returns true if `pass` ends with an error after the caller stops it, although the other side of its pipe is idle.
fn ends(end: OwnedFd, pass: fn(&mut WatchedFiles<'_>) -> io::Result<u64>) -> bool {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let (message, ended) = channel();
    thread::spawn(move || {
        let mut go_on = |_| !STOPPED.load(Ordering::SeqCst);
        let result = pass(&mut WatchedFiles::new(end.into(), "passing", 0, &mut go_on));
        message.send(result.is_err()).expect("the test listens");
    });
    STOPPED.store(true, Ordering::SeqCst);
    // What waits for the other side would wait for ever.
    ended.recv_timeout(Duration::from_secs(60)).unwrap_or(false)
}

#[test]
fn a_silent_other_side_does_not_keep_it_from_stopping() {
    let (reader, writer) = io::pipe().expect("a pipe");
    assert!(ends(reader.into(), |watched| watched.read_to_end(&mut Vec::new()).map(|_| 0)), "nobody writes");
    drop(writer);
    let (reader, writer) = io::pipe().expect("a pipe");
    assert!(ends(writer.into(), |watched| io::copy(&mut io::repeat(1), watched)), "nobody reads");
    drop(reader);
}

#[test]
fn several_files_are_read_one_behind_the_other() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"first ").and_then(|()| file.rewind()).expect("written");
    writer.write_all(b"second").expect("written");
    drop(writer);
    let (files, mut done) = (vec![file, OwnedFd::from(reader).into()], 0);
    let mut count = |progress: Progress| {
        done = progress.done;
        true
    };
    let mut got = String::new();
    let mut watched = WatchedFiles::several(files, "passing", 0, &mut count).expect("there are some");
    watched.read_to_string(&mut got).expect("read");
    assert_eq!((got.as_str(), done), ("first second", 12));
    assert!(WatchedFiles::several(Vec::new(), "passing", 0, &mut |_| true).is_none());
}

#[test]
fn all_bytes_pass_through_a_pipe() {
    let bytes: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let (sent, mut done) = (bytes.clone(), 0);
    let thread = thread::spawn(move || {
        let mut count = |progress: Progress| {
            done = progress.done;
            true
        };
        let mut watched = WatchedFiles::new(OwnedFd::from(writer).into(), "passing", 0, &mut count);
        watched.write_all(&sent).expect("written");
        drop(watched);
        done
    });
    let mut got = Vec::new();
    reader.read_to_end(&mut got).expect("read");
    assert!(got == bytes);
    assert_eq!(thread.join().expect("wrote"), bytes.len() as u64);
}
