//! The guests of a pool share its memory: the budget's steps, and what users set.
//!
//! A step runs every [`BALANCE`] on the thread of the pool's owner. Each open guest follows its target on its own
//! thread, so that no guest waits for the disk of another one. A closed guest gives chunks without its disk if these
//! have no truths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ferrite_memory::planted;
use ferrite_owner::ProgressCall;
use ferrite_pool::holding::TagCounts;
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Failure, FailureKind, Tag, TagChange};

use crate::budget::{GuestUse, MemoryBudget, sum};
use crate::frame_space::FrameSpace;
use crate::guest_resize::drop_last;
use crate::guest_share::{CHUNKS_MAX, GuestShare, SetBudget, ShareRecord, USUAL_WEIGHT, chunks_of};
use crate::open_guests::{OpenGuests, is_used};
use crate::{BudgetReport, GuestError, GuestLayout, GuestReport, PmRange, Result, ShareReport};

/// The time between two steps of the budget.
pub(crate) const BALANCE: Duration = Duration::from_millis(250);
/// The times that a new guest or a lent one looks for its minimum, and the time between them.
const COMING_STEPS: u32 = 500;
const COMING: Duration = Duration::from_millis(20);
const FRAMES: u64 = CHUNK / PAGE;

/// What the guests of a pool share, between the steps of the budget.
#[derive(Default)]
pub(crate) struct SharedBudget {
    budget: MemoryBudget,
    /// The last step.
    last: Option<LastStep>,
    missed: BTreeMap<String, MissedPages>,
    /// Guests that are about to be used, and have no client yet: new ones with their shares, and those that are lent.
    pub coming: BTreeMap<String, GuestShare>,
    /// Closed guests that could not give chunks.
    stuck: BTreeSet<String>,
}

/// A step of the budget.
struct LastStep {
    at: Instant,
    set_chunks: Option<u32>,
    guests: Vec<(String, GuestShare)>,
}

/// The missed pages of a guest.
struct MissedPages {
    /// The count of the guest when it was read last.
    count: u64,
    /// The missed pages since the last step.
    since_step: u64,
}

impl SharedBudget {
    /// Notes that the guest called `name` can give chunks again.
    pub fn forget_stuck(&mut self, name: &str) {
        self.stuck.remove(name);
    }

    /// Notes that the guest called `name` is made with the `share`.
    fn begin_new(&mut self, name: &str, share: GuestShare) {
        self.coming.insert(name.into(), share);
        self.last = None;
    }

    /// Notes that the guest called `name` was made, or was not. The next call does a step: the guest may have more than
    /// its target.
    pub fn end_new(&mut self, name: &str) {
        self.coming.remove(name);
        self.last = None;
    }

    /// Does a step if [`BALANCE`] has passed since the last one, or if the guests, their shares or the set budget
    /// changed. Promises their minima to the guests that are about to be used.
    fn step_if_due(&mut self, memory: &MemorySum, uses: &[GuestUse]) {
        let step = LastStep {
            at: Instant::now(),
            set_chunks: memory.is_set.then_some(memory.total),
            guests: uses.iter().map(|guest| (guest.name.clone(), guest.share)).collect(),
        };
        let is_early = |last: &LastStep| {
            let is_same = last.set_chunks == step.set_chunks && last.guests == step.guests;
            is_same && step.at.duration_since(last.at) < BALANCE
        };
        if !self.last.as_ref().is_some_and(is_early) {
            self.budget.step(memory.total, uses);
            self.missed.values_mut().for_each(|missed| missed.since_step = 0);
            self.last = Some(step);
        }
        for (name, share) in &self.coming {
            self.budget.promise_minimum(name, share.min, memory.total);
        }
    }
}

/// The share that a user asks for.
#[derive(Clone, Copy)]
pub(crate) struct AskedShare {
    pub pm: Option<PmRange>,
    pub weight: Option<u32>,
}

impl AskedShare {
    /// Returns the share `before` with the values that the user names.
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
        let max = u32::try_from(size.div_ceil(CHUNK)).unwrap_or(CHUNKS_MAX).clamp(1, CHUNKS_MAX);
        self.after(GuestShare { min: 1, max, weight: USUAL_WEIGHT })
    }
}

