//! READ: if the disk lends large pieces, they are sent without a copy; others are read into the send buffer.
//!
//! A large structured reply is sent in pieces, each read before its head is sent. So a piece on the wire is always
//! whole, memory stays bounded (N3), and the client copies one piece while the next is read.

use ferrite_memory::{Error, Span};

use super::consts::{CHUNK_BYTES, chunk, command_flag};
use super::errno::Fault;
use super::outbox::Chunk;
use super::peer::{End, Peer};
use super::session::{Session, Trouble};
use super::wire::Request;

/// Longest piece that is read into the buffer of a reply that may be fragmented, in bytes.
const PIECE_BYTES: u64 = 128 << 10;
/// Most bytes before the data of a reply.
const HEAD_BYTES: usize = CHUNK_BYTES + 8;
/// Shortest piece that the server asks the disk to lend, in bytes.
const LENT_LEAST_BYTES: u64 = 32 << 10;
/// Shortest read that looks for holes, in bytes; for shorter reads the query costs more than the bytes.
const HOLES_FROM_BYTES: u64 = 64 << 10;
/// Shortest run of zeros that is sent as a hole, in bytes.
const HOLE_LEAST_BYTES: u64 = 16 << 10;

/// A range of data or of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    span: Span,
    hole: bool,
}

/// A part of a request that is still unanswered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub cookie: u64,
    pub rest: Span,
    /// True if no part follows.
    pub is_last: bool,
}

impl Session {
    /// Gathers the reply to a checked READ, or sends it.
    pub fn read(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let Request { cookie, span, .. } = *request;
        if self.structured && span.len == 0 {
            peer.outbox.chunk(cookie, Chunk { done: true, kind: chunk::NONE, len: 0 });
            return Ok(());
        }
        if !self.structured || request.has(command_flag::DF) {
            let part = Part { cookie, rest: span, is_last: true };
            return match self.send_lent(part, true, peer)? {
                0 if peer.outbox.has_room(HEAD_BYTES + span.len as usize) => self.gather(part, span, peer),
                0 => self.stream(part, peer),
                _ => Ok(()),
            };
        }
        let runs = if span.len < HOLES_FROM_BYTES { vec![Piece { span, hole: false }] } else { self.runs(span) };
        for (i, run) in runs.iter().enumerate() {
            let mut part = Part { cookie, rest: run.span, is_last: i + 1 == runs.len() };
            while part.rest.len > 0 {
                let len = if run.hole { self.gather_hole(part, peer) } else { self.read_start(part, peer)? };
                part.rest = Span::new(part.rest.at + len, part.rest.len - len);
                peer.flush_if_full()?;
            }
        }
        Ok(())
    }

    /// Sends a reply that is too long to be gathered whole. All of it is read before its head is sent, because no error
    /// can follow the head. It is read again piece by piece during the send (N1, N15).
    fn stream(&self, part: Part, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        for piece in pieces(part.rest) {
            let before = peer.outbox.held().len();
            self.fill(piece, before, peer)?;
            peer.outbox.truncate(before);
        }
        self.gather_head(part, part.rest, peer);
        for piece in pieces(part.rest) {
            let before = peer.outbox.held().len();
            self.fill(piece, before, peer).map_err(|_| Trouble::End(End::Torn))?;
            peer.flush_if_full()?;
        }
        Ok(())
    }

    /// Answers the start of a part; returns the number of bytes.
    fn read_start(&self, part: Part, peer: &mut Peer<'_>) -> Result<u64, Trouble> {
        let sent = self.send_lent(part, false, peer)?;
        if sent > 0 {
            return Ok(sent);
        }
        let len = part.rest.len.min(PIECE_BYTES);
        self.gather(part, Span::new(part.rest.at, len), peer).map(|()| len)
    }

