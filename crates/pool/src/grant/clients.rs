//! Who still uses a pool that nobody owns.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_medium::Memory;

use crate::Pool;
use crate::preview::Preview;

/// The numbers of the processes that have a grant on the pool in `memory`, which nobody has open, and have not ended: what stands in
/// its place after it they would go on storing into. None where no pool can be opened. Writes nothing.
pub fn clients(memory: &Arc<dyn Memory>, boot_id: [u8; 16]) -> BTreeSet<u32> {
    let preview: Arc<dyn Memory> = Arc::new(Preview::new(Arc::clone(memory)));
    // It ends the grants of processes that have ended, there.
    let Ok((pool, _, _)) = Pool::open_damaged(preview, boot_id) else { return BTreeSet::new() };
    pool.grants().standing().into_iter().map(|grant| grant.process.pid).collect()
}
