//! The requests of a connection that its disk has not ended, their buffers, and the bounds of both (N18).
//!
//! ```text
//! request of the client   slot: Pending, with the number of pieces that have not ended
//!    |  cut into pieces
//! request to the disk     token = slot << 32 | offset of the piece within the request
//! ```

use ferrite_memory::{Span, planted};

use super::budget::Share;
use super::errno::Fault;
use super::wire::Request;

/// Requests to the disk begin and end at multiples of this, or where the client's request does, in bytes.
const PIECE_BYTES: u64 = 256 << 10;
/// Most requests to the disk in flight.
const COUNT_MAX: usize = 128;
/// Most bytes of their buffers.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of buffers that are no part of the budget: a piece always fits if nothing is in flight.
const OWN_BYTES: usize = 512 << 10;
/// Most bytes of buffers that are kept for the next requests.
const SPARE_MAX_BYTES: usize = 512 << 10;

/// A request of the client that is not answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub request: Request,
    /// The first failure of a piece.
    pub fault: Option<Fault>,
    /// Number of pieces that have not ended.
    left: usize,
}

impl Pending {
    /// Returns true if all pieces have ended.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// The requests in flight of a connection.
#[derive(Debug)]
pub(super) struct InFlight {
    slots: Vec<Option<Pending>>,
    free_slots: Vec<usize>,
    /// Number of requests to the disk.
    count: usize,
    /// Bytes of their buffers.
    bytes: usize,
    /// The share of the budget for buffers beyond [`OWN_BYTES`].
    share: Share,
    spares: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl InFlight {
    /// Creates the state of a connection without requests. `share` is an empty share of the server's budget.
    pub fn new(share: Share) -> Self {
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            count: 0,
            bytes: 0,
            share,
            spares: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// Returns true if the disk has ended all requests.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns true if a request with a buffer of `len` bytes may be sent to the disk. Never waits (N4).
    pub fn has_room(&mut self, len: usize) -> bool {
        if planted!("nbd: requests in flight have no bound") {
            return true;
        }
        if planted!("nbd: one request in flight") {
            return self.is_empty();
        }
        let bytes = self.bytes + len;
        let fits = bytes <= OWN_BYTES || bytes <= BYTES_MAX && self.share.raise(bytes - OWN_BYTES);
        self.count < COUNT_MAX && fits
    }

    /// Adds a request of the client, of `pieces` pieces; returns its slot.
    pub fn add(&mut self, request: Request, pieces: usize) -> usize {
        let left = if planted!("nbd: a request is answered when its first piece ends") { 1 } else { pieces };
        let pending = Some(Pending { request, fault: None, left });
        match self.free_slots.pop() {
            Some(slot) => {
                self.slots[slot] = pending;
                slot
            }
            None => {
                self.slots.push(pending);
                self.slots.len() - 1
            }
        }
    }

    /// Removes the request of `slot`, which is done.
    pub fn remove(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.free_slots.push(slot);
    }

    /// Records that a piece with a buffer of `len` bytes is sent to the disk.
    pub fn start(&mut self, len: usize) {
        self.count += 1;
        self.bytes += len;
    }

    /// Records that the disk has ended a piece of the request of `slot`; its buffer had `len` bytes.
    pub fn end(&mut self, slot: usize, len: usize) -> Option<&mut Pending> {
        self.count -= 1;
        self.bytes -= len;
        let pending = self.slots.get_mut(slot)?.as_mut()?;
        pending.left = pending.left.saturating_sub(1);
        Some(pending)
    }

    /// Returns a buffer of `len` bytes, whose content is zeros or earlier bytes of this connection.
    pub fn buffer(&mut self, len: usize) -> Vec<u8> {
        let Some(mut buffer) = self.spares.pop() else { return vec![0; len] };
        self.spare_bytes -= buffer.capacity();
        if buffer.capacity() < len {
            return vec![0; len];
        }
        buffer.resize(len, 0);
        buffer
    }

    /// Keeps `buffer` for a later request, if few bytes are kept.
    pub fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.spare_bytes + buffer.capacity() <= SPARE_MAX_BYTES {
            self.spare_bytes += buffer.capacity();
            self.spares.push(buffer);
        }
    }

    /// Returns the share of the budget, if nothing is in flight.
    pub fn release_share(&mut self) {
        if self.is_empty() {
            self.share.release();
        }
    }
}

/// Returns the first piece of `rest`.
pub(super) fn first_piece(rest: Span) -> Span {
    Span::new(rest.at, rest.len.min(PIECE_BYTES - rest.at % PIECE_BYTES))
}

/// Returns the number of pieces of `span`, which is not empty and fits the disk.
pub(super) fn count_pieces(span: Span) -> usize {
    ((span.at + span.len).div_ceil(PIECE_BYTES) - span.at / PIECE_BYTES) as usize
}

/// Returns the token of a piece that lies `offset` bytes behind the start of the request of `slot`.
pub(super) fn token(slot: usize, offset: u64) -> u64 {
    (slot as u64) << 32 | offset
}

/// Returns the slot and the offset of a token.
pub(super) fn slot_and_offset(token: u64) -> (usize, u64) {
    ((token >> 32) as usize, token & u64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
