//! Who still uses a pool that nobody owns.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_memory::Memory;

use crate::overlay::MemoryOverlay;
use crate::{Error, Pool, Result};

/// Refuses where a process that has not ended has a grant on the pool in `memory`, which nobody has
/// open: whatever took its place would be stored into. Where no pool can be opened nobody is known. Writes nothing.
///
/// # Errors
/// [`Error::Busy`], with their numbers.
pub fn ensure_no_clients(memory: &Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<()> {
    let preview: Arc<dyn Memory> = Arc::new(MemoryOverlay::new(Arc::clone(memory)));
    // It ends the grants of processes that have ended, there.
    let Ok((pool, _, _)) = Pool::open_damaged(preview, boot_id) else { return Ok(()) };
    let clients: BTreeSet<u32> = pool.grants().standing().into_iter().map(|grant| grant.process.pid).collect();
    if clients.is_empty() {
        return Ok(());
    }
    let pids: Vec<String> = clients.iter().map(u32::to_string).collect();
    let pids = pids.join(", ");
    Err(Error::Busy(format!("programs that the pool's last owner let in still use it ({pids}): end them first")))
}
