//! Shadows: which pages of the pool are clean, and in which order they are evicted.

use std::sync::atomic::Ordering;

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;

use super::{SlotStore, away_of, index};
use crate::format::segment::SegmentNo;
use crate::format::slot_table::SsdState;
use crate::format::word::{AwayPage, IndexWord};
use crate::store::clean_list::{CleanOrigin, CleanPage, CleanUse, ListedVictims};
use crate::store::tier_set::TierMember;

impl SlotStore {
    /// Gives `page` of the pool a shadow, unless it has one. Writers are kept out.
    pub fn set_shadow(&self, page: CleanPage, origin: CleanOrigin) {
        if !self.is_tracked(page.place) {
            return;
        }
        let word = IndexWord::away(page.away).0;
        let segment = page.away.slot.segment();
        // While this guard is held, the SSD does not begin to leave (TI16).
        let set = self.set.read();
        if set.member_of(segment).is_none_or(|member| member.ssd.state == SsdState::Leaving) {
            return;
        }
        set.state(segment).shadows.fetch_add(1, Ordering::SeqCst);
        self.shadowed.fetch_add(1, Ordering::SeqCst);
        let shadow = &self.shadows[index(page.place)];
        let is_set = shadow.compare_exchange(0, word, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        drop(set);
        if !is_set {
            self.drop_shadow_word(word);
            return;
        }
        self.clean.add(page, origin, self.clean_pages(), |page| self.has_shadow(page));
    }

    fn has_shadow(&self, page: &CleanPage) -> bool {
        let word = IndexWord::away(page.away).0;
        self.shadows.get(index(page.place)).is_some_and(|shadow| shadow.load(Ordering::SeqCst) == word)
    }

    /// Takes up to `most` clean pages that were not used lately from the list of clean pages.
    pub fn take_victims(&self, most: usize) -> ListedVictims {
        self.clean.take_victims(most, |page| {
            if !self.has_shadow(page) || self.shadow(page.place).is_none() {
                CleanUse::Outdated
            } else if self.take_touched(page.place) {
                CleanUse::Used
            } else {
                CleanUse::Unused
            }
        })
    }

    /// Returns a victim that stays in the pool to the list of clean pages.
    pub fn keep_clean(&self, page: CleanPage) {
        self.clean.keep(page);
    }

    /// Notes that `page` was read from its SSD. Returns true if it was read before, not long ago.
    pub fn note_read(&self, page: AwayPage) -> bool {
        let is_known = self.ghosts.note(page);
        self.reread.fetch_add(u64::from(is_known), Ordering::Relaxed);
        is_known
    }

    /// Returns how many pages were read again soon, and how many clean pages were overwritten, since the last call.
    pub fn take_mistakes(&self) -> (u64, u64) {
        (self.reread.swap(0, Ordering::Relaxed), self.overwritten.swap(0, Ordering::Relaxed))
    }

    /// Returns the shadow of the page at `place` if it has the same bytes (TI4). Writers are kept out while it is used.
    pub fn shadow(&self, place: u64) -> Option<AwayPage> {
        let word = self.shadows.get(index(place))?.load(Ordering::SeqCst);
        if word == 0 {
            return None;
        }
        let is_stored = self.shared_state.stored(place / PAGE).load(Ordering::SeqCst) != 0;
        if is_stored && !planted!("fs: stored page is clean") {
            self.overwritten.fetch_add(1, Ordering::Relaxed);
            self.forget_shadow(place);
            return None;
        }
        away_of(word)
    }

    /// Forgets the shadow of the page at `place`.
    pub fn forget_shadow(&self, place: u64) {
        if let Some(shadow) = self.shadows.get(index(place)) {
            self.drop_shadow_word(shadow.swap(0, Ordering::SeqCst));
        }
    }

    fn drop_shadow_word(&self, word: u64) {
        if let Some(page) = away_of(word) {
            self.set.read().state(page.slot.segment()).shadows.fetch_sub(1, Ordering::SeqCst);
            self.shadowed.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Forgets all shadows that lie in `segment`.
    pub fn forget_shadows_in(&self, segment: SegmentNo) {
        self.forget_shadows_if(|of| of == segment);
    }

    /// Forgets all shadows that lie on `member`.
    pub fn forget_shadows_of(&self, member: &TierMember) {
        self.forget_shadows_if(|of| member.has(of));
    }

    fn forget_shadows_if(&self, is_wanted: impl Fn(SegmentNo) -> bool) {
        for shadow in &self.shadows {
            let word = shadow.load(Ordering::SeqCst);
            let is_in = away_of(word).is_some_and(|page| is_wanted(page.slot.segment()));
            if is_in && shadow.compare_exchange(word, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                self.drop_shadow_word(word);
            }
        }
    }
}
