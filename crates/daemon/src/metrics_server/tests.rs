//! Scrapers and hostile clients.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::*;

fn server() -> MetricsServer {
    let source = || Some(vec![Metric::gauge("pool_size_bytes", "Bytes").of(7)]);
    MetricsServer::start(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into(), Arc::new(source)).expect("it serves")
}

/// Sends `request` and returns the answer.
fn ask(server: &MetricsServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("connected");
    stream.write_all(request).expect("sent");
    let mut answer = Vec::new();
    // An answer to a request that was not read to its end may end with a reset.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

#[test]
fn the_page_is_served_and_all_else_is_refused() {
    let server = server();
    let page = ask(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    assert!(page.ends_with("\nferrite_pool_size_bytes 7\n"), "{page}");
    assert!(ask(&server, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n").contains("200 OK"));
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics/../etc HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
        (b"GET /metrics HTTP/9\r\n\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00 \xff\xff\r\n\r\n", "400"),
    ] {
        let answer = ask(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
}

#[test]
fn a_request_without_end_is_refused() {
    let server = server();
    let answer = ask(&server, &[b'a'; REQUEST_MAX_BYTES + 1]);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[test]
fn an_answered_client_is_disconnected_before_the_next_one_comes() {
    let server = server();
    let mut stream = TcpStream::connect(server.address()).expect("connected");
    stream.set_read_timeout(Some(2 * CONNECTION_TIME)).expect("set");
    stream.shutdown(Shutdown::Write).expect("shut down");
    assert_eq!(stream.read(&mut [0; 1]).expect("the end of the connection"), 0);
}

#[test]
fn silent_clients_keep_no_other_client_and_no_end_waiting() {
    let server = server();
    let silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX - 1).map(|_| TcpStream::connect(server.address()).expect("connected")).collect();
    assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < CONNECTION_TIME, "the end waited for silent clients");
    drop(silent);
}

#[test]
fn clients_beyond_the_limit_are_disconnected_and_the_next_is_served() {
    let server = server();
    let mut silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(server.address()).expect("connected")).collect();
    assert_eq!(TcpStream::connect(server.address()).and_then(|mut beyond| beyond.read(&mut [0])).unwrap_or(0), 0);
    silent.clear();
    let is_served = || ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK");
    assert!((0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        is_served()
    }));
}
