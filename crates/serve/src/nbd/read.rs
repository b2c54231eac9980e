//! READ: straight from the disk into the send buffer.
//!
//! A large structured reply is sent in pieces, each read before its head is sent, so that a piece on the wire is
//! always whole, memory stays bounded (N3), and the client copies one piece while the next is read.

use ferrite_medium::{Error, Span};

use super::consts::{chunk, command_flag};
use super::errno::Fault;
use super::outbox::Chunk;
use super::peer::Peer;
use super::session::{Session, Trouble};
use super::wire::Request;

/// Longest piece of a reply that may be fragmented, in bytes.
const PIECE_BYTES: u64 = 128 << 10;
/// Reads at least this long look for holes; for shorter ones the question costs more than the bytes.
const HOLES_FROM_BYTES: u64 = 64 << 10;
/// Shorter runs of zeros are sent as they are.
const HOLE_LEAST_BYTES: u64 = 16 << 10;

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    span: Span,
    hole: bool,
}

impl Session {
    /// Gathers the reply to a checked READ.
    pub fn read(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let Request { cookie, span, .. } = *request;
        if !self.structured {
            return self.read_simple(cookie, span, peer);
        }
        if span.len == 0 {
            peer.outbox.chunk(cookie, Chunk { done: true, kind: chunk::NONE, len: 0 });
            return Ok(());
        }
        if span.len < HOLES_FROM_BYTES || request.has(command_flag::DF) {
            return self.read_piece(cookie, Piece { span, hole: false }, true, peer);
        }
        let mut pieces = self.pieces(span).into_iter().peekable();
        while let Some(piece) = pieces.next() {
            self.read_piece(cookie, piece, pieces.peek().is_none(), peer)?;
            peer.flush_if_full()?;
        }
        Ok(())
    }

    fn read_simple(&self, cookie: u64, span: Span, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let before = peer.outbox.held().len();
        peer.outbox.simple_reply(cookie, 0);
        self.fill(span, before, peer)
    }

    fn read_piece(&self, cookie: u64, piece: Piece, done: bool, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let span = piece.span;
        let before = peer.outbox.held().len();
        if piece.hole {
            peer.outbox.chunk(cookie, Chunk { done, kind: chunk::OFFSET_HOLE, len: 12 });
            peer.outbox.put(&span.at.to_be_bytes());
            peer.outbox.put(&(span.len as u32).to_be_bytes());
            return Ok(());
        }
        peer.outbox.chunk(cookie, Chunk { done, kind: chunk::OFFSET_DATA, len: 8 + span.len as usize });
        peer.outbox.put(&span.at.to_be_bytes());
        self.fill(span, before, peer)
    }

    /// Reads behind the head that starts at `before`; where that fails the head is taken back (N1).
    fn fill(&self, span: Span, before: usize, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        self.disk.read(span.at, peer.outbox.extend(span.len as usize)).map_err(|error| {
            peer.outbox.truncate(before);
            let at = match error {
                Error::Damaged(at) if span.at <= at && at - span.at < span.len => at,
                _ => span.at,
            };
            Trouble::Fault(Fault { at: Some(at), ..error.into() })
        })
    }

    /// Cuts `span` at its holes and to the size of a piece. A disk that cannot tell its extents has no holes.
    fn pieces(&self, span: Span) -> Vec<Piece> {
        let mut rest = span;
        let mut pieces = Vec::new();
        for run in self.disk.extents(span).unwrap_or_default() {
            let len = run.len.min(rest.len);
            let hole = run.zero && len >= HOLE_LEAST_BYTES;
            append(&mut pieces, Piece { span: Span::new(rest.at, len), hole });
            rest = Span::new(rest.at + len, rest.len - len);
        }
        append(&mut pieces, Piece { span: rest, hole: false });
        pieces
    }
}

/// Appends `piece`, joined to the last one or cut as its size demands.
fn append(pieces: &mut Vec<Piece>, piece: Piece) {
    let most = if piece.hole { u64::MAX } else { PIECE_BYTES };
    let mut rest = piece.span;
    while rest.len > 0 {
        let room = match pieces.last_mut() {
            Some(last) if last.hole == piece.hole && last.span.len < most => {
                let more = rest.len.min(most - last.span.len);
                last.span.len += more;
                more
            }
            _ => {
                let len = rest.len.min(most);
                pieces.push(Piece { span: Span::new(rest.at, len), hole: piece.hole });
                len
            }
        };
        rest = Span::new(rest.at + room, rest.len - room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data is cut to pieces, neighbours are joined, holes stay whole; together they are the span, in order.
    #[test]
    fn pieces_cover_the_span_once() {
        let mut pieces = Vec::new();
        let mut at = 0;
        for (len, hole) in [(100 << 10, false), (200 << 10, false), (1 << 20, true), (0, false), (4 << 10, false)] {
            append(&mut pieces, Piece { span: Span::new(at, len), hole });
            at += len;
        }
        let lens: Vec<_> = pieces.iter().map(|piece| (piece.span.len >> 10, piece.hole)).collect();
        assert_eq!(lens, [(128, false), (128, false), (44, false), (1024, true), (4, false)]);
        assert!(pieces.windows(2).all(|pair| pair[0].span.end() == Some(pair[1].span.at)));
    }
}