/// Returns the chunks of the guest in `tag`.
fn chunks(tag: &Tag) -> u32 {
    GuestLayout::read(tag).map_or(0, |layout| (layout.frames / FRAMES) as u32)
}

/// Returns the record of the guest in `tag`; `None` if the guest is damaged or of a newer version.
fn record(tag: &Tag) -> Option<ShareRecord> {
    GuestLayout::read(tag).ok().and_then(|_| ShareRecord::read(tag))
}

/// Returns the failure of a guest whose minimum did not come in time.
fn not_given() -> Failure {
    Failure::busy("the other guests have not given memory yet: try again, or see `ferrite guest budget`")
}

/// The guests' memory, in chunks.
struct MemorySum {
    /// For all guests together.
    total: u32,
    is_set: bool,
    /// What the guests have.
    given: u32,
    /// What the pool has free.
    free: u32,
}

impl MemorySum {
    /// Returns the chunks that guests can have together.
    fn most(&self) -> u32 {
        let has = self.given.saturating_add(self.free);
        if self.is_set { self.total.min(has) } else { has }
    }
}

impl OpenGuests {
    /// Returns the budget that was set last.
    fn set_budget(&self) -> SetBudget {
        let records = self.tags().into_iter().filter_map(|tag| record(&tag));
        records.map(|record| record.budget).max().unwrap_or_default()
    }

    /// Returns the sum of the minima of all guests except that called `except`.
    fn minima(&self, except: Option<&str>) -> u32 {
        let tags = self.tags();
        let others = tags.iter().filter(|tag| Some(tag.name.as_str()) != except);
        sum(others.filter_map(|tag| Some(record(tag)?.share.min)))
    }

    /// Returns the memory of the guests. `coming_minimum` is the minimum of a new guest. Without a budget
    /// that a user has set, no guest is asked for memory that the pool has.
    fn memory(&self, coming_minimum: u32) -> MemorySum {
        let given = sum(self.tags().iter().map(|tag| chunks(tag)));
        let set = self.set_budget().chunks;
        let free = u32::try_from(self.pool.usage().free_bytes / CHUNK).unwrap_or(u32::MAX);
        let least = self.minima(None).max(given).saturating_add(coming_minimum);
        let usual = (free.saturating_add(given) / 2).max(least);
        MemorySum { total: if set > 0 { set } else { usual }, is_set: set > 0, given, free }
    }

    /// Returns the guest in `tag` as the budget sees it, and adds its missed pages to those since the last step.
    fn use_of(&self, tag: &Tag, shared: &mut SharedBudget) -> Option<GuestUse> {
        let share = record(tag)?.share;
        let is_lent = self.pool.user_of(tag).is_some();
        // A process that has the guest from an earlier owner hears no wish.
        let is_deaf = is_lent && !TagCounts::of(&self.pool).is_reached(tag);
        let open = self.open.lock();
        let open = open.get(&tag.name);
        if open.is_some() || is_lent {
            shared.stuck.remove(&tag.name);
        }
        let is_coming = shared.coming.contains_key(&tag.name);
        let counts = open.map(|open| open.engine.counts()).or_else(|| self.lent_counts(tag));
        let count = counts.map_or(0, |counts| counts.missed_pages);
        let missed = shared.missed.entry(tag.name.clone()).or_insert(MissedPages { count, since_step: 0 });
        missed.since_step += count.saturating_sub(missed.count);
        missed.count = count;
        Some(GuestUse {
            name: tag.name.clone(),
            chunks: open.map_or_else(|| chunks(tag), |open| (open.engine.frames() / FRAMES) as u32),
            share,
            is_used: is_lent || open.is_some_and(is_used) || is_coming,
            is_still: is_deaf || (open.is_none() && !is_lent && !is_coming && shared.stuck.contains(&tag.name)),
            missed: missed.since_step,
        })
    }

    /// Returns all guests as the budget sees them.
    fn uses(&self, shared: &mut SharedBudget) -> Vec<GuestUse> {
        let tags = self.tags();
        let is_there = |name: &String| tags.iter().any(|tag| tag.name == *name);
        shared.missed.retain(|name, _| is_there(name));
        shared.stuck.retain(is_there);
        let mut uses: Vec<GuestUse> = tags.iter().filter_map(|tag| self.use_of(tag, shared)).collect();
        let new = |(name, share): (&String, &GuestShare)| {
            let (name, share) = (name.clone(), *share);
            GuestUse { name, chunks: 0, share, is_used: true, is_still: false, missed: 0 }
        };
        uses.extend(shared.coming.iter().filter(|(name, _)| !is_there(name)).map(new));
        uses
    }

