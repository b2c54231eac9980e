//! WRITE: a large write reaches the disk piece by piece while it arrives, from a buffer that stays in the nearest
//! caches. The client continues to send, so a large write needs no more memory than a small one (N3).

use ferrite_disk::Access;
use ferrite_memory::Span;

use super::consts::{REQUEST_BYTES, command_flag};
use super::peer::Peer;
use super::session::{Session, Trouble};
use super::wire::Request;

/// Smallest piece of a large write, in bytes: each write has a fixed cost.
pub(super) const PIECE_LEAST_BYTES: u64 = 32 << 10;
/// Pieces end at multiples of this, so that no sector and no block is cut, in bytes.
const BLOCK_BYTES: u64 = 4 << 10;

impl Session {
    /// Receives a large WRITE, whose head is held, and executes it (N2). If the write fails or the client goes, the
    /// disk has the earlier pieces, as after any unanswered write.
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
            // Making one piece durable does not make the others durable (D3).
            self.disk.flush()?;
        }
        peer.outbox.simple_reply(request.cookie, 0);
        Ok(())
    }
}

/// Returns the part of `rest` that is held, up to the end of a block: a block written in part is written twice.
fn whole_blocks(rest: Span, held_bytes: u64) -> Span {
    if held_bytes >= rest.len {
        return rest;
    }
    let end = rest.at + held_bytes;
    Span::new(rest.at, held_bytes - end % BLOCK_BYTES)
}
