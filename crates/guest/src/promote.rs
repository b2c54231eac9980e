//! Promotion: a page moves from the disk to a frame before it is stored to.
//!
//! ```text
//!   free frame (word durably 0) -- bytes, fence -- word says truth, fence -- map -- stores
//!   copy                                        -- word says truth, fence -- map -- stores
//! ```

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;
use parking_lot::MutexGuard;

use crate::frame_table::FramedPage;
use crate::frame_word::FrameContent;
use crate::guest_engine::{EngineState, GuestEngine};
use crate::{RUN_PAGES, Result};

impl GuestEngine {
    /// Answers a store to `page` that found no mapping: makes the page writable at its truth, and pages behind it if they
    /// were on the disk. If another thread promoted the page at the same time, the store faults again. Returns false if
    /// the store has to wait: while the pool stands still (VP7), or until [`GuestEngine::evict`] has made room for it.
    ///
    /// # Errors
    /// The errors of the disk and the pool; nothing is mapped then.
    pub fn fault(&self, page: u64) -> Result<bool> {
        let Some(mut state) = self.try_lock_idle(page) else { return Ok(false) };
        self.space.check()?;
        let Some(frame) = state.frames.frame_of(page) else {
            let most = state.runs.pages(page);
            drop(state);
            return self.promote(page, most);
        };
        if state.frames.content(frame) == FrameContent::Copy(page) {
            self.return_copies(&mut state, &[FramedPage { page, frame }])?;
        }
        if !planted!("guest: a page leaves although it is mapped again") {
            state.frames.note_store(frame);
        }
        Ok(self.plane.map(&[(page, self.space.frame(frame))]))
    }

    /// Answers a load or a flush of `page` that found no mapping: shows the bytes of its truth. A load stores nothing, so
    /// it is answered while the pool stands still.
    ///
    /// # Errors
    /// The errors of the disk, and of the plane.
    pub fn read_fault(&self, page: u64) -> Result<()> {
        let mut bytes = [0; PAGE as usize];
        let mut state = self.lock_idle_reader(page);
        if let Some(frame) = state.frames.frame_of(page) {
            // The program may have stored there and not flushed yet (VP4).
            if self.plane.maps_frames() && !planted!("guest: a page is shown before its lines are durable") {
                self.space.flush_frame(frame);
                self.space.drain()?;
            }
            self.space.load(frame, 0, &mut bytes);
            return Ok(self.plane.fill(page, &bytes)?);
        }
        state.busy.insert(page);
        drop(state);
        let read = self.read_disk(page * PAGE, &mut bytes);
        let mut state = self.lock_reader();
        self.end_busy(&mut state, [page]);
        read?;
        state.counts.disk_read_bytes += PAGE;
        Ok(self.plane.fill(page, &bytes)?)
    }

    /// Promotes `first` and up to `most` pages in all that follow each other on the disk. Returns false if no frame is
    /// free, if the pool stands still, or if the plane has no room.
    fn promote(&self, first: u64, most: u64) -> Result<bool> {
        let Some(mut state) = self.try_lock_idle(first) else { return Ok(false) };
        if state.frames.frame_of(first).is_some() {
            return Ok(true);
        }
        // A run of a few frames would evict itself.
        let most = most.min((state.frames.usable() as u64 / 4).max(1));
        let is_on_disk = |page: &u64| state.frames.frame_of(*page).is_none() && !state.busy.contains(page);
        let end = (first + most).min(self.space.layout.pages());
        let wanted: Vec<u64> = (first..end).take_while(is_on_disk).collect();
        self.reclaim(&mut state, wanted.len())?;
        let frames = wanted.iter().map_while(|page| Some(FramedPage { page: *page, frame: state.frames.take_free()? }));
        let run: Vec<FramedPage> = frames.collect();
        if run.is_empty() {
            return Ok(false);
        }
        state.busy.extend(run.iter().map(|one| one.page));
        drop(state);
        let mut bytes = vec![0; run.len() * PAGE as usize];
        let read = self.read_disk(first * PAGE, &mut bytes);
        let mut state = self.lock_reader();
        self.end_busy(&mut state, run.iter().map(|one| one.page));
        // The pool may have been frozen in between (VR9).
        if self.is_frozen() || read.is_err() {
            run.iter().for_each(|one| state.frames.put_back(one.frame));
            drop(state);
            // Maybe the disk fails to read a page behind the first one.
            return if read.is_err() && run.len() > 1 { self.promote(first, 1) } else { read.map(|()| false) };
        }
        state.counts.disk_read_bytes += bytes.len() as u64;
        let pages: Vec<(FramedPage, &[u8])> = run.iter().copied().zip(bytes.chunks(PAGE as usize)).collect();
        self.publish(&mut state, &pages)
    }

