//! The attributes of a file, as a client finds them without the owner.

use std::sync::atomic::Ordering;

use ferrite_memory::Memory;

use super::{DirectIo, DirectOutcome};
use ferrite_fs::format::attr::Attr;

impl<M: Memory> DirectIo<'_, M> {
    /// Returns the attributes of the file at `now`. Refused if others have leases on it too, because they may have
    /// noted times.
    pub fn attr(&self, now: i64) -> DirectOutcome<Attr> {
        let Some((version, file)) = self.even_snapshot(0).filter(|_| self.lets_read()) else {
            return DirectOutcome::Refused;
        };
        let attr = self.reader(version).attr(&file, self.shared_state.noted_times(self.slot), now);
        let is_alone = self.shared_state.others(self.slot).load(Ordering::Acquire) == 0;
        // Noted times are cleared, and leases granted, under the lock of this version.
        if !self.is_still(version) || !self.lets_read() {
            return DirectOutcome::Overtaken;
        }
        attr.filter(|_| is_alone).map_or(DirectOutcome::Refused, DirectOutcome::Done)
    }
}
