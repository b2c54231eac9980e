//! The guests of a pool share its memory: the budget's steps, and what users set.
//!
//! A step runs every [`BALANCE`] on the thread of the pool's owner. Each open guest follows its target on its own
//! thread, so that no guest waits for the disk of another one. A closed guest gives chunks without its disk if these
//! have no truths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferrite_memory::planted;
use ferrite_owner::ProgressCall;
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Failure, Tag, TagChange};

use crate::budget::{GuestUse, MemoryBudget};
use crate::frame_space::FrameSpace;
use crate::guest_resize::drop_last;
use crate::guest_share::{GuestShare, SetBudget, ShareRecord, USUAL_WEIGHT, chunks_of};
use crate::open_guests::{OpenGuests, is_used};
use crate::{BudgetReport, GuestError, GuestLayout, GuestReport, PmRange, Result, ShareReport};

/// The time between two steps of the budget.
pub(crate) const BALANCE: Duration = Duration::from_millis(250);
/// The steps that a new guest or a lent one waits for its minimum, and the time between them.
const COMING_STEPS: u32 = 100;
const COMING: Duration = Duration::from_millis(20);
const FRAMES: u64 = CHUNK / PAGE;

/// What the guests of a pool share, between the steps of the budget.
#[derive(Default)]
pub(crate) struct SharedBudget {
    budget: MemoryBudget,
    /// The missed pages of each guest at the last step.
    missed: BTreeMap<String, u64>,
    /// Guests that are about to be used, and have no client yet: new ones with their shares, and those that are lent.
    pub coming: BTreeMap<String, GuestShare>,
    /// Closed guests that could not give chunks.
    stuck: BTreeSet<String>,
}

/// The share that a user asks for.
#[derive(Clone, Copy)]
pub(crate) struct AskedShare {
    pub pm: Option<PmRange>,
    pub weight: Option<u32>,
}

impl AskedShare {
    /// Returns the share, which is that of `before` except for what the user names.
    fn after(self, before: GuestShare) -> Result<GuestShare> {
        let mut share = GuestShare { weight: self.weight.unwrap_or(before.weight), ..before };
        if let Some(PmRange { min_bytes, max_bytes }) = self.pm {
            (share.min, share.max) = (chunks_of(min_bytes)?, chunks_of(max_bytes)?);
        }
        share.ensure_possible()?;
        Ok(share)
    }

    /// Returns the share of a new guest of `size` bytes.
    pub fn of_new(self, size: u64) -> Result<GuestShare> {
        let max = u32::try_from(size.div_ceil(CHUNK)).unwrap_or(u32::MAX).max(1);
        self.after(GuestShare { min: 1, max, weight: USUAL_WEIGHT })
    }
}

/// Returns the chunks of the guest in `tag`.
fn chunks(tag: &Tag) -> u32 {
    GuestLayout::read(tag).map_or(0, |layout| (layout.frames / FRAMES) as u32)
}

/// The guests' memory, in chunks.
struct MemorySum {
    /// For all guests together.
    total: u32,
    is_set: bool,
    /// What the guests have.
    given: u32,
}

impl OpenGuests {
    /// Returns the budget that was set last.
    fn set_budget(&self) -> SetBudget {
        let records = self.tags().into_iter().filter_map(|tag| ShareRecord::read(&tag));
        records.map(|record| record.budget).max().unwrap_or_default()
    }

    /// Returns the memory of the guests. `coming_minimum` is that of a guest which is not there yet. Without a budget
    /// that a user has set, no guest is asked for memory that the pool has.
    fn memory(&self, coming_minimum: u32) -> MemorySum {
        let tags = self.tags();
        let given = tags.iter().map(|tag| chunks(tag)).sum::<u32>();
        let set = self.set_budget().chunks;
        let minima: u32 = tags.iter().filter_map(|tag| Some(ShareRecord::read(tag)?.share.min)).sum();
        let free = (self.pool.usage().free_bytes / CHUNK) as u32;
        let usual = ((free + given) / 2).max(minima + coming_minimum).max(given + coming_minimum);
        MemorySum { total: if set > 0 { set } else { usual }, is_set: set > 0, given }
    }

