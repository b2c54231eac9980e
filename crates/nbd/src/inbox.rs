//! Bytes received and not yet used, in one flat buffer that receives large payloads directly.

/// A remainder this short is moved to the front, so that one receive gets many bytes into warm memory. In bytes.
const MOVED_FREELY_BYTES: usize = 8 << 10;
/// A request of this size or more, in bytes, gets its own receive.
const LARGE_BYTES: usize = 64 << 10;

/// The receive buffer of a connection (N3): `start .. end` of `bytes` is received and not yet used.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    idle_bytes: usize,
}

impl Inbox {
    /// Creates a buffer that holds `idle_bytes` when no large request is under way.
    pub fn new(idle_bytes: usize) -> Self {
        Self { bytes: vec![0; idle_bytes], start: 0, end: 0, idle_bytes }
    }

    /// Returns the bytes that are received and not yet used.
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

    /// Returns space for a receive, such that `needed_bytes` in total, more than are held, are contiguous at the end.
    /// For a large payload the space is exactly its missing part: the next request then starts a fresh buffer and is
    /// never moved.
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

    /// Records that `len` bytes were received into the space.
    pub fn received(&mut self, len: usize) {
        assert!(len <= self.bytes.len() - self.end, "received more than there was space for");
        self.end += len;
    }

    fn grow(&mut self, needed_bytes: usize) {
        let mut larger = vec![0; needed_bytes];
        larger[..self.end].copy_from_slice(&self.bytes[..self.end]);
        self.bytes = larger;
    }

    /// Returns true if the buffer holds more memory than an idle connection should.
    pub fn is_enlarged(&self) -> bool {
        self.bytes.len() > self.idle_bytes
    }

    /// Frees the memory of a large request, if the held bytes allow it.
    pub fn shrink(&mut self) {
        if self.is_enlarged() && self.end - self.start <= self.idle_bytes {
            let mut smaller = vec![0; self.idle_bytes];
            smaller[..self.end - self.start].copy_from_slice(self.held());
            (self.bytes, self.end, self.start) = (smaller, self.end - self.start, 0);
        }
    }
}

#[cfg(test)]
mod tests;
