//! Clients that still use a pool without an owner.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_memory::Memory;

use crate::overlay::MemoryOverlay;
use crate::{Error, Pool, Result};

/// Refuses if a living process has a grant on the closed pool in `memory`: it would store into anything that replaced
/// the pool. If the pool cannot be opened, no client is known. Writes nothing.
///
/// # Errors
/// [`Error::Busy`] with the numbers of the processes.
pub fn ensure_no_clients(memory: &Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<()> {
    let preview: Arc<dyn Memory> = Arc::new(MemoryOverlay::new(Arc::clone(memory)));
    // Opening ends the grants of ended processes, in the overlay.
    let Ok((pool, _, _)) = Pool::open_damaged(preview, boot_id) else { return Ok(()) };
    let clients: BTreeSet<u32> = pool.grants().standing().into_iter().map(|grant| grant.process.pid).collect();
    if clients.is_empty() {
        return Ok(());
    }
    let pids: Vec<String> = clients.iter().map(u32::to_string).collect();
    let pids = pids.join(", ");
    Err(Error::Busy(format!("programs that the pool's last owner let in still use it ({pids}): end them first")))
}