    /// Returns the guest in `tag` as the budget sees it, and notes its missed pages.
    fn use_of(&self, tag: &Tag, shared: &mut SharedBudget) -> Option<GuestUse> {
        let share = ShareRecord::read(tag)?.share;
        let is_lent = self.pool.user_of(tag).is_some();
        let open = self.open.lock();
        let open = open.get(&tag.name);
        let missed = open.map_or(0, |open| open.engine.counts().missed_pages);
        let before = shared.missed.insert(tag.name.clone(), missed).unwrap_or(missed);
        Some(GuestUse {
            name: tag.name.clone(),
            chunks: open.map_or_else(|| chunks(tag), |open| (open.engine.frames() / FRAMES) as u32),
            share,
            is_used: is_lent || open.is_some_and(is_used) || shared.coming.contains_key(&tag.name),
            is_still: is_lent || shared.stuck.contains(&tag.name),
            missed: missed.saturating_sub(before),
        })
    }

    /// Returns all guests as the budget sees them.
    fn uses(&self, shared: &mut SharedBudget) -> Vec<GuestUse> {
        let tags = self.tags();
        shared.missed.retain(|name, _| tags.iter().any(|tag| tag.name == *name));
        let mut uses: Vec<GuestUse> = tags.iter().filter_map(|tag| self.use_of(tag, shared)).collect();
        let new = |(name, share): (&String, &GuestShare)| {
            let (name, share) = (name.clone(), *share);
            GuestUse { name, chunks: 0, share, is_used: true, is_still: false, missed: 0 }
        };
        let is_new = |name: &String| !tags.iter().any(|tag| tag.name == *name);
        uses.extend(shared.coming.iter().filter(|(name, _)| is_new(name)).map(new));
        uses
    }

    /// Does a step of the budget.
    pub(crate) fn balance(&self) {
        let mut shared = self.shared.lock();
        let uses = self.uses(&mut shared);
        if uses.iter().all(|guest| guest.share.is_fixed() && guest.chunks == guest.share.min) {
            return;
        }
        let minimum = shared.coming.values().map(|share| share.min).sum();
        shared.budget.step(self.memory(minimum).total, &uses);
        for guest in &uses {
            let Some(target) = shared.budget.target(&guest.name) else { continue };
            let open = self.open.lock().get(&guest.name).map(|open| Arc::clone(&open.asked));
            if let Some(asked) = open {
                asked.store(u64::from(target.chunks) * FRAMES, Ordering::Relaxed);
            } else if target.chunks < guest.chunks && !guest.is_still && self.give_closed(&guest.name).is_err() {
                shared.stuck.insert(guest.name.clone());
            }
        }
    }

    /// Frees the last chunk of a closed guest; opens it if the chunk has truths.
    fn give_closed(&self, name: &str) -> std::result::Result<(), Failure> {
        match self.pool.hold(name).map_err(GuestError::from).and_then(|lease| drop_last(&FrameSpace::of(lease)?)) {
            Err(GuestError::Refused(_)) => self.open(name).map(drop),
            other => Ok(other?),
        }
    }

    /// Returns the chunks of a new guest with the `share`, and the budget that it stores. Waits a while until the
    /// others have given its minimum. The caller ends the guest's coming.
    pub(crate) fn begin(&self, name: &str, share: GuestShare) -> std::result::Result<(u32, SetBudget), Failure> {
        self.ensure_minimum_of(None, share.min)?;
        self.shared.lock().coming.insert(name.into(), share);
        let mut chunks = 0;
        for _ in 0..COMING_STEPS {
            self.balance();
            chunks = self.shared.lock().budget.target(name).map_or(share.min, |target| target.chunks);
            if chunks >= share.min {
                let memory = self.memory(share.min);
                let more = memory.total.saturating_sub(memory.given + chunks);
                return Ok((chunks.saturating_add(more).min(share.max), self.set_budget()));
            }
            std::thread::sleep(COMING);
        }
        if chunks > 0 {
            return Ok((chunks, self.set_budget()));
        }
        self.shared.lock().coming.remove(name);
        let why = "the other guests have not given memory yet: try again, or see `ferrite guest budget`";
        Err(Failure::busy(why.to_string()))
    }

