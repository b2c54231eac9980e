//! The requests that the server of metrics understands.

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The metrics.
    Metrics,
    /// A refusal with this HTTP status.
    Refused(&'static str),
}

/// The end of a request without content.
const END: &[u8] = b"\r\n\r\n";

/// Returns the answer to `request`; `None` while the end of its headers has not come. The headers do not matter.
pub(super) fn understood(request: &[u8]) -> Option<Answer> {
    if !request.windows(END.len()).any(|end| end == END) {
        return None;
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    Some(match words[..] {
        [b"GET", path, b"HTTP/1.1" | b"HTTP/1.0"] => match path.split(|byte| *byte == b'?').next() {
            Some(b"/metrics") => Answer::Metrics,
            _ => Answer::Refused("404 Not Found"),
        },
        [_, _, b"HTTP/1.1" | b"HTTP/1.0"] => Answer::Refused("405 Method Not Allowed"),
        _ => Answer::Refused("400 Bad Request"),
    })
}
