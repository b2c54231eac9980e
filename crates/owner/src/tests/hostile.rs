//! O3, O4, O6: clients that garble, dawdle, stop and die, while another one is served.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::role::Other;
use super::*;
use crate::passed_fds;
use crate::socket_place::SocketPlace;
use crate::wire::{FDS_MAX, FRAME_MAX_BYTES, PROTOCOL, WireMessage, encode};

/// A call to the one service of these tests.
fn call_of(request: Value, fds: usize) -> WireMessage {
    WireMessage::Call { service: "test".into(), request, fds, view: None }
}

/// All that a client sends to make one call.
fn whole_call() -> Vec<u8> {
    let call = call_of(json!({"do": "count", "n": 2}), 0);
    [encode(&WireMessage::hello()).expect("hello"), encode(&call).expect("call")].concat()
}

/// Everything the owner says until it closes the connection.
fn rest_of(mut socket: UnixStream) -> String {
    socket.set_read_timeout(Some(NEVER)).expect("limit");
    let mut bytes = Vec::new();
    // A reset means that the owner closed the connection with bytes unread.
    let _ = socket.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn limits_ms(frame: u64, reply: u64) -> ListenLimits {
    let (frame_time, reply_time) = (Duration::from_millis(frame), Duration::from_millis(reply));
    ListenLimits { frame_time, reply_time, ..ListenLimits::default() }
}

/// O4: a client that closes after any number of bytes of a call.
#[test]
fn o4_a_client_that_closes_at_any_byte_harms_nobody() {
    let served = Served::new();
    let mut other = served.client();
    let call = whole_call();
    for sent in 0..=call.len() {
        let mut socket = served.raw();
        socket.write_all(&call[..sent]).expect("send");
        drop(socket);
        assert_eq!(ask(&mut other, json!({"do": "echo", "n": sent})).expect("the other is served")["n"], sent);
        assert_eq!(served.hears(), Seen::Gone(std::process::id()), "after {sent} bytes");
    }
}

/// O4: the same with processes that are stopped, then killed, by signals.
#[test]
fn o4_a_client_stopped_or_killed_at_any_byte_harms_nobody() {
    let served = Served::new();
    let socket = served.folder.path().join("pool.sock");
    let call = whole_call();
    let hello = encode(&WireMessage::hello()).expect("hello").len();
    let points = [1, 4, 5, hello - 1, hello, hello + 3, hello + 4, call.len() - 1, call.len()];
    for sent in points {
        let words: Vec<String> = call[..sent].iter().map(u8::to_string).collect();
        let client = Other::plays("send", &[socket.to_str().expect("path"), &words.join(" ")]);
        client.stop();
        served.is_well();
        assert_eq!(served.hears(), Seen::Gone(std::process::id()), "the one that was served beside it");
        let pid = client.pid();
        client.kill();
        assert_eq!(served.hears(), Seen::Gone(pid), "after {sent} bytes");
        served.is_well();
        assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    }
}

/// O4: so is one that sends a byte now and then: the time is for the whole frame.
#[test]
fn o4_a_client_that_begins_a_frame_and_never_ends_it_is_cut_off() {
    let served = Served::within(limits_ms(30, 5000));
    let call = whole_call();
    for sent in [0, 1, call.len() - 1] {
        let mut socket = served.raw();
        socket.write_all(&call[..sent]).expect("send");
        rest_of(socket);
        assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    }
    let mut dribble = served.raw();
    dribble.write_all(&(FRAME_MAX_BYTES as u32).to_le_bytes()).expect("a long frame begins");
    while dribble.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    served.is_well();
}

/// O4: one that asks for much and reads nothing is cut off, and its reply is not kept for ever.
#[test]
fn o4_a_client_that_never_reads_its_reply_is_cut_off() {
    let served = Served::within(limits_ms(5000, 30));
    let call = call_of(json!({"do": "big", "n": FRAME_MAX_BYTES - 100}), 0);
    let mut socket = served.raw();
    socket.write_all(&encode(&WireMessage::hello()).expect("hello")).expect("send");
    socket.write_all(&encode(&call).expect("call")).expect("send");
    assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    drop(socket);
    served.is_well();
}

#[test]
fn o4_garbage_and_oversized_frames_end_their_own_connection() {
    let served = Served::new();
    let hello = encode(&WireMessage::hello()).expect("hello");
    let frame = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let reply = encode(&WireMessage::Reply { value: Value::Null, fds: 0 }).expect("reply");
    let garbage = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        vec![0; 4096],
        (FRAME_MAX_BYTES as u32 + 1).to_le_bytes().to_vec(),
        frame("{"),
        frame("[]"),
        frame("\u{0}"),
        frame(&"[".repeat(100_000)),
        frame(r#"{"call":{"request":1}}"#),
        frame(r#"{"call":{"request":1,"fds":-1}}"#),
        [hello.clone(), hello.clone()].concat(),
        [hello.clone(), reply].concat(),
        [hello.clone(), frame(r#"{"hello":{"protocol":1,"program":""}}"#)].concat(),
    ];
    for bytes in garbage {
        let mut socket = served.raw();
        let _ = socket.write_all(&bytes);
        let said = rest_of(socket);
        assert!(!said.contains("reply") && !said.contains("failed"), "{said}");
        assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    }
    served.is_well();
}

#[test]
fn another_version_is_told_apart_on_both_sides() {
    let served = Served::new();
    let mut socket = served.raw();
    let newer = WireMessage::Hello { protocol: PROTOCOL + 1, program: "ferrite 9".into(), pool: None };
    socket.write_all(&encode(&newer).expect("hello")).expect("send");
    assert!(rest_of(socket).contains(&format!("\"protocol\":{PROTOCOL}")), "the client learns ours");

    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).expect("pool");
    let fake = std::os::unix::net::UnixListener::bind(path.with_extension("sock")).expect("bind");
    let newer = std::thread::spawn(move || {
        fake.accept().expect("client").0.write_all(&encode(&newer).expect("hello")).expect("send");
    });
    let said = OwnerClient::connect(&path).expect_err("newer").to_string();
    assert!(said.contains("ferrite 9") && said.contains("same release"), "{said}");
    newer.join().expect("fake owner");
}

/// O6: more descriptors than the limit, fewer than announced, and descriptors without an announcement.
#[test]
fn o6_descriptors_that_do_not_match_the_call_fail_it() {
    let served = Served::new();
    let file = tempfile::tempfile().expect("file");
    let hello = encode(&WireMessage::hello()).expect("hello");
    for (announced, riding) in [(1, 0), (0, 1), (2, 1)] {
        let mut socket = served.raw();
        socket.write_all(&hello).expect("hello");
        let call = encode(&call_of(json!({"do": "echo"}), announced)).expect("call");
        let fds = vec![file.as_fd(); riding];
        passed_fds::send(socket.as_fd(), &call, &fds).expect("send");
        socket.shutdown(std::net::Shutdown::Write).expect("shut");
        let said = rest_of(socket);
        assert!(said.contains(&format!("{riding} of {announced} file descriptors")), "{said}");
    }
    let socket = served.raw();
    // A descriptor on every byte of a frame: cut off at the bound, not gathered.
    let sent =
        hello.iter().take_while(|byte| passed_fds::send(socket.as_fd(), &[**byte], &[file.as_fd()]).is_ok()).count();
    assert!(sent > FDS_MAX);
    assert!(!rest_of(socket).contains("reply"));
    served.is_well();
}

#[test]
fn o4_connections_are_bounded_by_process_and_the_refusal_says_so() {
    let served = Served::within(ListenLimits { per_process: 3, ..ListenLimits::default() });
    let mut held: Vec<OwnerClient> = (0..3).map(|_| served.client()).collect();
    let said = OwnerClient::connect(&served.pool()).expect_err("full").to_string();
    assert!(said.contains("has 3 connections") && said.contains("close some"), "{said}");
    let socket = served.folder.path().join("pool.sock");
    let other = Other::plays("send", &[socket.to_str().expect("path"), "1"]);
    let pid = other.pid();
    other.kill();
    assert_eq!(served.hears(), Seen::Gone(pid), "another process got in");
    held.pop();
    assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    served.client();
}

/// A client that says `messages` and leaves its connection to a child, which lives on when this is killed alone.
fn leaving(served: &Served, messages: &[WireMessage]) -> Other {
    let socket = served.folder.path().join("pool.sock");
    let bytes = messages.iter().flat_map(|message| encode(message).expect("encoded"));
    let words: Vec<String> = bytes.map(|byte| byte.to_string()).collect();
    Other::plays("leave", &[socket.to_str().expect("path"), &words.join(" ")])
}

/// O7: an end that something else has inherited is closed when its process has ended, also in the middle of a call.
#[test]
fn o7_a_killed_client_is_gone_though_its_child_has_the_connection() {
    let served = Served::within(limits_ms(5000, 30));
    let idle = leaving(&served, &[WireMessage::hello()]);
    idle.kill_alone();
    assert_eq!(served.hears(), Seen::Gone(idle.pid()));
    let calling = leaving(&served, &[WireMessage::hello(), call_of(json!({"do": "wait"}), 0)]);
    assert_eq!(served.hears(), Seen::Waiting);
    calling.kill_alone();
    assert_eq!([served.hears(), served.hears()], [Seen::Cancelled, Seen::Gone(calling.pid())]);
    served.is_well();
}

/// O4: what a client does not read of the progress of its call does not hold up the work.
#[test]
fn o4_a_client_that_never_reads_progress_holds_up_no_work() {
    let served = Served::within(limits_ms(5000, 30));
    let mut socket = served.raw();
    let call = call_of(json!({"do": "count", "n": 20_000}), 0);
    socket
        .write_all(&[encode(&WireMessage::hello()), encode(&call)].map(|it| it.expect("encoded")).concat())
        .expect("send");
    assert_eq!(served.hears(), Seen::Gone(std::process::id()));
    drop(socket);
    served.is_well();
}

/// An owner that says hello and then, to the first call it hears, `answers`.
fn answering(answers: Vec<WireMessage>) -> (tempfile::TempDir, OwnerClient) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    let pool = File::create(&path).expect("pool").metadata().expect("pool");
    let fake = std::os::unix::net::UnixListener::bind(path.with_extension("sock")).expect("bind");
    std::thread::spawn(move || {
        let mut socket = fake.accept().expect("client").0;
        let said = [vec![WireMessage::hello_of(Some((pool.dev(), pool.ino())))], answers].concat();
        said.iter().for_each(|message| socket.write_all(&encode(message).expect("encoded")).expect("said"));
        let _ = socket.read_to_end(&mut Vec::new());
    });
    (folder, OwnerClient::connect(&path).expect("connect"))
}

/// O6: a reply whose descriptors were lost on the way is not taken for a good one.
#[test]
fn o6_a_reply_without_its_descriptors_fails_the_call() {
    let (_folder, mut client) = answering(vec![WireMessage::Reply { value: json!(7), fds: 1 }]);
    let answer = client.call(to(&json!({})), &mut |_| true);
    assert!(matches!(&answer, Err(Error::Lost { value }) if **value == 7), "{answer:?}");
}

/// O5: the reply to a call that was given up would answer the next one.
#[test]
fn o5_nothing_more_is_asked_on_a_connection_whose_call_was_given_up() {
    let (_folder, mut client) = answering(Vec::new());
    client.give_up_after(Duration::from_millis(10));
    assert!(matches!(ask(&mut client, json!({})), Err(Error::Timeout(_))));
    assert!(matches!(ask(&mut client, json!({})), Err(Error::Died)));
}

/// O3. Needs root, to become another user.
#[test]
fn o3_another_user_is_refused_even_where_the_socket_lets_it_in() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if effective_user() != 0 {
        println!("skipped: only root can become another user");
        return;
    }
    let served = Served::new();
    for (path, mode) in [(served.folder.path().to_owned(), 0o755), (served.folder.path().join("pool.sock"), 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }
    let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(4096))";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(served.folder.path().join("pool.sock"))
        .current_dir("/")
        .uid(65_534)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("refused") && said.contains("not user 65534"), "{said} {output:?}");
}

