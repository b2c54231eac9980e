//! O3, O5, O6: what a well-behaved client gets.

use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;

use super::role::Other;
use super::*;
use crate::wire::{FDS_MAX, FRAME_MAX_BYTES};

#[test]
fn o5_calls_on_one_connection_are_answered_in_order() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(client.owner_pid(), std::process::id());
    for n in 0..100 {
        assert_eq!(ask(&mut client, json!({"do": "echo", "n": n})).expect("echo")["n"], n);
        assert!(matches!(ask(&mut client, json!(n)), Err(Error::Failed(why)) if why.kind == FailureKind::BadRequest));
    }
}

#[test]
fn o7_the_owner_knows_who_calls() {
    let served = Served::new();
    let who = ask(&mut served.client(), json!({"do": "who"})).expect("who");
    assert_eq!(who, json!([std::process::id(), effective_user(), true]));
}

#[test]
fn progress_comes_in_order_before_the_reply() {
    let served = Served::new();
    let mut seen = Vec::new();
    let request = json!({"do": "count", "n": 50});
    let (value, _) = served
        .client()
        .call(to(&request), &mut |progress| {
            seen.push(progress.done);
            true
        })
        .expect("call");
    assert_eq!(value, 50);
    assert_eq!(seen, (0..50).collect::<Vec<_>>(), "the socket had room for them all");
}

/// O4: a client that does not read its progress loses some of it, never the reply.
#[test]
fn a_flood_of_progress_never_holds_up_the_work() {
    let served = Served::new();
    let mut client = served.client();
    let mut last = None;
    let (value, _) = client
        .call(to(&json!({"do": "count", "n": 20_000})), &mut |progress| {
            assert!(last < Some(progress.done), "{last:?} then {}", progress.done);
            last = Some(progress.done);
            true
        })
        .expect("call");
    assert_eq!(value, 20_000);
}

#[test]
fn a_cancelled_call_is_told_to_the_handler_and_the_connection_is_over() {
    let served = Served::new();
    let mut client = served.client();
    let answer = client.call(to(&json!({"do": "wait"})), &mut |_| false);
    assert!(matches!(answer, Err(Error::Cancelled)));
    assert_eq!([served.hears(), served.hears()], [Seen::Waiting, Seen::Cancelled]);
    assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    assert!(matches!(ask(&mut client, json!({"do": "echo"})), Err(Error::Died)));
    served.is_well();
}

#[test]
fn o6_descriptors_ride_both_ways_and_are_the_same_files() {
    let served = Served::new();
    let mut files: Vec<File> = (0..FDS_MAX).map(|_| tempfile::tempfile().expect("file")).collect();
    for (n, file) in files.iter_mut().enumerate() {
        write!(file, "file {n}").expect("write");
    }
    let riding: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let (_, back) = served.client().call(to(&json!({"do": "echo"})).with_fds(riding), &mut |_| true).expect("call");
    assert_eq!(back.len(), files.len());
    for (n, fd) in back.into_iter().enumerate() {
        let (mut file, mut text) = (File::from(fd), String::new());
        file.rewind().expect("rewind");
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, format!("file {n}"));
    }
    let many: Vec<_> = std::iter::repeat_n(files[0].as_fd(), FDS_MAX + 1).collect();
    let mut client = served.client();
    assert!(matches!(client.call(to(&json!({"do": "echo"})).with_fds(many), &mut |_| true), Err(Error::Failed(_))));
    ask(&mut client, json!({"do": "echo"})).expect("nothing was sent, so the connection goes on");
}

#[test]
fn a_call_or_reply_too_long_for_a_frame_fails_and_the_connection_goes_on() {
    let served = Served::new();
    let mut client = served.client();
    for request in [json!({"do": "big", "n": FRAME_MAX_BYTES}), json!("x".repeat(FRAME_MAX_BYTES))] {
        let said = ask(&mut client, request).expect_err("too long").to_string();
        assert!(said.contains("too many for one message"), "{said}");
    }
    let long = FRAME_MAX_BYTES - 100;
    assert_eq!(ask(&mut client, json!({"do": "big", "n": long})).expect("long").as_str().map(str::len), Some(long));
}

#[test]
fn a_handler_that_panics_fails_its_call_alone() {
    let served = Served::new();
    let mut client = served.client();
    assert!(matches!(ask(&mut client, json!({"do": "panic"})), Err(Error::Failed(_))));
    ask(&mut client, json!({"do": "echo"})).expect("the same connection goes on");
    served.is_well();
}

#[test]
fn an_owner_killed_in_mid_call_is_told_from_one_that_is_stopped() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).expect("pool");
    let owner = Other::plays("own", &[path.to_str().expect("path")]);

    let mut client = OwnerClient::connect(&path).expect("connect");
    owner.stop();
    client.give_up_after(Duration::from_millis(20));
    let why = ask(&mut client, json!({"do": "echo"})).expect_err("it is stopped");
    let said = why.to_string();
    assert!(matches!(why, Error::Timeout(_)) && said.contains("may be stopped"), "{said}");
    assert!(said.contains(&format!("process {}", client.owner_pid())) && said.contains("/pool"), "{said}");
    owner.signal("CONT");

    let mut client = OwnerClient::connect(&path).expect("connect");
    let mut owner = Some(owner);
    let answer = client.call(to(&json!({"do": "wait"})), &mut |_| {
        owner.take().into_iter().for_each(Other::kill);
        true
    });
    assert!(matches!(answer, Err(Error::Died)), "{answer:?}");
}

#[test]
fn a_stop_ends_calls_at_work_and_idle_connections() {
    let mut served = Served::new();
    let mut idle = served.client();
    let waiting = std::thread::spawn({
        let mut client = served.client();
        move || ask(&mut client, json!({"do": "wait"}))
    });
    assert_eq!(served.hears(), Seen::Waiting);
    served.listening.take().expect("listening").stop().expect("stop");
    assert!(matches!(waiting.join().expect("thread"), Err(Error::Failed(why)) if why.kind == FailureKind::Cancelled));
    assert!(matches!(ask(&mut idle, json!({"do": "echo"})), Err(Error::Died)));
    assert!(matches!(OwnerClient::connect(&served.pool()), Err(Error::NoOwner(_))), "the lock went with it");
}