    /// Does a step of the budget if one is due, and brings the guests closer to their targets.
    pub(crate) fn balance(&self) {
        for (name, target) in self.step_budget() {
            let is_coming = self.shared.lock().coming.contains_key(&name);
            let followed = if is_coming { Ok(()) } else { self.follow_closed(&name, target) };
            let is_temporary = |failure: &Failure| matches!(failure.kind, FailureKind::Busy | FailureKind::Full);
            if followed.is_err_and(|failure| !is_temporary(&failure)) {
                self.shared.lock().stuck.insert(name);
            }
        }
    }

    /// Does a step of the budget if one is due, and asks the open guests for their targets. Returns the closed guests
    /// that do not have theirs.
    fn step_budget(&self) -> Vec<(String, u32)> {
        let mut shared = self.shared.lock();
        let uses = self.uses(&mut shared);
        if uses.iter().all(|guest| guest.share.is_fixed() && guest.chunks == guest.share.min) {
            return Vec::new();
        }
        let memory = self.memory(sum(shared.coming.values().map(|share| share.min)));
        shared.step_if_due(&memory, &uses);
        let mut closed = Vec::new();
        for guest in &uses {
            let Some(target) = shared.budget.target(&guest.name) else { continue };
            let open = self.open.lock().get(&guest.name).map(|open| Arc::clone(&open.asked));
            let frames = u64::from(target.chunks) * FRAMES;
            if let Some(asked) = open {
                asked.store(frames, Ordering::Relaxed);
            } else if self.tag(&guest.name).is_ok_and(|tag| TagCounts::of(&self.pool).set_wish(&tag, frames)) {
                // The process that has the guest follows.
            } else if target.chunks != guest.chunks && !guest.is_still {
                closed.push((guest.name.clone(), target.chunks));
            }
        }
        closed
    }