/// A socket of another user's, who listens at `path`. Needs root.
fn foreign_socket(path: &Path) -> Child {
    use std::os::unix::process::CommandExt;
    let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(9); print('ready', \
                  flush=True); sys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .arg(path)
        .current_dir("/")
        .uid(65_534)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    child.stdout.as_mut().expect("its output").read_exact(&mut [0; 6]).expect("it is ready");
    child
}

/// O3: a stranger's socket in the first place of the owner's receives no request, and does not hide the
/// owner, who listens at the next place. Needs root, to become another user.
#[test]
fn o3_a_strangers_socket_is_passed_by() {
    use std::os::unix::fs::PermissionsExt;
    if effective_user() != 0 {
        println!("skipped: only root can become another user");
        return;
    }
    let served = Served::new();
    let open = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777)).expect("mode");
    let (theirs, path) = (open.path().join("pool"), served.pool());
    let mut stranger = foreign_socket(&open.path().join("pool.sock"));
    let pool = std::fs::metadata(&path).expect("pool");
    let foreign = SocketPlace::candidates_with(&theirs, &pool, None)[..1].to_vec();
    let own = SocketPlace::candidates_with(&path, &pool, None);
    let why = OwnerClient::connect_at(&foreign, &path, &pool, NEVER).expect_err("a stranger").to_string();
    assert!(why.contains("user 65534's"), "{why}");
    let mut client = OwnerClient::connect_at(&[foreign, own].concat(), &path, &pool, NEVER).expect("the owner");
    assert_eq!(ask(&mut client, json!({"do": "count", "n": 1})).expect("call"), 1);
    stranger.kill().expect("kill");
    stranger.wait().expect("wait");
}

