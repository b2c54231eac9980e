//! The page of `up --metrics`, and the commands that print the same numbers.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;

use crate::kill::number;
use crate::programs::client;
use crate::server::{Server, folder, json, ok};

/// Returns the head and the body of the answer of the server at `host` to `request`, such as `GET / HTTP/1.1`.
fn answer(host: &str, request: &str) -> io::Result<(String, String)> {
    let mut stream = TcpStream::connect(host)?;
    stream.write_all(format!("{request}\r\nHost: test\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok((head.into(), body.into()))
}

/// Returns the metrics that the page at `address` has.
fn scraped(address: &str) -> String {
    let host = address.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).expect("a page");
    let (head, page) = answer(host, "GET /metrics HTTP/1.1").expect("answered");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    page
}

/// A Prometheus server that scrapes a page four times a second, killed when dropped.
struct Prometheus {
    child: Child,
    /// Its address.
    host: String,
}

impl Prometheus {
    /// Starts it in `folder`; it scrapes the host and port `target`.
    fn start(folder: &Path, target: &str) -> Self {
        let config =
            "global:\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\nscrape_configs:\n  - job_name: ferrite\n";
        let config = format!("{config}    static_configs:\n      - targets: [{target:?}]\n");
        let config_path = folder.join("prometheus.yml");
        fs::write(&config_path, config).expect("written");
        // Free until another program takes it, which would end the test.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let mut command = client("prometheus");
        command.arg(format!("--config.file={}", config_path.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("series").display()));
        command.arg(format!("--web.listen-address={free}"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("prometheus starts");
        Self { child, host: free.to_string() }
    }

    /// Returns the values of the series that `query` selects, as soon as there are any.
    fn answer(&self, query: &str) -> Vec<f64> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric();
        let escaped = |byte: u8| if is_plain(&byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
        let query: String = query.bytes().map(escaped).collect();
        loop {
            // The request has version 1.0, so Prometheus answers in one piece. At first Prometheus has no sample.
            let request = format!("GET /api/v1/query?query={query} HTTP/1.0");
            let (_, answer) = answer(&self.host, &request).unwrap_or_default();
            let series: Value = serde_json::from_str(&answer).unwrap_or_default();
            let series = series["data"]["result"].as_array().cloned().unwrap_or_default();
            if !series.is_empty() {
                let value = |series: &Value| series["value"][1].as_str().and_then(|value| value.parse().ok());
                return series.iter().map(|series| value(series).expect("a number")).collect();
            }
            assert!(Instant::now() < deadline, "{query} selects nothing: {answer}");
            thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Prometheus computes the rates and latencies of a disk whose server is killed and starts again. It scrapes for some
/// seconds, and in `cargo xtask soak` for a minute.
#[test]
fn prometheus_answers_rates_of_a_disk_whose_server_was_killed() {
    let folder = folder(true);
    let (pool, bytes) = (folder.path().join("pool").display().to_string(), folder.path().join("bytes"));
    fs::write(&bytes, [1; 1 << 20]).expect("written");
    let (bytes, disk) = (bytes.display().to_string(), format!("{pool}:d"));
    let up = |port: &str| {
        let named = ["up", "--pool", &pool, "--size", "64M", "--disk", "d=8M", "--no-attach", "--no-mount"];
        Server::start_as_program(&[&named[..], &["--metrics", port]].concat())
    };
    let server = up("0");
    let address = server.told()["metrics"].as_str().expect("an address").to_owned();
    let host = address.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).expect("a page");
    let prometheus = Prometheus::start(folder.path(), host);
    let write_for = |limit: Duration| {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            ok(&["disk", "copy", &bytes, &disk]);
            thread::sleep(Duration::from_millis(100));
        }
    };
    let seconds = 6 * number("FERRITE_ROUNDS", 5) / 5;
    write_for(Duration::from_secs(seconds) / 2);
    assert_eq!(prometheus.answer("up"), [1.0]);
    server.kill();
    let server = up(host.rsplit_once(':').expect("a port").1);
    write_for(Duration::from_secs(seconds) / 2);
    let written = prometheus.answer(r#"rate(ferrite_disk_bytes_total{disk="d",op="write"}[1m])"#);
    assert!(written.len() == 1 && written[0] > 1000.0 && written[0] < 1e9, "bytes a second: {written:?}");
    let slow = r#"histogram_quantile(0.99, rate(ferrite_disk_request_seconds_bucket{op="write"}[1m]))"#;
    let slow = prometheus.answer(slow);
    assert!(slow.len() == 1 && slow[0] > 1e-7 && slow[0] < 10.0, "seconds of the 99th percentile: {slow:?}");
    assert_eq!(prometheus.answer("ferrite_pool_recovered"), [1.0]);
    server.interrupt();
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
    let is_write = |row: &&Value| row["name"] == "d" && row["operation"] == "write";
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
