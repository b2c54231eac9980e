//! Segments that a backup copies beside the image of the pool: nothing is written to them until that ends.
//!
//! A backup wants the hold before it freezes the pool. The freeze takes it: the segments that words name at that moment,
//! and the stamps of the SSDs, belong to the image.
//!
//! The invariant TI22 (`tier.rs`) is kept here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_pool::disk_stamp::{DISK_STAMP_BYTES, DiskStamp};
use parking_lot::Mutex;

use crate::format::segment::{SEGMENT_BYTES, SegmentNo};
use crate::store::slots::{SlotStore, ssd_error};
use crate::store::tier_members::MAGIC;
use crate::store::tier_set::{TierMember, TierSet};
use crate::{Error, Result};

/// How far a backup is.
#[derive(Default)]
enum HoldState {
    /// None copies segments.
    #[default]
    None,
    /// The next freeze takes the hold.
    Wanted,
    /// The SSDs and their stamps when the pool stood still, and how many freezes there were up to then.
    Taken { set: Arc<TierSet>, stamps: Vec<Vec<u8>>, freezes: u64 },
    /// The freeze could not take it, for this reason.
    Failed(String),
}

/// The hold of one backup.
#[derive(Default)]
pub(crate) struct SegmentHold(Mutex<(HoldState, u64)>);

impl SlotStore {
    /// Allows the next freeze to hold the slots that words name.
    ///
    /// # Errors
    /// [`Error::Refused`] while another backup copies segments, or SSDs are added, grown or removed.
    pub fn want_hold(&self) -> Result<()> {
        let _alone = self.changing()?;
        let mut hold = self.hold.0.lock();
        if !matches!(hold.0, HoldState::None) {
            return Err(Error::Refused("another backup copies the SSDs: let it end first".into()));
        }
        hold.0 = HoldState::Wanted;
        Ok(())
    }

    /// Refuses to let an SSD leave while a backup copies segments. The caller is the one that changes the SSDs.
    pub fn ensure_not_held(&self) -> Result<()> {
        match self.hold.0.lock().0 {
            HoldState::None => Ok(()),
            _ => Err(Error::Refused("a backup copies the SSDs: let it end first, or stop it".into())),
        }
    }

    /// The pool stands still.
    pub fn note_freeze(&self) {
        let mut hold = self.hold.0.lock();
        hold.1 += 1;
        if !matches!(hold.0, HoldState::Wanted) {
            return;
        }
        let set = self.set();
        let stamps: Result<Vec<_>> = set.members().iter().map(|member| stamp_of(member)).collect();
        for state in set.members().iter().flat_map(|member| set.states_of(member)) {
            state.is_held.store(state.named() > 0, Ordering::SeqCst);
        }
        hold.0 = match stamps {
            Ok(stamps) => HoldState::Taken { set, stamps, freezes: hold.1 },
            Err(why) => HoldState::Failed(why.to_string()),
        };
    }

    /// Returns how many bytes each SSD has, and how many bytes of its segments are held.
    ///
    /// # Errors
    /// [`Error::Ssd`] if the stamp of one could not be read; [`Error::Refused`] if the pool was frozen for another backup
    /// since.
    pub fn held(&self) -> Result<Vec<(u64, u64)>> {
        let (set, _) = self.hold.taken()?;
        let bytes = |member: &Arc<TierMember>| {
            let held = set.states_of(member).filter(|state| state.is_held.load(Ordering::SeqCst));
            (member.ssd.disk_bytes(), held.count() as u64 * SEGMENT_BYTES)
        };
        Ok(set.members().iter().map(bytes).collect())
    }

    /// Passes the held segments and the stamp of SSD number `ssd` to `each`, with their offsets on it.
    ///
    /// # Errors
    /// As [`SlotStore::held`]; the errors of the SSD and of `each`.
    pub fn copy_held(&self, ssd: usize, each: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let (set, stamps) = self.hold.taken()?;
        let member = &set.members()[ssd];
        let mut bytes = vec![0; SEGMENT_BYTES as usize];
        for segment in member.numbers().map(SegmentNo) {
            if set.state(segment).is_held.load(Ordering::SeqCst) {
                let at = member.offset(segment);
                member.disk()?.read(at, &mut bytes).map_err(|error| ssd_error(member, at, &error))?;
                each(at, &bytes)?;
            }
        }
        each(0, &stamps[ssd])
    }

    /// Ends the hold.
    pub fn end_hold(&self) {
        // Until the marks are gone no other backup sets some.
        let mut hold = self.hold.0.lock();
        let mut sets = vec![self.set()];
        if let HoldState::Taken { set, .. } = std::mem::take(&mut hold.0) {
            sets.push(set);
        }
        for set in sets {
            let states = set.members().iter().flat_map(|member| set.states_of(member));
            states.for_each(|state| state.is_held.store(false, Ordering::SeqCst));
        }
    }
}

impl SegmentHold {
    /// Returns what the freeze took, if it was the last one.
    fn taken(&self) -> Result<(Arc<TierSet>, Vec<Vec<u8>>)> {
        match &*self.0.lock() {
            (HoldState::Taken { set, stamps, freezes }, now) if freezes == now => Ok((Arc::clone(set), stamps.clone())),
            (HoldState::Failed(why), _) => Err(Error::Ssd(why.clone())),
            _ => Err(Error::Refused("another backup was made at the same moment: make this one again".into())),
        }
    }
}

fn stamp_of(member: &TierMember) -> Result<Vec<u8>> {
    let mut stamp = vec![0; DISK_STAMP_BYTES as usize];
    member.disk()?.read(0, &mut stamp).map_err(|error| ssd_error(member, 0, &error))?;
    Ok(stamp)
}

/// Returns true if a file that begins with `head` is the copy of an SSD of a file system of the pool `pool`, or is empty.
pub(crate) fn is_copy(head: &[u8], pool: &[u8; 16]) -> bool {
    let is_ours = |page: &[u8]| DiskStamp::decode(page, &MAGIC).is_some_and(|stamp| stamp.record.pool == *pool);
    head.is_empty() || head.chunks(DISK_STAMP_BYTES as usize / 2).any(is_ours)
}
