//! WRITE: a large one is written as it comes, piece by piece, out of a buffer that stays in the nearest caches, while the
//! client sends on. So it takes no more memory than a small one (N3).

use ferrite_disk::Access;
use ferrite_memory::Span;

use super::consts::{REQUEST_BYTES, command_flag};
use super::peer::Peer;
use super::session::{Session, Trouble};
use super::wire::Request;

/// The least that is written at once of a large request, in bytes: to write has a price of its own.
pub(super) const PIECE_LEAST_BYTES: u64 = 32 << 10;
/// Pieces end at multiples of this, so that no sector and no block is cut, in bytes.
const BLOCK_BYTES: u64 = 4 << 10;

impl Session {
    /// Takes a large WRITE off the stream, whose head is held, and executes it (N2). The disk has what was written
    /// before it failed, or before its client was gone, as of any write that is not answered.
    pub fn write_by_pieces(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        peer.inbox.consume(REQUEST_BYTES);
        let mut rest = request.span;
        let mut done = self.check(request);
        while rest.len > 0 && done.is_ok() {
            peer.need(rest.len.min(PIECE_LEAST_BYTES) as usize)?;
            let piece = whole_blocks(rest, peer.inbox.held().len() as u64);
            let written = self.disk.write(piece.at, &peer.inbox.held()[..piece.len as usize], Access::Cached);
            peer.inbox.consume(piece.len as usize);
            rest = Span::new(piece.at + piece.len, rest.len - piece.len);
            done = written.map_err(Into::into);
        }
        peer.discard(rest.len as usize)?;
        done?;
        if request.has(command_flag::FUA) {
            // A piece that is made durable makes none of the others so (D3).
            self.disk.flush()?;
        }
        peer.outbox.simple_reply(request.cookie, 0);
        Ok(())
    }
}

/// As much of `rest` as is held, up to the end of a block: what is written of one in part is written twice.
fn whole_blocks(rest: Span, held_bytes: u64) -> Span {
    if held_bytes >= rest.len {
        return rest;
    }
    let end = rest.at + held_bytes;
    Span::new(rest.at, held_bytes - end % BLOCK_BYTES)
}
