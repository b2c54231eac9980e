//! The page of `up --metrics`, and the commands that print the same numbers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::programs::client;
use crate::server::{Server, folder, json, ok};

/// Returns the metrics that the page at `address` has.
fn scraped(address: &str) -> String {
    let host = address.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).expect("a page");
    let mut stream = TcpStream::connect(host).expect("connected");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, metrics) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    metrics.into()
}

/// Prometheus reads the page, and finds nothing to advise against.
#[test]
fn prometheus_understands_the_page() {
    let folder = folder(true);
    let (pool, bytes) = (folder.path().join("pool").display().to_string(), folder.path().join("bytes"));
    let up = ["up", "--pool", &pool, "--size", "64M", "--disk", "d=8M", "--no-attach", "--no-mount", "--metrics", "0"];
    let server = Server::start_as_program(&up);
    fs::write(&bytes, [1; 1 << 20]).expect("written");
    ok(&["disk", "copy", &bytes.display().to_string(), &format!("{pool}:d")]);
    let page = scraped(server.told()["metrics"].as_str().expect("an address"));
    let written = page.lines().find_map(|line| line.strip_prefix("ferrite_disk_bytes_total{disk=\"d\",op=\"write\"} "));
    assert_eq!(written, Some("1048576"), "{page}");
    let rows = json(&["stat", &pool]);
    let is_write = |row: &&serde_json::Value| row["name"] == "d" && row["operation"] == "write";
    let row = rows["requests"].as_array().expect("rows").iter().find(is_write).expect("the writes");
    assert!(row["bytes"] == 1_048_576 && row["latency"]["p999_ns"].as_u64() > Some(0), "{row}");

    let mut tool = client("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let tool = tool.as_mut().expect("promtool starts");
    tool.stdin.take().expect("piped").write_all(page.as_bytes()).expect("sent");
    let mut advice = String::new();
    tool.stderr.take().expect("piped").read_to_string(&mut advice).expect("text");
    assert!(tool.wait().expect("ended").success() && advice.is_empty(), "{advice}");
    server.interrupt();
}