    /// Brings a closed guest closer to `target` chunks: adds what it lacks, or frees its last chunk. If that chunk has
    /// truths, another thread opens the guest, because its disk may hang. The guest stands still until it is open.
    fn follow_closed(&self, name: &str, target: u32) -> std::result::Result<(), Failure> {
        let lease = self.pool.hold(name)?;
        // The share may be another one than at the step.
        let Some(share) = record(&lease.tag()).map(|record| record.share) else { return Ok(()) };
        let space = FrameSpace::of(lease)?;
        let frames = u64::from(target.min(share.max)) * FRAMES;
        if space.layout.frames < frames {
            return Ok(space.widen(frames)?);
        }
        let dropped = drop_last(&space, frames);
        // Ends the lease.
        drop(space);
        match dropped {
            Err(GuestError::Refused(_)) => {
                self.shared.lock().stuck.insert(name.into());
                self.open_aside(name);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Returns the chunks of a new guest with the `share`, and the budget that it stores. Waits a while until the
    /// others have given its minimum. The caller ends the guest's coming.
    pub(crate) fn begin(&self, name: &str, share: GuestShare) -> std::result::Result<(u32, SetBudget), Failure> {
        self.ensure_minimum_of(None, share.min)?;
        self.shared.lock().begin_new(name, share);
        for _ in 0..COMING_STEPS {
            self.balance();
            let chunks = self.shared.lock().budget.target(name).map_or(share.min, |target| target.chunks);
            if chunks >= share.min {
                let memory = self.memory(share.min);
                let more = memory.total.saturating_sub(memory.given.saturating_add(chunks));
                return Ok((chunks.saturating_add(more).min(share.max), self.set_budget()));
            }
            std::thread::sleep(COMING);
        }
        self.shared.lock().end_new(name);
        Err(not_given())
    }

    /// Gives a closed guest its minimum, before another process has it. Waits a while until the others have given it. The
    /// caller has named the guest in `coming`.
    pub(crate) fn fill_up(&self, name: &str, share: GuestShare) -> std::result::Result<(), Failure> {
        let is_filled = || {
            let tag = self.tag(name)?;
            // No space joins a guest that another process has already: lending it is refused.
            Ok::<_, Failure>(chunks(&tag) >= share.min || self.pool.user_of(&tag).is_some())
        };
        if is_filled()? {
            return Ok(());
        }
        for _ in 0..COMING_STEPS {
            self.balance();
            let target = self.shared.lock().budget.target(name).map_or(0, |target| target.chunks);
            let widen = |space: FrameSpace| space.widen(u64::from(target) * FRAMES);
            if target > chunks(&*self.tag(name)?)
                && let Err(error) = self.pool.hold(name).and_then(FrameSpace::of).and_then(widen)
                && !matches!(error.kind(), FailureKind::Full | FailureKind::Busy)
            {
                return Err(error.into());
            }
            if is_filled()? {
                return Ok(());
            }
            std::thread::sleep(COMING);
        }
        Err(not_given())
    }

    /// Refuses a minimum of `chunks` for the guest called `name` that the budget or the pool has no room for.
    pub(crate) fn ensure_minimum(&self, name: &str, chunks: u32) -> std::result::Result<(), Failure> {
        self.ensure_minimum_of(Some(name), chunks)
    }

    fn ensure_minimum_of(&self, name: Option<&str>, minimum: u32) -> std::result::Result<(), Failure> {
        let minima = self.minima(name);
        let is_possible = |memory: &MemorySum| minima.saturating_add(minimum) <= memory.most();
        let mut memory = self.memory(0);
        if !is_possible(&memory) && self.pool.take_spare(None) {
            memory = self.memory(0);
        }
        if is_possible(&memory) {
            return Ok(());
        }
        let bytes = |chunks: u32| u64::from(chunks) * CHUNK;
        let (wants, left) = (bytes(minimum), bytes(memory.most().saturating_sub(minima)));
        Err(Failure::refused(if memory.is_set && memory.total == memory.most() {
            format!(
                "a minimum of {wants} bytes is not possible: the budget of the guests has {left} bytes beside the minima of \
                 the others. `ferrite guest budget POOL --set BYTES` changes it"
            )
        } else {
            format!(
                "a minimum of {wants} bytes is not possible: the pool has {left} bytes for it beside the minima of the \
                 others"
            )
        }))
    }

    /// Changes the record of the guest called `name` by `change`, and stores it. Durable on return. The caller holds
    /// `changing`.
    pub(crate) fn change_record(
        &self,
        name: &str,
        change: impl Fn(&mut ShareRecord),
    ) -> std::result::Result<(), Failure> {
        let tag = &*self.tag(name)?;
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
        let changing = self.changing.lock();
        let tag = self.tag(name)?;
        GuestLayout::read(&tag)?;
        let before = ShareRecord::read(&tag).expect("the layout was read").share;
        let share = asked.after(before)?;
        if share.min > before.min {
            self.ensure_minimum(name, share.min)?;
        }
        self.change_record(name, |record| record.share = share)?;
        drop(changing);
        self.balance();
        Ok(self.report(&*self.tag(name)?))
    }

    /// Stores the budget in force with every guest: a crash, or a guest that was damaged, may have left another one.
    pub(crate) fn spread_budget(&self) {
        let _changing = self.changing.lock();
        let budget = self.set_budget();
        if planted!("guest: a removed guest takes the budget along") {
            return;
        }
        for tag in self.tags() {
            if record(&tag).is_some_and(|record| record.budget != budget) {
                // The others have it still.
                let _ = self.change_record(&tag.name, |record| record.budget = budget);
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
            return Some("keeps its memory: its process has it from an earlier owner of the pool".into());
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
        let _changing = self.changing.lock();
        let (tags, minima) = (self.tags(), self.minima(None));
        if tags.is_empty() {
            return Err(Failure::refused("the pool has no guest: a budget is stored with guests".to_string()));
        }
        if chunks > 0 && chunks < minima {
            let minima = u64::from(minima) * CHUNK;
            return Err(Failure::refused(format!(
                "the minima of the guests are {minima} bytes together: `ferrite guest set` changes them"
            )));
        }
        let number = self.set_budget().number.checked_add(1);
        let number = number.ok_or_else(|| Failure::refused("the budget was set as often as its number allows"))?;
        let budget = SetBudget { number, chunks };
        let stored = tags.iter().map(|tag| self.change_record(&tag.name, |record| record.budget = budget));
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
        self.shared.lock().forget_stuck(name);
        Ok(self.report(&*self.tag(name)?))
    }
}
