//! Streams: requests that continue each other.

/// The number of streams that are followed.
const STREAMS: usize = 128;

#[derive(Clone, Copy, Default)]
struct RequestStream {
    next_at: u64,
    bytes: u64,
    used: u64,
}

/// The streams of one client.
pub(crate) struct RequestStreams {
    streams: Vec<RequestStream>,
    requests: u64,
}

impl Default for RequestStreams {
    fn default() -> Self {
        Self { streams: vec![RequestStream::default(); STREAMS], requests: 0 }
    }
}

impl RequestStreams {
    /// Notes a request. Returns the bytes of its stream, with its own.
    pub fn note(&mut self, at: u64, len: u64) -> u64 {
        self.requests += 1;
        let used = self.requests;
        let is_next = |stream: &RequestStream| stream.used > 0 && stream.next_at == at;
        let index = self.streams.iter().position(is_next).unwrap_or_else(|| {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.used);
            let (index, _) = oldest.expect("there are streams");
            self.streams[index] = RequestStream::default();
            index
        });
        let stream = &mut self.streams[index];
        *stream = RequestStream { next_at: at + len, bytes: stream.bytes + len, used };
        stream.bytes
    }
}

#[cfg(test)]
mod tests;
