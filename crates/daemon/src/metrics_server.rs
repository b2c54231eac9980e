//! A server of one page, `GET /metrics`, over HTTP/1.1.
//!
//! Clients are strangers: a request has at most [`REQUEST_MAX_BYTES`], a connection lives [`CONNECTION_TIME`] at most,
//! and [`CONNECTIONS_MAX`] of them are answered at once. A client beyond that is disconnected. A connection has one
//! request.

mod http_request;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ferrite_owner::{METRICS_TYPE, Metric, metrics_text};

use http_request::{Answer, understood};

/// The longest request with all its headers, in bytes.
const REQUEST_MAX_BYTES: usize = 8 << 10;
/// The time of a connection, from its beginning to the last byte of its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// Connections that are answered at once.
const CONNECTIONS_MAX: usize = 8;
/// The pause after the system refused a connection, such as for want of descriptors.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// Returns the metrics of a moment; `None` when there is nothing to count any more.
pub type MetricsSource = dyn Fn() -> Option<Vec<Metric>> + Send + Sync;

/// The server, which stops when it is dropped.
pub struct MetricsServer {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// A connection that is answered.
struct Answering {
    stream: TcpStream,
    thread: JoinHandle<()>,
}

impl MetricsServer {
    /// Serves what `source` returns at `address`.
    ///
    /// # Errors
    /// The system's error, such as an address that is in use.
    pub fn start(address: SocketAddr, source: Arc<MetricsSource>) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address)?);
        let (address, accepting) = (listener.local_addr()?, Arc::clone(&listener));
        let thread = Builder::new().name("metrics".into()).spawn(move || accept_all(&accepting, &source))?;
        Ok(Self { listener, address, thread: Some(thread) })
    }

    /// Returns the address with the port that the system chose, if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // This ends the wait for a client; the listener then fails each accept with EINVAL.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers clients until the listener is shut down, and returns when the last connection has ended.
fn accept_all(listener: &TcpListener, source: &Arc<MetricsSource>) {
    let mut answering: Vec<Answering> = Vec::new();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => break,
            Err(_) => {
                std::thread::sleep(REFUSED_PAUSE);
                continue;
            }
        };
        answering.retain(|answered| !answered.thread.is_finished());
        if answering.len() < CONNECTIONS_MAX {
            // If there is no thread or descriptor, the client is disconnected.
            answering.extend(answer_aside(stream, Arc::clone(source)).ok());
        }
    }
    for Answering { stream, thread } in answering {
        let _ = stream.shutdown(Shutdown::Both);
        let _ = thread.join();
    }
}

fn answer_aside(stream: TcpStream, source: Arc<MetricsSource>) -> io::Result<Answering> {
    let kept = stream.try_clone()?;
    // A client that fails or is too slow is disconnected, which is all that it can be told.
    let answer = move || {
        let _ = answer(&stream, &*source);
        // `accept_all` keeps another descriptor of the connection until the next client comes.
        let _ = stream.shutdown(Shutdown::Both);
    };
    Ok(Answering { stream: kept, thread: Builder::new().name("metrics-client".into()).spawn(answer)? })
}

fn answer(stream: &TcpStream, source: &MetricsSource) -> io::Result<()> {
    let until = Instant::now() + CONNECTION_TIME;
    let (status, kind, body) = match read_request(stream, until)? {
        Answer::Metrics => match source() {
            Some(metrics) => ("200 OK", METRICS_TYPE, metrics_text(&metrics)),
            None => ("503 Service Unavailable", PLAIN, "the pool is being closed\n".into()),
        },
        Answer::Refused(status) => (status, PLAIN, "only GET /metrics is answered\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    write_all(stream, &[head.as_bytes(), body.as_bytes()].concat(), until)
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// Reads a request up to the end of its headers.
fn read_request(mut stream: &TcpStream, until: Instant) -> io::Result<Answer> {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    loop {
        stream.set_read_timeout(Some(left(until)?))?;
        let len = match stream.read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => return Err(why),
        };
        request.extend_from_slice(&part[..len]);
        if let Some(answer) = understood(&request) {
            return Ok(answer);
        }
        if request.len() > REQUEST_MAX_BYTES {
            return Ok(Answer::Refused("431 Request Header Fields Too Large"));
        }
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Returns the time until `until`, which is not zero.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests;