    /// Stores whole pages into free frames, makes them truths and maps them (VR3, VR2). Returns false if the plane has no
    /// room for the mappings.
    fn publish(&self, state: &mut EngineState, pages: &[(FramedPage, &[u8])]) -> Result<bool> {
        pages.iter().for_each(|(one, bytes)| self.space.store(one.frame, 0, bytes));
        if !planted!("guest: a word says truth before the bytes are durable") {
            self.space.drain()?;
        }
        let map = || {
            let places: Vec<_> = pages.iter().map(|(one, _)| (one.page, self.space.frame(one.frame))).collect();
            self.plane.map(&places)
        };
        let words: Vec<_> = pages.iter().map(|(one, _)| (one.frame, FrameContent::Truth(one.page))).collect();
        if !planted!("guest: a page is mapped and its word not stored") {
            self.space.persist_words(&words)?;
        }
        words.iter().for_each(|(frame, content)| state.frames.set(*frame, *content));
        state.counts.promoted_pages += pages.len() as u64;
        state.counts.missed_pages += pages.iter().filter(|(one, _)| state.ghosts.take(one.page)).count() as u64;
        Ok(map())
    }

    /// Makes copies truths again, in their frames (VR6).
    fn return_copies(&self, state: &mut EngineState, copies: &[FramedPage]) -> Result<()> {
        let words: Vec<_> = copies.iter().map(|one| (one.frame, FrameContent::Truth(one.page))).collect();
        if !planted!("guest: a copy is stored to under its word") {
            self.space.persist_words(&words)?;
        }
        words.iter().for_each(|(frame, content)| state.frames.set(*frame, *content));
        state.counts.returned_pages += copies.len() as u64;
        Ok(())
    }

    /// Writes `from` at byte `at` of the guest. Durable on return if fences are, else after [`GuestEngine::flush`]. Waits
    /// while no frame is free, and while an export reads the guest (VC2).
    ///
    /// # Errors
    /// The errors of the pool and the disk.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let _writing = self.writes.read();
        let mut done = 0;
        while done < from.len() {
            let here = at + done as u64;
            let most = self.most_pages();
            let end = ((here / PAGE + most) * PAGE).min(at + from.len() as u64);
            let part = &from[done..done + (end - here) as usize];
            self.write_run(here, part)?;
            done += part.len();
        }
        Ok(())
    }

    /// Returns the pages of one step of a write: a few of a small guest, so that it always finds frames.
    fn most_pages(&self) -> u64 {
        RUN_PAGES.min((self.lock_reader().frames.usable() as u64 / 4).max(1))
    }

    fn write_run(&self, at: u64, from: &[u8]) -> Result<()> {
        let pages = at / PAGE..(at + from.len() as u64).div_ceil(PAGE);
        loop {
            let mut state = self.lock_idle(pages.clone());
            self.space.check()?;
            let missing: Vec<u64> = pages.clone().filter(|page| state.frames.frame_of(*page).is_none()).collect();
            let partial = missing.iter().find(|page| part_of(**page, at, from).1.len() < PAGE as usize);
            let has_room = match partial {
                Some(page) => {
                    drop(state);
                    self.promote(*page, 1)?
                }
                None if self.reclaim(&mut state, missing.len())? => {
                    let is_kept = |page: u64| missing.contains(&page) || state.frames.frame_of(page).is_some();
                    if pages.clone().all(is_kept) {
                        return self.write_framed(state, at, from, &missing);
                    }
                    // A copy of the write's own pages was reclaimed.
                    true
                }
                None => {
                    drop(state);
                    false
                }
            };
            if !has_room {
                self.make_room(missing.len())?;
            }
        }
    }

    /// Writes pages that have frames, and whole pages of `missing`, for which frames are free.
    fn write_framed(
        &self,
        mut state: MutexGuard<'_, EngineState>,
        at: u64,
        from: &[u8],
        missing: &[u64],
    ) -> Result<()> {
        let framed: Vec<FramedPage> = (at / PAGE..(at + from.len() as u64).div_ceil(PAGE))
            .filter_map(|page| Some(FramedPage { page, frame: state.frames.frame_of(page)? }))
            .collect();
        let is_copy = |one: &&FramedPage| state.frames.content(one.frame) == FrameContent::Copy(one.page);
        let copies: Vec<FramedPage> = framed.iter().filter(is_copy).copied().collect();
        self.return_copies(&mut state, &copies)?;
        let take = |page: &u64| FramedPage { page: *page, frame: state.frames.take_free().expect("room was made") };
        let new: Vec<FramedPage> = missing.iter().map(take).collect();
        let whole: Vec<(FramedPage, &[u8])> = new.iter().map(|one| (*one, part_of(one.page, at, from).1)).collect();
        if !whole.is_empty() {
            self.publish(&mut state, &whole)?;
        }
        for one in &framed {
            let (offset, bytes) = part_of(one.page, at, from);
            self.space.store(one.frame, offset, bytes);
            state.frames.note_store(one.frame);
        }
        if self.space.memory().fence_is_durable() {
            self.space.drain()?;
        } else {
            self.space.memory().fence();
        }
        Ok(())
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn flush(&self) -> Result<()> {
        self.space.check()?;
        Ok(self.space.drain()?)
    }
}

/// Returns the part of a write of `from` at `at` that lies in `page`, and its offset there.
fn part_of(page: u64, at: u64, from: &[u8]) -> (u64, &[u8]) {
    let start = at.max(page * PAGE);
    let end = (at + from.len() as u64).min((page + 1) * PAGE);
    (start - page * PAGE, &from[(start - at) as usize..(end - at) as usize])
}