    /// Gives a closed guest its minimum, before another process has it. Waits a while until the others have given it.
    pub(crate) fn fill_up(&self, name: &str) -> std::result::Result<(), Failure> {
        let tag = self.tag(name)?;
        let Some(ShareRecord { share, .. }) = ShareRecord::read(&tag) else { return Ok(()) };
        if chunks(&tag) >= share.min {
            return Ok(());
        }
        self.shared.lock().coming.insert(name.into(), share);
        let filled = (0..COMING_STEPS).try_for_each(|_| {
            self.balance();
            let target = self.shared.lock().budget.target(name).map_or(0, |target| target.chunks);
            if target > chunks(&*self.tag(name)?) {
                let widened = FrameSpace::of(self.pool.hold(name)?)?.widen(u64::from(target) * FRAMES);
                widened.or_else(|error| if error.is_want_of_space() { Ok(()) } else { Err(error) })?;
            }
            if chunks(&*self.tag(name)?) < share.min {
                std::thread::sleep(COMING);
            }
            Ok::<(), Failure>(())
        });
        self.shared.lock().coming.remove(name);
        filled
    }

    /// Refuses a minimum of `chunks` for the guest called `name` that the budget has no room for.
    pub(crate) fn ensure_minimum(&self, name: &str, chunks: u32) -> std::result::Result<(), Failure> {
        self.ensure_minimum_of(Some(name), chunks)
    }

    fn ensure_minimum_of(&self, name: Option<&str>, minimum: u32) -> std::result::Result<(), Failure> {
        let others = self.tags().into_iter().filter(|tag| Some(tag.name.as_str()) != name);
        let minima: u32 = others.filter_map(|tag| Some(ShareRecord::read(&tag)?.share.min)).sum();
        let memory = self.memory(0);
        if memory.is_set && minima.saturating_add(minimum) > memory.total {
            let [wants, left] = [minimum, memory.total.saturating_sub(minima)].map(|chunks| u64::from(chunks) * CHUNK);
            return Err(Failure::refused(format!(
                "a minimum of {wants} bytes is not possible: the budget of the guests has {left} bytes beside the minima of \
                 the others. `ferrite guest budget POOL --set BYTES` changes it"
            )));
        }
        Ok(())
    }

    /// Stores the record that `change` makes of that of the guest in `tag`. Durable on return.
    fn change_record(&self, tag: &Tag, change: impl Fn(&mut ShareRecord)) -> std::result::Result<(), Failure> {
        let layout = GuestLayout::read(tag)?;
        let mut record = ShareRecord::read(tag).expect("the layout was read");
        change(&mut record);
        let attributes = layout.attributes(&record);
        let open = self.open.lock().get(&tag.name).map(|open| Arc::clone(&open.engine));
        if let Some(engine) = open {
            return Ok(engine.space.set_attributes(attributes)?);
        }
        if self.pool.user_of(tag).is_none() {
            return Ok(self.pool.hold(&tag.name)?.set_attributes(attributes)?);
        }
        // The process that has the guest stores no attributes.
        let change = TagChange { size: tag.size, attributes, add: &[], keep: &tag.extents };
        self.pool.change_tag(tag, &change, |_| Ok(()))?;
        Ok(())
    }

    /// Changes the share of the guest called `name`.
    pub(crate) fn set(&self, name: &str, asked: AskedShare) -> std::result::Result<GuestReport, Failure> {
        let tag = self.tag(name)?;
        GuestLayout::read(&tag)?;
        let share = asked.after(ShareRecord::read(&tag).expect("the layout was read").share)?;
        self.ensure_minimum(name, share.min)?;
        self.change_record(&tag, |record| record.share = share)?;
        self.balance();
        Ok(self.report(&*self.tag(name)?))
    }

    /// Stores the budget in force with every guest: a crash, or a guest that was damaged, may have left another one.
    pub(crate) fn spread_budget(&self) {
        let budget = self.set_budget();
        if planted!("guest: a removed guest takes the budget along") {
            return;
        }
        for tag in self.tags() {
            if ShareRecord::read(&tag).is_some_and(|record| record.budget != budget) {
                // The others have it still.
                let _ = self.change_record(&tag, |record| record.budget = budget);
            }
        }
    }