    /// Sends the start of a part without a copy, if the disk lends it; all of it if it is `whole`. Returns the number
    /// of bytes. No pin is held here, and lent data does not change however slowly the client receives (N14).
    fn send_lent(&self, part: Part, whole: bool, peer: &mut Peer<'_>) -> Result<u64, Trouble> {
        let least_bytes = if whole { part.rest.len.max(LENT_LEAST_BYTES) } else { LENT_LEAST_BYTES };
        if part.rest.len < least_bytes {
            return Ok(0);
        }
        let Some(lending) = peer.lending() else { return Ok(0) };
        let asked = Span::new(part.rest.at, part.rest.len.min(lending.room_bytes()));
        let loan = lending.begin();
        let lent = if asked.len < least_bytes { None } else { self.disk.lend(asked, least_bytes, loan.borrower()) };
        let Some(lent) = lent else { return Ok(0) };
        let filled_bytes = lending.fill(&lent).unwrap_or(0);
        if filled_bytes == 0 || (whole && filled_bytes < part.rest.len) {
            peer.borrow_no_more();
            return Ok(0);
        }
        self.gather_head(part, Span::new(part.rest.at, filled_bytes), peer);
        peer.send_lent()?;
        Ok(filled_bytes)
    }

    /// Gathers the head of a piece of data of a part.
    pub fn gather_head(&self, part: Part, piece: Span, peer: &mut Peer<'_>) {
        if !self.structured {
            return peer.outbox.simple_reply(part.cookie, 0);
        }
        let done = part.is_last && piece.len == part.rest.len;
        peer.outbox.chunk(part.cookie, Chunk { done, kind: chunk::OFFSET_DATA, len: 8 + piece.len as usize });
        peer.outbox.put(&piece.at.to_be_bytes());
    }

    fn gather_hole(&self, part: Part, peer: &mut Peer<'_>) -> u64 {
        let hole = part.rest;
        peer.outbox.chunk(part.cookie, Chunk { done: part.is_last, kind: chunk::OFFSET_HOLE, len: 12 });
        peer.outbox.put(&hole.at.to_be_bytes());
        peer.outbox.put(&(hole.len as u32).to_be_bytes());
        hole.len
    }

    fn gather(&self, part: Part, piece: Span, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let before = peer.outbox.held().len();
        self.gather_head(part, piece, peer);
        self.fill(piece, before, peer)
    }

    /// Reads behind the head that starts at `before`; if the read fails, the head is removed (N1).
    fn fill(&self, span: Span, before: usize, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        self.disk.read(span.at, peer.outbox.extend(span.len as usize)).map_err(|error| {
            peer.outbox.truncate(before);
            Trouble::Fault(read_fault(span, error))
        })
    }

    /// Cuts `span` at its holes. A disk that cannot report its extents counts as having no holes.
    fn runs(&self, span: Span) -> Vec<Piece> {
        let mut rest = span;
        let mut runs = Vec::new();
        for run in self.disk.extents(span).unwrap_or_default() {
            let len = run.len.min(rest.len);
            let hole = run.zero && len >= HOLE_LEAST_BYTES;
            append(&mut runs, Piece { span: Span::new(rest.at, len), hole });
            rest = Span::new(rest.at + len, rest.len - len);
        }
        append(&mut runs, Piece { span: rest, hole: false });
        runs
    }
}

/// Returns the fault of a failed read of `span`.
pub(super) fn read_fault(span: Span, error: Error) -> Fault {
    let at = match error {
        Error::Damaged(at) if span.at <= at && at - span.at < span.len => at,
        _ => span.at,
    };
    Fault { at: Some(at), ..error.into() }
}

/// Cuts `span` so that each piece fits the buffer of an idle connection.
fn pieces(span: Span) -> impl Iterator<Item = Span> {
    let starts = (0..span.len).step_by(PIECE_BYTES as usize);
    starts.map(move |from| Span::new(span.at + from, PIECE_BYTES.min(span.len - from)))
}

/// Appends `piece`, joined to the last one if both have the same kind.
fn append(runs: &mut Vec<Piece>, piece: Piece) {
    match runs.last_mut() {
        Some(last) if last.hole == piece.hole => last.span.len += piece.span.len,
        _ if piece.span.len == 0 => {}
        _ => runs.push(piece),
    }
}

#[cfg(test)]
mod tests;
