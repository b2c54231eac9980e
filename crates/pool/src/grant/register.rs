//! The register of grants in DRAM.

use std::collections::BTreeMap;
use std::io::{PipeWriter, Write};

use crate::bounds::{SERIAL_BOUND, out_of_bounds};
use crate::extent::Extent;
use crate::holding::lease_words::RevokeSignal;
use crate::layout::{GRANTS, SLOT};
use crate::page_allocator::PageAllocator;
use crate::{Error, Result};

use super::coverage::{Coverage, SortedPages};
use super::process_identity::{Process, ProcessIdentity};
use super::slot::{GrantId, GrantRecord, GrantRights};

/// A grant that has not ended.
#[derive(Debug)]
pub(super) struct LiveGrant {
    pub slot: u64,
    pub tag_generation: u64,
    pub rights: GrantRights,
    pub process: Process,
    /// The granted pages, neighbours joined.
    pub pages: Coverage,
    pub overflow: Vec<Extent>,
    /// True if the grant has been revoked.
    pub asked: bool,
    /// True while a transaction with the beginning or the end of the grant has not committed. Other threads do not end
    /// it then.
    pub in_doubt: bool,
    /// The pipe on which the client waits for a revocation. `None` if an earlier owner gave the grant, or if the client
    /// polls a word.
    pub bell: Option<PipeWriter>,
    /// The word that the holder of a tag polls.
    pub board: Option<RevokeSignal>,
}

/// A grant in a list of grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingGrant {
    /// The identity of the grant.
    pub id: GrantId,
    /// The generation of its tag, which may have been removed.
    pub tag_generation: u64,
    /// The client's rights.
    pub rights: GrantRights,
    /// The client.
    pub process: ProcessIdentity,
    /// The bytes of its pages.
    pub bytes: u64,
    /// True if the grant has been revoked.
    pub asked: bool,
}

/// The living grants and the held pages.
#[derive(Debug)]
pub(super) struct GrantRegister {
    pub live: BTreeMap<GrantId, LiveGrant>,
    /// Freed space under grants.
    pub held: Vec<Extent>,
    pub free_slots: Vec<u64>,
    next: u64,
}

impl LiveGrant {
    pub fn new(slot: u64, process: Process, record: GrantRecord, overflow: Vec<Extent>) -> Self {
        Self {
            slot,
            tag_generation: record.tag_generation,
            rights: record.rights,
            process,
            pages: Coverage::of(&record.extents),
            overflow,
            asked: false,
            in_doubt: false,
            bell: None,
            board: None,
        }
    }

    /// Returns the index of the slot in the table.
    pub fn slot_index(&self) -> usize {
        ((self.slot - GRANTS) / SLOT) as usize
    }

    /// Revokes the grant. The pipe gets one byte in all, so it always has room, and this does not wait (G6).
    pub fn ask(&mut self) {
        if !std::mem::replace(&mut self.asked, true) {
            // The client may have closed its end.
            let _ = self.bell.as_mut().map(|bell| bell.write_all(&[1]));
            self.board.as_ref().map(RevokeSignal::ring);
        }
    }
}

impl GrantRegister {
    pub fn new(serial: u64) -> Self {
        Self { live: BTreeMap::new(), held: Vec::new(), free_slots: Vec::new(), next: serial + 1 }
    }

    /// Returns a serial and a slot for a new grant.
    pub fn open_slot(&mut self) -> Result<(GrantId, u64)> {
        if self.next >= SERIAL_BOUND {
            return Err(Error::Limit(
                out_of_bounds("the serial of the next grant", self.next) + " is refused: restore a backup",
            ));
        }
        let slot = self.free_slots.pop().ok_or_else(|| {
            Error::Limit(format!("all {} grants are in use: end some clients of the pool", self.live.len()))
        })?;
        let id = GrantId(self.next);
        self.next += 1;
        Ok((id, slot))
    }

    pub fn insert(&mut self, id: GrantId, live: LiveGrant) {
        self.next = self.next.max(id.0 + 1);
        self.live.insert(id, live);
    }

    /// Undoes [`GrantRegister::open_slot`], and [`GrantRegister::insert`] if it was called.
    pub fn cancel(&mut self, space: &PageAllocator, id: GrantId, slot: u64) {
        self.live.remove(&id);
        self.free_slots.push(slot);
        self.release_held(space);
    }

    /// Removes a grant that has ended on the medium.
    pub fn finish(&mut self, space: &PageAllocator, id: GrantId) {
        if let Some(live) = self.live.remove(&id) {
            self.free_slots.push(live.slot);
            self.release_held(space);
        }
    }

    pub fn find(&mut self, id: GrantId) -> Result<&mut LiveGrant> {
        self.live.get_mut(&id).ok_or_else(|| Error::NotFound(format!("grant {id}")))
    }

    /// Returns true if a process with this number has a grant. Another process may have had the number.
    pub fn has_some(&self, pid: u32) -> bool {
        self.live.values().any(|live| live.process.identity().pid == pid)
    }

    /// Returns the pages under the grants for which `which` returns true.
    pub fn coverage(&self, which: impl Fn(&LiveGrant) -> bool) -> Coverage {
        let chosen: Vec<Extent> =
            self.live.values().filter(|live| which(live)).flat_map(|live| live.pages.extents()).collect();
        Coverage::of(&chosen)
    }

    pub fn free(&mut self, space: &PageAllocator, extents: &[Extent]) {
        let SortedPages { held, free } = self.coverage(|_| true).sort(extents);
        self.held.extend(held);
        space.free(&free);
    }

    /// Frees held pages that are under no grant any more.
    fn release_held(&mut self, space: &PageAllocator) {
        let held = std::mem::take(&mut self.held);
        self.free(space, &held);
    }

    pub fn standing(&self) -> Vec<StandingGrant> {
        let standing = self.live.iter().map(|(id, live)| StandingGrant {
            id: *id,
            tag_generation: live.tag_generation,
            rights: live.rights,
            process: live.process.identity(),
            bytes: live.pages.extents().iter().map(|extent| extent.span().len).sum(),
            asked: live.asked,
        });
        standing.collect()
    }

    pub fn own_extents(&self) -> Vec<Extent> {
        let given = self.live.values().flat_map(|live| &live.overflow);
        given.chain(&self.held).copied().collect()
    }
}