/// Waits for the processes of those who have gone, for as long as it may.
struct Waiting(Mutex<Sender<u32>>);

impl Handler for Waiting {
    fn call(&self, _: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        Ok(ServiceReply::default())
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        let _ = self.0.lock().expect("seen").send(ended.caller.pid);
        assert!(!ended.ends_within(NEVER), "this process lives on");
    }
}

/// O4: neither a client that is still connected nor one that has gone and lives on is waited for.
#[test]
fn o4_an_owner_stops_at_once_beside_clients_that_live_on() {
    let folder = tempfile::tempdir().expect("folder");
    let pool = folder.path().join("pool");
    File::create(&pool).expect("pool");
    let (sender, gone) = channel();
    let lock = ours(claim(&pool).expect("claim"));
    let listening = ListeningSocket::start(&lock, Arc::new(Waiting(Mutex::new(sender)))).expect("listen");
    let (_idle, left) = (OwnerClient::connect(&pool).expect("connect"), OwnerClient::connect(&pool).expect("connect"));
    drop(left);
    gone.recv_timeout(NEVER).expect("the owner sees it go");
    let began = Instant::now();
    listening.stop().expect("stop");
    assert!(began.elapsed() < NEVER / 2, "it waited for a client: {:?}", began.elapsed());
}
