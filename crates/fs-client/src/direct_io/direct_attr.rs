//! What a client tells of a file by itself, as the owner would.

use std::sync::atomic::Ordering;

use ferrite_memory::Memory;

use super::{Hands, Tried};
use ferrite_fs::format::attr::Attr;

impl<M: Memory> Hands<'_, M> {
    /// What `stat` tells of the file at `now`; refused where others have leases on it too, who may have noted times.
    pub fn attr(&self, now: i64) -> Tried<Attr> {
        let Some((version, file)) = self.glance_between(0).filter(|_| self.lets_read()) else { return Tried::Refused };
        let attr = self.viewer(version).attr(&file, self.board.noted_times(self.slot), now);
        let is_alone = self.board.others(self.slot).load(Ordering::Acquire) == 0;
        // Times are taken from the board, and leases given, under the lock that the version is of.
        if !self.is_still(version) || !self.lets_read() {
            return Tried::Overtaken;
        }
        attr.filter(|_| is_alone).map_or(Tried::Refused, Tried::Done)
    }
}
