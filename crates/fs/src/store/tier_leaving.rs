//! How SSDs leave a file system that is used.
//!
//! The invariant TI16 (`tier.rs`) is kept here. The pages move in `tier::evacuate`.

use std::sync::Arc;

use ferrite_pool::disk_stamp::DiskStamp;

use crate::Result;
use crate::format::slot_table::{SsdState, TierSsd};
use crate::store::ChunkStore;
use crate::store::slots::SlotStore;
use crate::store::tier_members::{drop_table, write_header};
use crate::store::tier_set::{TierMember, TierSet};

/// Lets nothing be written to `member` from now on. Durable on return. Pages of the pool that had a copy there alone have
/// none then.
pub(crate) fn begin_leaving(store: &ChunkStore, slots: &SlotStore, member: &TierMember) -> Result<()> {
    let leaving = TierSsd { state: SsdState::Leaving, ..member.ssd.clone() };
    let set = slots.set();
    let listed = set.listed().into_iter().map(|ssd| if ssd.uuid == leaving.uuid { leaving.clone() } else { ssd });
    write_header(store.pool(), &set.table, &listed.collect::<Vec<_>>())?;
    let leaving = Arc::new(TierMember { ssd: leaving, disk: member.disk.clone() });
    slots.replace(|set| {
        let with =
            |member: &Arc<TierMember>| if member.ssd.uuid == leaving.ssd.uuid { &leaving } else { member }.clone();
        set.with(set.table.clone(), set.members().iter().map(with).collect())
    });
    slots.forget_shadows_of(&leaving);
    Ok(())
}

/// Ends the removal of `member`, which no word names. The caller keeps others from writing segments and renewing ties.
/// Durable on return.
pub(crate) fn forget(store: &ChunkStore, slots: &SlotStore, member: &TierMember) -> Result<()> {
    let pool = store.pool();
    let others = |set: &TierSet| {
        let others = set.members().iter().filter(|other| other.ssd.uuid != member.ssd.uuid);
        set.with(set.table.clone(), others.cloned().collect())
    };
    if pool.members()?.iter().any(|known| known.uuid == member.ssd.uuid) {
        pool.remove_member(&member.ssd.uuid)?;
    }
    let left = others(&slots.set()).listed();
    if left.is_empty() {
        let mut tag = store.tag.lock();
        *tag = drop_table(pool, &tag)?;
    } else {
        write_header(pool, &slots.set().table, &left)?;
    }
    slots.replace(others);
    // The pool knows nothing of the SSD any more, whether this succeeds or not.
    _ = member.disk().map(|disk| DiskStamp::erase(disk, 0));
    Ok(())
}
