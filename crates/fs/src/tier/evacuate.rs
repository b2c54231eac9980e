//! Evacuation: the pages of an SSD that is being removed go to the other SSDs, or to the pool.

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Progress, ProgressWatch};

use crate::file::{FileLayer, bring_in};
use crate::format::segment::{SEGMENT_PAGES, SegmentNo};
use crate::store::slots::SlotStore;
use crate::store::tier_leaving;
use crate::store::tier_set::{TierMember, TierSet};
use crate::tier::{TierWork, clean_segments};
use crate::{Error, Ino, Result};

/// See [`crate::TierUpkeep::remove_ssd`].
pub(crate) fn remove_ssd(files: &FileLayer, work: &TierWork, address: &str, progress: ProgressWatch<'_>) -> Result<()> {
    files.refuse_if_read_only()?;
    let slots = files.slots.as_ref().ok_or(Error::Unsupported("the file system has no SSDs"))?;
    let _changing = slots.changing()?;
    slots.ensure_not_held()?;
    let set = slots.set();
    let member = set.member_at(address)?;
    ensure_room(files, &set, member)?;
    tier_leaving::begin_leaving(files, slots, member)?;
    // Threads that write a segment, or evict a page to one, have ended: no new slot of the SSD gets a name (TI16).
    drop(work.destage.lock());
    drop(work.evict.lock());
    if !planted!("fs: SSD forgotten before its names") {
        evacuate(files, slots, work, member, progress)?;
    }
    let _alone = work.destage.lock();
    tier_leaving::forget(files, slots, member)
}

fn named_on(set: &TierSet, member: &TierMember) -> u64 {
    set.states_of(member).map(|state| state.named()).sum()
}

/// Refuses to remove `member` if what is on it alone has no room elsewhere.
fn ensure_room(files: &FileLayer, set: &TierSet, member: &TierMember) -> Result<()> {
    let needed = named_on(set, member);
    let others = set.segments().filter(|(segment, _)| !member.has(*segment));
    // Two segments are for cleaning.
    let on_ssds = others.map(|(_, state)| state.room()).sum::<u64>().saturating_sub(2 * SEGMENT_PAGES);
    let memory = files.memory().size();
    let in_pool = files.free_bytes_up_to(memory).saturating_sub(files.free_bytes_wanted()) / PAGE;
    if needed <= on_ssds + in_pool {
        return Ok(());
    }
    let [needed, on_ssds, in_pool] = [needed, on_ssds, in_pool].map(|pages| pages * PAGE);
    Err(Error::Refused(format!(
        "{} alone has {needed} bytes, and there is room for {on_ssds} on the other SSDs and for {in_pool} in the pool: add an \
         SSD or remove files first",
        member.ssd.address
    )))
}

/// Moves all that words name on `member` away.
fn evacuate(
    files: &FileLayer,
    slots: &SlotStore,
    work: &TierWork,
    member: &TierMember,
    progress: ProgressWatch<'_>,
) -> Result<()> {
    let set = slots.set();
    let (address, mut left) = (&member.ssd.address, named_on(&set, member));
    let total = left;
    while left > 0 {
        let what = format!("moving what {address} has");
        if !progress(Progress { done: total.saturating_sub(left) * PAGE, total: total * PAGE, what }) {
            return Err(ferrite_pool::Error::Cancelled(
                "the removal: the SSD goes on leaving when it is asked for again",
            )
            .into());
        }
        for victims in victims(&set, member) {
            empty(files, slots, work, &victims)?;
        }
        let before = std::mem::replace(&mut left, named_on(&set, member));
        if left >= before {
            return Err(Error::Ssd(format!(
                "{left} pages on {address} are damaged, or change too fast to be moved: `ferrite fs tier scrub` lists damaged \
                 ones, and overwriting or removing them lets the SSD go"
            )));
        }
    }
    Ok(())
}

/// Returns the segments of `member` that words name, as many together as one segment has room for.
fn victims(set: &TierSet, member: &TierMember) -> Vec<Vec<SegmentNo>> {
    let (mut groups, mut sum) = (Vec::<Vec<SegmentNo>>::new(), SEGMENT_PAGES);
    for segment in member.numbers().map(SegmentNo) {
        let named = set.state(segment).named();
        if named == 0 {
            continue;
        }
        if sum + named > SEGMENT_PAGES {
            (sum, _) = (0, groups.push(Vec::new()));
        }
        sum += named;
        groups.last_mut().expect("it was added").push(segment);
    }
    groups
}

/// Moves the pages of `victims` to another SSD, or to the pool if no segment is free.
fn empty(files: &FileLayer, slots: &SlotStore, work: &TierWork, victims: &[SegmentNo]) -> Result<()> {
    {
        let _alone = work.destage.lock();
        if clean_segments::move_pages(files, slots, victims)? {
            return Ok(());
        }
    }
    if clean_segments::clean(files, slots, work)? {
        let _alone = work.destage.lock();
        if clean_segments::move_pages(files, slots, victims)? {
            return Ok(());
        }
    }
    for victim in victims {
        let (summary, _) = slots.read_segment(*victim)?;
        for (page, entry) in (0..).zip(&summary.entries) {
            if slots.is_named(files.memory(), victim.slot(page)) {
                let at = entry.page * PAGE;
                bring_in::bring_in_of(files, Ino(entry.ino), at..at + PAGE)?;
            }
        }
    }
    Ok(())
}