    /// Sets the budget, if `set_bytes` is given, and describes the memory of all guests.
    pub(crate) fn budget_report(&self, set_bytes: Option<u64>) -> std::result::Result<BudgetReport, Failure> {
        if let Some(bytes) = set_bytes {
            self.change_budget(if bytes > 0 { chunks_of(bytes)? } else { 0 })?;
        }
        self.balance();
        let memory = self.memory(0);
        let mut shared = self.shared.lock();
        let uses = self.uses(&mut shared);
        let bytes = |chunks: u32| u64::from(chunks) * CHUNK;
        let guests = uses.iter().map(|guest| {
            let target = shared.budget.target(&guest.name);
            let (wanted, may) = target.map_or((guest.chunks, guest.chunks), |target| (target.wanted, target.chunks));
            ShareReport {
                name: guest.name.clone(),
                pm_bytes: bytes(guest.chunks),
                target_bytes: bytes(may),
                wanted_bytes: bytes(wanted),
                min_bytes: bytes(guest.share.min),
                max_bytes: bytes(guest.share.max),
                weight: guest.share.weight,
                is_used: guest.is_used,
                missed_pages: target.map_or(0, |target| target.demand),
                waits_for: self.waits_for(guest, &shared, &uses),
            }
        });
        let guests = guests.collect();
        Ok(BudgetReport { bytes: bytes(memory.total), is_set: memory.is_set, given_bytes: bytes(memory.given), guests })
    }

    /// Returns what `guest` waits for.
    fn waits_for(&self, guest: &GuestUse, shared: &SharedBudget, all: &[GuestUse]) -> Option<String> {
        let target = shared.budget.target(&guest.name)?;
        if target.is_stuck || shared.stuck.contains(&guest.name) {
            return Some("gives nothing: its disk fails, or its process is stopped".into());
        }
        if guest.is_still {
            return Some("keeps its memory while a process has it mapped".into());
        }
        if target.chunks < guest.chunks {
            return Some(format!("gives {} bytes", u64::from(guest.chunks - target.chunks) * CHUNK));
        }
        let lacks = target.wanted.max(target.chunks).checked_sub(guest.chunks).filter(|lacks| *lacks > 0)?;
        let lacks = u64::from(lacks) * CHUNK;
        let open = self.open.lock().get(&guest.name).map(|open| Arc::clone(&open.lacks_space));
        if open.is_some_and(|lacks_space| lacks_space.load(Ordering::Relaxed)) {
            return Some(format!("waits for {lacks} bytes that the pool lacks"));
        }
        let gives = |other: &&GuestUse| shared.budget.target(&other.name).is_some_and(|it| it.wanted < other.chunks);
        let names: Vec<&str> = all.iter().filter(gives).map(|other| other.name.as_str()).collect();
        Some(match names.is_empty() {
            true => format!("gets {lacks} bytes"),
            false => format!("waits for {lacks} bytes from {}", names.join(", ")),
        })
    }

    /// Stores a budget of `chunks` with every guest; 0: none.
    fn change_budget(&self, chunks: u32) -> std::result::Result<(), Failure> {
        let tags = self.tags();
        let minima: u32 = tags.iter().filter_map(|tag| Some(ShareRecord::read(tag)?.share.min)).sum();
        if tags.is_empty() {
            return Err(Failure::refused("the pool has no guest: a budget is stored with guests".to_string()));
        }
        if chunks > 0 && chunks < minima {
            let minima = u64::from(minima) * CHUNK;
            return Err(Failure::refused(format!(
                "the minima of the guests are {minima} bytes together: `ferrite guest set` changes them"
            )));
        }
        let budget = SetBudget { number: self.set_budget().number + 1, chunks };
        let stored = tags.iter().map(|tag| self.change_record(tag, |record| record.budget = budget));
        // One guest that has it is enough, and the others get it later.
        let mut failed: Vec<Failure> = stored.filter_map(std::result::Result::err).collect();
        match failed.pop() {
            Some(failure) if failed.len() + 1 == tags.len() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Flushes the guest called `name` and closes it, so that others can have its memory; refused while a client uses
    /// it.
    pub(crate) fn detach(&self, name: &str, progress: ProgressCall<'_>) -> std::result::Result<GuestReport, Failure> {
        self.tag(name)?;
        self.end_uses(name)?;
        self.flush(name, progress)?;
        self.close(name)?;
        self.shared.lock().stuck.remove(name);
        Ok(self.report(&*self.tag(name)?))
    }
}
