//! A stream whose two ends agreed on all properties beforehand, like the kernel's driver and its server: no handshake,
//! simple replies, one disk.

use std::sync::Arc;

use ferrite_disk::{Disk, Geometry};

use super::export::transmission_flags;
use super::peer::{End, Peer};
use super::server::Options;
use super::session::Session;
use super::transport::Transport;
use super::waiting::Waiting;

/// Returns the transmission flags that the other end needs for a disk of this shape.
pub fn agreed_flags(geometry: &Geometry) -> u16 {
    transmission_flags(geometry, false)
}

/// Serves requests to `disk` in this thread, until the other end disconnects (`Ok`) or the stream ends otherwise.
///
/// # Errors
/// Returns [`End`] with the reason why the stream ended.
pub fn serve_agreed(disk: Arc<dyn Disk>, transport: &mut dyn Transport) -> Result<(), End> {
    let mut peer = Peer::new(transport, Options::default().spin, Arc::default(), Arc::new(Waiting::new()));
    Session::new(disk, false, false).run(&mut peer)
}
