//! Replies gathered until they are sent.

use std::sync::Arc;

use super::budget::{Budget, Share};
use super::consts::{CHUNK_BYTES, OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};
use super::errno::Fault;

/// Longest text sent with an error, in bytes.
const TEXT_MAX_BYTES: usize = 1024;
/// Longest reply that is gathered whole, in bytes: longer ones are read twice.
pub(super) const WHOLE_MAX_BYTES: usize = 4 << 20;

/// The send buffer of a connection (N3). Its memory is initialised once and reused, because zeroing it for every read
/// would cost as much as the read.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    len: usize,
    idle_bytes: usize,
    /// The share of the budget for memory beyond the idle size.
    share: Share,
}

impl Outbox {
    /// Creates a buffer that holds `idle_bytes` when no large reply is under way, and acquires more from `budget`.
    pub fn new(idle_bytes: usize, budget: Arc<Budget>) -> Self {
        Self { bytes: vec![0; idle_bytes], len: 0, idle_bytes, share: Share::none(budget) }
    }

    /// Returns an empty share of the same budget.
    pub fn empty_share(&self) -> Share {
        self.share.sibling()
    }

    /// Returns true if a reply of `len` bytes may be gathered whole (N15).
    pub fn has_room(&mut self, len: usize) -> bool {
        self.len + len <= self.bytes.len() || len <= WHOLE_MAX_BYTES && self.share.raise(self.len + len)
    }

    /// Returns the bytes to send.
    pub fn held(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Removes everything from `len` on: bytes that were sent, or a reply that failed.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Adds `len` bytes, which the caller fills; until then they hold older content.
    pub fn extend(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if end > self.bytes.len() {
            let mut larger = vec![0; end.next_multiple_of(self.idle_bytes)];
            larger[..self.len].copy_from_slice(self.held());
            self.bytes = larger;
        }
        let start = std::mem::replace(&mut self.len, end);
        &mut self.bytes[start..end]
    }

    /// Returns true if the buffer holds more memory than an idle connection should.
    pub fn is_enlarged(&self) -> bool {
        self.bytes.len() > self.idle_bytes
    }

    /// Frees the memory of a large reply, if no bytes wait to be sent.
    pub fn shrink(&mut self) {
        if self.is_enlarged() && self.len == 0 {
            self.bytes = vec![0; self.idle_bytes];
            self.share.release();
        }
    }

    /// Appends `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends the reply `kind` to `option`.
    pub fn option_reply(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.put(&OPTION_REPLY_MAGIC.to_be_bytes());
        self.put(&option.to_be_bytes());
        self.put(&kind.to_be_bytes());
        self.put(&(data.len() as u32).to_be_bytes());
        self.put(data);
    }

    /// Appends the head of a simple reply.
    pub fn simple_reply(&mut self, cookie: u64, errno: u32) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        head[4..8].copy_from_slice(&errno.to_be_bytes());
        head[8..].copy_from_slice(&cookie.to_be_bytes());
        self.put(&head);
    }

    /// Appends the head of a chunk.
    pub fn chunk(&mut self, cookie: u64, head: Chunk) {
        let mut bytes = [0; CHUNK_BYTES];
        bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&if head.done { chunk::DONE } else { 0 }.to_be_bytes());
        bytes[6..8].copy_from_slice(&head.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&(head.len as u32).to_be_bytes());
        self.put(&bytes);
    }

    /// Appends an error chunk, which ends the reply.
    pub fn error_chunk(&mut self, cookie: u64, fault: &Fault) {
        let text = shorten(&fault.text);
        let kind = if fault.at.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
        let len = 6 + text.len() + if fault.at.is_some() { 8 } else { 0 };
        self.chunk(cookie, Chunk { done: true, kind, len });
        self.put(&fault.errno.to_be_bytes());
        self.put(&(text.len() as u16).to_be_bytes());
        self.put(text.as_bytes());
        if let Some(at) = fault.at {
            self.put(&at.to_be_bytes());
        }
    }
}

/// The content of a chunk's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// True for the last chunk of its reply.
    pub done: bool,
    /// The type, a constant of [`chunk`].
    pub kind: u16,
    /// Length of the payload in bytes.
    pub len: usize,
}

fn shorten(text: &str) -> &str {
    let mut end = text.len().min(TEXT_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
