//! Bytes received and not yet used, in one flat buffer that large payloads are received into directly.

/// A rest this short is moved to the front, so that much is received at once and into warm memory.
const MOVED_FREELY_BYTES: usize = 8 << 10;
/// From this size on a request is received by itself.
const LARGE_BYTES: usize = 64 << 10;

/// The receive buffer of a connection (N3): `start .. end` of `bytes` is what was received and not yet used.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    idle_bytes: usize,
}

impl Inbox {
    /// A buffer that holds `idle_bytes` when nothing large is under way.
    pub fn new(idle_bytes: usize) -> Self {
        Self { bytes: vec![0; idle_bytes], start: 0, end: 0, idle_bytes }
    }

    /// What was received and not yet used.
    pub fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Marks the first `len` held bytes as used.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.end - self.start, "consumed more than was received");
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Space to receive into, such that `needed_bytes` in all, more than are held, end up in one piece. For a large
    /// payload it is just what is missing of it: the request behind it then starts a fresh buffer and is never moved.
    pub fn space(&mut self, needed_bytes: usize) -> &mut [u8] {
        let held_bytes = self.end - self.start;
        assert!(needed_bytes > held_bytes, "received what was there already");
        if self.start > 0 && (held_bytes <= MOVED_FREELY_BYTES || self.start + needed_bytes > self.bytes.len()) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held_bytes);
        }
        if needed_bytes > self.bytes.len() {
            self.grow(needed_bytes);
        }
        let until = if needed_bytes > LARGE_BYTES { self.start + needed_bytes } else { self.bytes.len() };
        &mut self.bytes[self.end..until]
    }

    /// Says that `len` bytes were received into the space.
    pub fn received(&mut self, len: usize) {
        assert!(len <= self.bytes.len() - self.end, "received more than there was space for");
        self.end += len;
    }

    fn grow(&mut self, needed_bytes: usize) {
        let mut larger = vec![0; needed_bytes];
        larger[..self.end].copy_from_slice(&self.bytes[..self.end]);
        self.bytes = larger;
    }

    /// Whether it holds more memory than an idle connection should.
    pub fn is_enlarged(&self) -> bool {
        self.bytes.len() > self.idle_bytes
    }

    /// Gives back what a large request took, where what is held allows it.
    pub fn shrink(&mut self) {
        if self.is_enlarged() && self.end - self.start <= self.idle_bytes {
            let mut smaller = vec![0; self.idle_bytes];
            smaller[..self.end - self.start].copy_from_slice(self.held());
            (self.bytes, self.end, self.start) = (smaller, self.end - self.start, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(inbox: &mut Inbox, from: &[u8], needed_bytes: usize) {
        inbox.space(needed_bytes)[..from.len()].copy_from_slice(from);
        inbox.received(from.len());
    }

    /// N3: a large payload grows the buffer to what it needs, and the growth is given back; no byte is lost.
    #[test]
    fn grows_for_a_payload_and_shrinks_back() {
        let mut inbox = Inbox::new(8);
        receive(&mut inbox, b"abcdefgh", 8);
        inbox.consume(5);
        receive(&mut inbox, b"ijklm", 20);
        assert_eq!(inbox.held(), b"fghijklm");
        assert!(inbox.is_enlarged());
        inbox.shrink();
        assert_eq!((inbox.held(), inbox.is_enlarged()), (&b"fghijklm"[..], false));
    }

    /// A full buffer with its front used makes room by moving the rest down.
    #[test]
    fn moves_the_rest_down() {
        let mut inbox = Inbox::new(4);
        receive(&mut inbox, b"abcd", 1);
        inbox.consume(3);
        receive(&mut inbox, b"efg", 4);
        assert_eq!(inbox.held(), b"defg");
    }
}
